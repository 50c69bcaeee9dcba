/* y = post * (I_q kron H_b)(pre * (x - minus)) + add on one row; a template in REAL, LANES and NAME().
 *
 * The Sylvester part of H_b is a fast Walsh-Hadamard transform over the whole row: its blocks are
 * contiguous, so a smaller block only means fewer stages. Stages shorter than a vector are one
 * shuffle and one multiply-add; longer ones add and subtract whole vectors, up to eight of them in
 * registers at once, i.e. three stages per pass over memory. The other Kronecker factors (12, 20, ...)
 * are small dense products. Any size works; rows shorter than a vector use scalar code.
 */

typedef REAL vec __attribute__((vector_size(LANES * sizeof(REAL))));
typedef INTEGER bits __attribute__((vector_size(LANES * sizeof(REAL))));
/* The same vector in memory that is only aligned to one element. */
typedef REAL mem __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

INLINE vec load(const REAL *p) { return *(const mem *)p; }
INLINE void store(REAL *p, vec v) { *(mem *)p = v; }

/* v if the state is positive or NaN, else 0, so that ReLU does not hide a NaN. */
INLINE vec NAME(keep_positive)(vec state, vec v)
{
    return (vec)((bits)v & ~(bits)(state <= 0));
}

/* All stages below `span` (a power of two, at most LANES) inside one vector. */
INLINE vec NAME(lane_stages)(vec v, int64_t span)
{
#if LANES == 2
    if (span >= 2) v = LANE_STAGE(v, LIST(1, -1), 1, 0);
#elif LANES == 4
    if (span >= 2) v = LANE_STAGE(v, LIST(1, -1, 1, -1), 1, 0, 3, 2);
    if (span >= 4) v = LANE_STAGE(v, LIST(1, 1, -1, -1), 2, 3, 0, 1);
#elif LANES == 8
    if (span >= 2) v = LANE_STAGE(v, LIST(1, -1, 1, -1, 1, -1, 1, -1), 1, 0, 3, 2, 5, 4, 7, 6);
    if (span >= 4) v = LANE_STAGE(v, LIST(1, 1, -1, -1, 1, 1, -1, -1), 2, 3, 0, 1, 6, 7, 4, 5);
    if (span >= 8) v = LANE_STAGE(v, LIST(1, 1, 1, 1, -1, -1, -1, -1), 4, 5, 6, 7, 0, 1, 2, 3);
#elif LANES == 16
    if (span >= 2)
        v = LANE_STAGE(v, LIST(1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1),
                       1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    if (span >= 4)
        v = LANE_STAGE(v, LIST(1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1),
                       2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    if (span >= 8)
        v = LANE_STAGE(v, LIST(1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1),
                       4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    if (span >= 16)
        v = LANE_STAGE(v, LIST(1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1),
                       8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
    return v;
}

/* The transform of order `radix` (1, 2, 4 or 8, a constant) across vectors held in registers. */
INLINE void NAME(butterflies)(vec *v, int radix)
{
    if (radix == 8) {
        BUTTERFLY(0, 4); BUTTERFLY(1, 5); BUTTERFLY(2, 6); BUTTERFLY(3, 7);
        BUTTERFLY(4, 6); BUTTERFLY(5, 7);
        BUTTERFLY(4, 5); BUTTERFLY(6, 7);
    }
    if (radix >= 4) {
        BUTTERFLY(0, 2); BUTTERFLY(1, 3);
        BUTTERFLY(2, 3);
    }
    if (radix >= 2) BUTTERFLY(0, 1);
}

/* One pass over memory: `radix` vectors at a time, `stride` elements apart. */
typedef struct {
    int64_t radix, stride;
} NAME(Pass);

/* The properties of W that a transform needs. */
typedef struct {
    int64_t size, sylvester, num_factors;
    int inside; /* whether the first pass has stages inside a vector */
    const int64_t *orders;
    int64_t num_passes; /* passes of the Sylvester part, if its order is at least LANES */
    NAME(Pass) passes[24];
    REAL *work; /* two rows */
    REAL rest;  /* see SCALED */
} NAME(Plan);

/* v = post * T(pre * (v - minus)) + add on `count` vectors in registers, `stride` numbers apart from the
 * pointers on; T is the transform across every `radix` vectors and, with `lanes`, inside them. */
INLINE void NAME(turn)(int count, int radix, int lanes, int64_t stride, REAL rest, vec *v, const REAL *minus,
                       const REAL *pre, const REAL *post, const REAL *add)
{
    if (minus) {
        UNROLL for (int j = 0; j < count; j++) v[j] -= load(minus + j * stride);
    }
    if (pre) {
        UNROLL for (int j = 0; j < count; j++) v[j] = SCALED(v[j], load(pre + j * stride), rest, (vec){0});
    }
    if (lanes) {
        UNROLL for (int j = 0; j < count; j++) v[j] = NAME(lane_stages)(v[j], LANES);
    }
    UNROLL for (int j = 0; j < count; j += radix) NAME(butterflies)(v + j, radix);
    if (post) {
        UNROLL for (int j = 0; j < count; j++) v[j] = SCALED(v[j], load(post + j * stride), rest, load(add + j * stride));
    } else if (add) {
        UNROLL for (int j = 0; j < count; j++) v[j] += load(add + j * stride);
    }
}

#define AT(p) ((p) ? (p) + start : NULL)
/* One pass over memory: `radix` vectors, `stride` elements apart, from each of the starts that tile
 * the row. The first pass of a transform (`lanes`) also does the stages inside a vector. */
INLINE void NAME(pass)(const NAME(Plan) *plan, int radix, int lanes, int64_t stride, const REAL *in,
                       const REAL *minus, const REAL *pre, REAL *out, const REAL *post, const REAL *add)
{
    const int64_t size = plan->size;
    const REAL rest = plan->rest;
    for (int64_t outer = 0; outer < size; outer += radix * stride) {
        for (int64_t start = outer; start < outer + stride; start += LANES) {
            vec v[8];
            UNROLL for (int j = 0; j < radix; j++) v[j] = load(in + start + j * stride);
            NAME(turn)(radix, radix, lanes, stride, rest, v, AT(minus), AT(pre), AT(post), AT(add));
            UNROLL for (int j = 0; j < radix; j++) store(out + start + j * stride, v[j]);
        }
    }
}
#undef AT

INLINE void NAME(any_pass)(const NAME(Plan) *plan, int64_t radix, int lanes, int64_t stride, const REAL *in,
                           const REAL *minus, const REAL *pre, REAL *out, const REAL *post, const REAL *add)
{
    switch (radix) { /* each case inlines a pass for that constant */
    case 1: NAME(pass)(plan, 1, lanes, stride, in, minus, pre, out, post, add); break;
    case 2: NAME(pass)(plan, 2, lanes, stride, in, minus, pre, out, post, add); break;
    case 4: NAME(pass)(plan, 4, lanes, stride, in, minus, pre, out, post, add); break;
    default: NAME(pass)(plan, 8, lanes, stride, in, minus, pre, out, post, add); break;
    }
}

/* Divide the stages above the vector evenly into passes of at most three; at least one pass, for the stages inside. */
static void NAME(plan_passes)(NAME(Plan) *plan)
{
    int64_t stages = 0, stride = LANES;
    plan->num_passes = 0;
    if (plan->sylvester < LANES) return;
    while (LANES << stages < plan->sylvester) stages++;
    for (int64_t left = stages < 3 ? 1 : (stages + 2) / 3; left > 0; left--) {
        int64_t share = (stages + left - 1) / left;
        plan->passes[plan->num_passes++] = (NAME(Pass)){(int64_t)1 << share, stride};
        stride <<= share;
        stages -= share;
    }
}

/* Describe H to `transform`. The transform of `lanes` interleaved rows (1 or LANES) is
 * that of one row by (I_q kron H kron I_lanes). */
static void NAME(make_plan)(NAME(Plan) *plan, const ScanArgs *args, int64_t lanes)
{
    plan->size = args->hidden * lanes;
    plan->sylvester = args->sylvester * lanes;
    plan->num_factors = args->num_factors;
    plan->orders = args->factor_orders;
    plan->inside = lanes == 1;
    plan->rest = ROUNDS_ONCE ? (REAL)(args->scale / (REAL)args->scale - 1) : 0;
    NAME(plan_passes)(plan);
}

/* The transform in blocks of plan->sylvester >= LANES: every size is then a whole number of vectors. */
static void NAME(sylvester_wide)(const NAME(Plan) *plan, const REAL *in, const REAL *minus, const REAL *pre,
                                 REAL *out, const REAL *post, const REAL *add)
{
    const NAME(Pass) *pass = plan->passes, *final = pass + plan->num_passes - 1;
    const REAL *first_post = pass == final ? post : NULL, *first_add = pass == final ? add : NULL;
    if (plan->inside)
        NAME(any_pass)(plan, pass->radix, 1, LANES, in, minus, pre, out, first_post, first_add);
    else
        NAME(any_pass)(plan, pass->radix, 0, LANES, in, minus, pre, out, first_post, first_add);
    while (pass++ < final)
        NAME(any_pass)(plan, pass->radix, 0, pass->stride, out, NULL, NULL, out, pass == final ? post : NULL,
                       pass == final ? add : NULL);
}

/* In place, in blocks of `order` < LANES; the last vector may be partly filled with whole blocks. */
static void NAME(sylvester_narrow)(int64_t size, int64_t order, REAL *row)
{
    int64_t start = 0;
    for (; start + LANES <= size; start += LANES)
        store(row + start, NAME(lane_stages)(load(row + start), order));
    for (int64_t stride = 1; stride < order; stride *= 2) {
        for (int64_t i = start; i < size; i++) {
            if (i & stride) continue;
            REAL sum = row[i] + row[i + stride];
            row[i + stride] = row[i] - row[i + stride];
            row[i] = sum;
        }
    }
}

/* y_r = F x_r for `rows` consecutive rows; `columns` holds F'. Computes `vectors` (a constant) vectors of y, from
 * element i on. */
INLINE void NAME(dense_tile)(int vectors, int64_t order, int64_t i, int64_t rows, const REAL *columns, const REAL *x,
                             REAL *y)
{
    for (int64_t r = 0; r < rows; r++) {
        vec sums[4] = {{0}};
        for (int64_t j = 0; j < order; j++) {
            REAL value = x[r * order + j];
            UNROLL for (int v = 0; v < vectors; v++) sums[v] += load(columns + j * order + i + v * LANES) * value;
        }
        UNROLL for (int v = 0; v < vectors; v++) store(y + r * order + i + v * LANES, sums[v]);
    }
}

static void NAME(dense_rows)(int64_t order, int64_t rows, const REAL *columns, const REAL *x, REAL *y)
{
    int64_t i = 0;
    for (; i + 4 * LANES <= order; i += 4 * LANES) NAME(dense_tile)(4, order, i, rows, columns, x, y);
    for (; i + LANES <= order; i += LANES) NAME(dense_tile)(1, order, i, rows, columns, x, y);
    if (i < order && order >= LANES) { /* the last vector overlaps the one before */
        NAME(dense_tile)(1, order, order - LANES, rows, columns, x, y);
        return;
    }
    for (; i < order; i++)
        for (int64_t r = 0; r < rows; r++) {
            REAL sum = 0;
            for (int64_t j = 0; j < order; j++) sum += columns[j * order + i] * x[r * order + j];
            y[r * order + i] = sum;
        }
}

/* In place, (I kron F kron I_rest) with F dense of `order`: y_i = sum_j F_ij x_j, each x_j `rest` long.
 * `columns` holds F' (row j is column j of F), `work` 2 * order * rest elements. A `rest` shorter than a vector is
 * transposed first: then the products run along `order`. */
static void NAME(dense_factor)(int64_t size, int64_t order, int64_t rest, const REAL *columns, REAL *row,
                               REAL *restrict work)
{
    int64_t block = order * rest;
    REAL *restrict transposed = work + block;
    for (int64_t start = 0; start < size; start += block) {
        REAL *restrict x = row + start;
        if (rest == 1) {
            NAME(dense_rows)(order, 1, columns, x, work);
            memcpy(x, work, (size_t)block * sizeof(REAL));
        } else if (rest < LANES) {
            for (int64_t r = 0; r < rest; r++)
                for (int64_t j = 0; j < order; j++) transposed[r * order + j] = x[j * rest + r];
            NAME(dense_rows)(order, rest, columns, transposed, work);
            for (int64_t r = 0; r < rest; r++)
                for (int64_t j = 0; j < order; j++) x[j * rest + r] = work[r * order + j];
        } else {
            memset(work, 0, (size_t)block * sizeof(REAL));
            for (int64_t i = 0; i < order; i++)
                for (int64_t j = 0; j < order; j++) {
                    REAL sign = columns[j * order + i];
                    for (int64_t r = 0; r < rest; r++) work[i * rest + r] += sign * x[j * rest + r];
                }
            memcpy(x, work, (size_t)block * sizeof(REAL));
        }
    }
}

/* out = post * (I_q kron H)(pre * (in - minus)) + add; `columns` the transposes of H's factors (for H' the
 * factors themselves: S is symmetric). All but in and out may be NULL, post comes
 * with add; out may be in, nothing else overlaps. */
static void NAME(transform)(const NAME(Plan) *plan, const REAL *columns, const REAL *in, const REAL *minus,
                            const REAL *pre, REAL *out, const REAL *post, const REAL *add)
{
    int64_t size = plan->size, rest = plan->sylvester;
    if (plan->num_factors == 0 && rest >= LANES) {
        NAME(sylvester_wide)(plan, in, minus, pre, out, post, add);
        return;
    }
    if (rest >= LANES) {
        NAME(sylvester_wide)(plan, in, minus, pre, out, NULL, NULL);
    } else {
        for (int64_t i = 0; i < size; i++) out[i] = minus ? in[i] - minus[i] : in[i];
        if (pre) for (int64_t i = 0; i < size; i++) out[i] = SCALED(out[i], pre[i], plan->rest, 0);
        NAME(sylvester_narrow)(size, rest, out);
    }
    const REAL *matrix = columns;
    for (int64_t f = 0; f < plan->num_factors; f++) matrix += plan->orders[f] * plan->orders[f];
    for (int64_t f = plan->num_factors - 1; f >= 0; f--) { /* the last factor is the innermost */
        int64_t order = plan->orders[f];
        matrix -= order * order;
        NAME(dense_factor)(size, order, rest, matrix, out, plan->work);
        rest *= order;
    }
    if (post)
        for (int64_t i = 0; i < size; i++) out[i] = SCALED(out[i], post[i], plan->rest, add[i]);
    else if (add)
        for (int64_t i = 0; i < size; i++) out[i] += add[i];
}

/* A chain of transforms, each applied to the result of the one before: with in = out[i - 1] and f the identity or ReLU,
 * out[i] = f(post * (I_q kron H)(pre * (in - minus[i])) + add[i]). `minus`, `add` and each add[i] may be NULL. */
typedef struct {
    const REAL *pre, *post;
    const REAL *const *minus, *const *add;
    int relu;
} NAME(Chain);

/* A row of `width` vectors, in blocks of `radix`, which stays in registers from one transform to the next. */
INLINE void NAME(chain_in_registers)(int width, int radix, REAL rest, const NAME(Chain) *chain, int64_t count,
                                     const REAL *in, REAL *const *out)
{
    vec v[8];
    UNROLL for (int j = 0; j < width; j++) v[j] = load(in + j * LANES);
    for (int64_t i = 0; i < count; i++) {
        NAME(turn)(width, radix, 1, LANES, rest, v, chain->minus ? chain->minus[i] : NULL, chain->pre, chain->post,
                   chain->add ? chain->add[i] : NULL);
        UNROLL for (int j = 0; j < width; j++) {
            if (chain->relu) v[j] = NAME(keep_positive)(v[j], v[j]);
            store(out[i] + j * LANES, v[j]);
        }
    }
}

NOINLINE void NAME(run_chain)(const NAME(Plan) *plan, const REAL *columns, const NAME(Chain) *chain, int64_t count,
                              const REAL *in, REAL *const *out)
{
    int fits = plan->num_factors == 0 && plan->num_passes == 1 && plan->inside && plan->size <= 8 * LANES;
#define IN_REGISTERS(width, radix) \
    case 10 * width + radix: NAME(chain_in_registers)(width, radix, plan->rest, chain, count, in, out); return
    switch (fits ? 10 * (plan->size / LANES) + plan->passes->radix : 0) {
        IN_REGISTERS(1, 1); IN_REGISTERS(2, 1); IN_REGISTERS(2, 2); IN_REGISTERS(4, 1); IN_REGISTERS(4, 2);
        IN_REGISTERS(4, 4); IN_REGISTERS(8, 1); IN_REGISTERS(8, 2); IN_REGISTERS(8, 4); IN_REGISTERS(8, 8);
    default: break;
    }
#undef IN_REGISTERS
    for (int64_t i = 0; i < count; in = out[i++]) {
        NAME(transform)(plan, columns, in, chain->minus ? chain->minus[i] : NULL, chain->pre, out[i], chain->post,
                        chain->add ? chain->add[i] : NULL);
        for (int64_t k = 0; chain->relu && k < plan->size; k++) out[i][k] = out[i][k] <= 0 ? 0 : out[i][k];
    }
}
