/* A tile: LANES rows of the batch side by side, one in each lane of a vector.
 *
 * Values of a tile have shape (units, LANES), so a transform over the units has no stage inside a vector, and
 * `transform` treats a tile as a row that is LANES times as long. Rows may end at different steps: past a row's
 * length, its lane no longer changes. Lanes without a row have length zero.
 */

typedef struct {
    int64_t index, first, rows; /* number of the tile, its first row, its number of rows */
    int64_t longest;            /* steps of the longest row */
    bits lengths;
    vec share;                  /* 1 / length, or 0 if the length is 0 */
} NAME(Tile);

/* Buffers for the steps of a tile, forward and backward. */
typedef struct {
    NAME(Plan) plan;
    const REAL *columns, *rows;  /* factors of H' and H, as `transform` takes them for H and H' */
    REAL *post[2];               /* (hidden,): u / sqrt(b), see `rounding` */
    double share;
    int64_t steps;               /* the length of a block */
    int64_t input_size;          /* numbers per input: channels, or -1 if it is z_t itself */
    REAL *x;                     /* (steps, channels or hidden, LANES) */
    REAL *state, *work;          /* (hidden, LANES) */
    REAL *segment;               /* (segment + 1, hidden, LANES), replay only */
    REAL *adjoints;              /* (steps, hidden, LANES), backwards only */
    REAL *mean, *positive;       /* (thresholds, hidden, LANES): sums, or the incoming gradients */
    INTEGER *mean_bits, *positive_bits; /* (segment, thresholds, words, LANES), if they are not kept */
    REAL *most;                  /* (hidden, LANES): the maximum, or its gradient */
    REAL *grad_weight;           /* sums: (channels, hidden, LANES), the others (hidden, LANES) */
    REAL *grad_bias, *grad_signs;
    void *memory;
} NAME(TileScratch);

/* A vector of integers in memory that is only aligned to one of them. */
typedef INTEGER NAME(bit_memory) __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
INLINE bits NAME(load_bits)(const INTEGER *p) { return *(const NAME(bit_memory) *)p; }
INLINE void NAME(store_bits)(INTEGER *p, bits v) { *(NAME(bit_memory) *)p = v; }

/* The next higher bit, in unsigned numbers, where the highest bit may be shifted out. */
#if REAL_IS_DOUBLE
typedef uint64_t NAME(unsigned_bits) __attribute__((vector_size(LANES * sizeof(REAL))));
#else
typedef uint32_t NAME(unsigned_bits) __attribute__((vector_size(LANES * sizeof(REAL))));
#endif
INLINE bits NAME(next_bit)(bits bit) { return (bits)((NAME(unsigned_bits))bit + (NAME(unsigned_bits))bit); }

INLINE vec NAME(select)(bits where, vec yes, vec no)
{
    return (vec)(((bits)yes & where) | ((bits)no & ~where));
}

INLINE vec NAME(only)(bits where, vec v) { return (vec)((bits)v & where); }

static int NAME(all_set)(bits where)
{
    INTEGER every = -1;
    for (int lane = 0; lane < LANES; lane++) every &= where[lane];
    return every == -1;
}

static NAME(Tile) NAME(tile_at)(const ScanArgs *args, int64_t index)
{
    NAME(Tile) tile = {.index = index, .first = index * LANES};
    tile.rows = args->batch - tile.first < LANES ? args->batch - tile.first : LANES;
    for (int64_t lane = 0; lane < tile.rows; lane++) {
        int64_t length = args->lengths ? args->lengths[tile.first + lane] : args->time;
        tile.lengths[lane] = (INTEGER)length;
        tile.share[lane] = length ? 1 / (REAL)length : 0;
        if (length > tile.longest) tile.longest = length;
    }
    return tile;
}

/* to[i][lane] = from[lane][i], i < size, where rows of `from` are `stride` apart; lanes without a row are 0. */
static void NAME(rows_to_tile)(const NAME(Tile) *tile, int64_t size, int64_t stride, const REAL *from, REAL *to)
{
    int64_t first = 0; /* first number outside all whole squares */
    if (tile->rows < LANES || !from) memset(to, 0, (size_t)(size * LANES) * sizeof(REAL));
    for (; from && tile->rows == LANES && first + LANES <= size; first += LANES) {
        vec v[LANES];
        UNROLL for (int lane = 0; lane < LANES; lane++) v[lane] = load(from + lane * stride + first);
        NAME(transpose)(v);
        UNROLL for (int i = 0; i < LANES; i++) store(to + (first + i) * LANES, v[i]);
    }
    for (int64_t lane = 0; from && lane < tile->rows; lane++)
        for (int64_t i = first; i < size; i++) to[i * LANES + lane] = from[lane * stride + i];
}

/* The inverse: to[lane][i] = from[i][lane]. */
static void NAME(tile_to_rows)(const NAME(Tile) *tile, int64_t size, int64_t stride, const REAL *from, REAL *to)
{
    int64_t first = 0;
    for (; tile->rows == LANES && first + LANES <= size; first += LANES) {
        vec v[LANES];
        UNROLL for (int i = 0; i < LANES; i++) v[i] = load(from + (first + i) * LANES);
        NAME(transpose)(v);
        UNROLL for (int lane = 0; lane < LANES; lane++) store(to + lane * stride + first, v[lane]);
    }
    for (int64_t lane = 0; lane < tile->rows; lane++)
        for (int64_t i = first; i < size; i++) to[lane * stride + i] = from[i * LANES + lane];
}

/* Copy the inputs of the steps t0 .. t0 + count - 1 to scratch->x. */
static void NAME(load_inputs)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile,
                              int64_t t0, int64_t count)
{
    int64_t size = args->input_kind == INPUT_ROWS ? args->hidden : args->input_size, stride = args->time * size;
    if (size) NAME(rows_to_tile)(tile, count * size, stride, (const REAL *)args->x + tile->first * stride + t0 * size, scratch->x);
}

/* The inputs of step t of the block. */
INLINE const REAL *NAME(input_of)(const ScanArgs *args, const NAME(TileScratch) *scratch, int64_t t)
{
    return scratch->x + t * (args->input_kind == INPUT_ROWS ? args->hidden : args->input_size) * LANES;
}

/* z_i = sum_j U_ij x_j + b_i of one unit; with a `size` of -1, x_i itself. */
INLINE vec NAME(unit_input)(const ScanArgs *args, const REAL *x, int64_t size, int64_t i)
{
    const REAL *weight = args->weight, *bias = args->bias;
    if (size < 0) return load(x + i * LANES);
    vec z = {0};
    if (bias) z += bias[i];
    for (int64_t j = 0; j < size; j++) z += load(x + j * LANES) * weight[j * args->hidden + i];
    return z;
}

/* h_t = f(u / sqrt(b) * product + z_t) from product = H h_{t-1}; rows that have ended keep `before`. */
INLINE void NAME(finish_step)(const ScanArgs *args, int64_t size, const REAL *post, REAL rest, const REAL *x, bits alive, int all,
                              const REAL *product, const REAL *before, REAL *after)
{
    const ScanArgs own = *args; /* local copy: rules out aliasing */
    for (int64_t i = 0; i < own.hidden; i++) {
        vec h = SCALED(load(product + i * LANES), (vec){0} + post[i], rest, NAME(unit_input)(&own, x, size, i));
        if (own.relu) h = NAME(keep_positive)(h, h);
        if (!all) h = NAME(select)(alive, h, load(before + i * LANES));
        store(after + i * LANES, h);
    }
}

/* Step t of a tile; `x` its inputs. `after` may be `before`. */
static void NAME(tile_step)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile, int64_t t,
                            const REAL *x, const REAL *before, REAL *after)
{
    bits alive = (bits)(tile->lengths > (INTEGER)t);
    int all = NAME(all_set)(alive);
    const REAL *post = scratch->post[NAME(rounding)(scratch->share, t, scratch->steps)];
    REAL *product = all ? after : scratch->work; /* rows that have ended still need `before` */
    NAME(transform)(&scratch->plan, scratch->columns, before, NULL, NULL, product, NULL, NULL);
    if (scratch->input_size == 1) /* the same with a constant */
        NAME(finish_step)(args, 1, post, scratch->plan.rest, x, alive, all, product, before, after);
    else
        NAME(finish_step)(args, scratch->input_size, post, scratch->plan.rest, x, alive, all, product, before, after);
}
