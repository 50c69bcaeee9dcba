/* One step of a layer with all of its transform in 16 bits but the last stage; a template in WIDE = float.
 *
 * A sum of n states may need many more bits, but seldom does: the sum that ends as a state of p bits is below
 * 2^(p-1) sqrt(n). So every stage saturates, nothing is clipped, and a certificate says whether that was right.
 *
 * Theorem. Let M = 2^15 - 1, and let a saturating butterfly take the registers a, b to s, d. If |s| < M and
 * |d| < M, neither was saturated, so s = a + b and d = a - b; and |a| = |s + d| / 2 < M, |b| = |s - d| / 2 < M.
 * By induction from the last stage back to the first: if all sums of the last saturating stage are inside
 * (-M, M), no register of any stage was saturated, and all of them are exact.
 *
 * A factor F comes first, on states. Its sums are exact up to the last addition, which saturates; by the same
 * induction it did not. The last stage, a + b and a - b, is done in words, together with what the input adds. A
 * word that is added to the bits of the float MAGIC gives the float MAGIC + word: nothing is converted, and one fused
 * multiply-add rounds to the state. `fits_narrow_step` of fixedpoint/native.py has the bounds.
 *
 * Where the groups are those of integer_layer.h (up to 512 units of 12 bits), the stages above them are exact, and all
 * is done in place: a group whose certificate fails still has its sums, which integer_layer.h finishes, and one whose
 * states would be clipped has what its last stage adds. Other networks build the next state in `work`: where
 * something fails, `state` is still what it was, and all of the step is made by integer_layer.h. Start reading at
 * `narrow_step`.
 */

enum { MOST_GROUP = 32, LONGEST_REST = 63 };

/* The largest and the least of what came by. */
typedef struct {
    narrow most, least;
} Range;

INLINE int at_edge(const Range *range)
{
    return any_bit((range->most == INT16_MAX) | (range->least <= -INT16_MAX));
}

/* What became of a group: its next states, a sum that may be wrong, or a state that must be clipped. */
typedef enum { MADE, SATURATED, CLIPPED } Outcome;

/* All stages of a half of a group. */
INLINE void half_group(int radix, const int16_t *in, int16_t *half, Range *range)
{
    narrow v[16];
    UNROLL for (int j = 0; j < radix; j++) v[j] = load_narrow(in + j * ROWS);
    narrow_butterflies(1, radix, v);
    UNROLL for (int j = 0; j < radix; j++) {
        range->most = most_narrow(range->most, v[j]);
        range->least = least_narrow(range->least, v[j]);
        store_narrow(half + j * ROWS, v[j]);
    }
}

/* MAGIC plus what the input adds to a sum. */
INLINE Pair NAME(lifted_drive)(const NAME(Layer) *layer, int64_t reads, int64_t unit, Pair first)
{
    float lift = layer->lift;
    if (reads < 0) {
        Pair drive = NAME(load_pair)(layer->x + unit * ROWS);
        return (Pair){{drive.v[0] * lift + MAGIC, drive.v[1] * lift + MAGIC}};
    }
    const float *weight = (const float *)layer->args->weight + unit * reads, bias = layer->lifted_bias[unit];
    Pair drive = {{first.v[0] * weight[0] + bias, first.v[1] * weight[0] + bias}};
    for (int64_t c = 1; c < reads; c++) {
        Pair x = NAME(load_pair)(layer->lifted_x + c * ROWS);
        drive.v[0] += x.v[0] * weight[c];
        drive.v[1] += x.v[1] * weight[c];
    }
    return drive;
}

/* The last stage of the `half` pairs of a group, and the rounding; returns whether a state is outside. */
INLINE int NAME(finish_group)(const NAME(Layer) *layer, int64_t reads, int64_t half, int64_t first,
                              const int16_t *halves, int16_t *next)
{
    int16_t top = (int16_t)(1 << (layer->args->activation_bits - 1));
    Pair x = NAME(load_pair)(reads < 0 ? layer->x : layer->lifted_x);
    wide scale = layer->lifted_scale - (wide){0}, offset = layer->lifted_offset - (wide){0};
    Seen seen = {0};
    for (int64_t t = 0; t < half; t++) {
        Duet ab = duet(load_narrow(halves + t * ROWS), load_narrow(halves + (t + half) * ROWS));
        UNROLL for (int j = 0; j < 2; j++) {
            int64_t i = t + j * half;
            Words sums = duet_sums(ab, layer->dots[first + i]), bits;
            Pair drive = NAME(lifted_drive)(layer, reads, first + i, x);
            UNROLL for (int n = 0; n < 2; n++)
                bits.v[n] = (word)fused_multiply_add((wide)((word)drive.v[n] + sums.v[n]), scale, offset);
            store_narrow(next + (first + i) * ROWS, lifted_states(bits.v[0], bits.v[1], &seen) - top);
        }
    }
    return outside(seen, top);
}

/* The lowest stages of `group` units side by side, and their next states. */
INLINE Outcome NAME(narrow_group)(const NAME(Layer) *layer, int64_t reads, int group, const int16_t *sums,
                                  int64_t first, int16_t *halves, int16_t *next)
{
    int half = group / 2;
    Range range = {{0}, {0}};
    half_group(half, sums + first * ROWS, halves, &range);
    half_group(half, sums + (first + half) * ROWS, halves + half * ROWS, &range);
    if (at_edge(&range)) return SATURATED;
    return NAME(finish_group)(layer, reads, half, first, halves, next) ? CLIPPED : MADE;
}

/* Make the states of a group that failed in place. */
static void NAME(mend_group)(const NAME(Layer) *layer, Outcome outcome, int64_t first, const int16_t *halves,
                             NAME(Turn) *turn)
{
    int64_t half = layer->group / 2;
    if (outcome == SATURATED) NAME(group)(layer, layer->state, first, 0, turn);
    for (int64_t t = 0; outcome == CLIPPED && t < half; t++) {
        Pair v[2] = {NAME(widened)(load_narrow(halves + t * ROWS)), NAME(widened)(load_narrow(halves + (t + half) * ROWS))};
        NAME(butterfly)(v, v + 1);
        NAME(finish)(layer, 2, layer->reads, 0, first + t, half, v, turn);
    }
}

/* All groups; where `next` is the state, which then has the sums, those that fail are mended. Returns whether
 * one failed otherwise, or more than every fourth was mended. */
INLINE int NAME(narrow_groups)(const NAME(Layer) *shared, int64_t reads, const int16_t *sums, int16_t *next,
                               NAME(Turn) *turn)
{
    const NAME(Layer) layer = *shared;
    narrow halves[MOST_GROUP];
    int16_t *half = (int16_t *)halves;
    int64_t mended = 0;
    for (int64_t i = 0; i < layer.args->hidden; i += layer.group) {
        Outcome outcome;
        switch (layer.group) { /* each case inlines the stages for that constant */
        case 2: outcome = NAME(narrow_group)(&layer, reads, 2, sums, i, half, next); break;
        case 4: outcome = NAME(narrow_group)(&layer, reads, 4, sums, i, half, next); break;
        case 8: outcome = NAME(narrow_group)(&layer, reads, 8, sums, i, half, next); break;
        case 16: outcome = NAME(narrow_group)(&layer, reads, 16, sums, i, half, next); break;
        default: outcome = NAME(narrow_group)(&layer, reads, 32, sums, i, half, next); break;
        }
        if (outcome == MADE) continue;
        if (next != layer.state) return 1;
        NAME(mend_group)(shared, outcome, i, half, turn);
        mended += layer.group;
    }
    return 4 * mended > layer.args->hidden;
}

/* (I kron F kron I_rest) of states, F dense of `order`; as `factor_pass`, but a row of `terms` is how many of the
 * sums of four it adds, the places of those, and the places of the ones that it subtracts. */
static void narrow_factor_pass(int64_t order, int64_t size, int64_t rest, const int32_t *terms, int16_t *sums,
                               const int16_t *in, int16_t *out)
{
    for (int64_t outer = 0; outer < size; outer += order * rest)
        for (int64_t t = outer; t < outer + rest; t++) {
            for (int64_t j = 0; j < order; j += 4) {
                narrow v[8];
                UNROLL for (int n = 0; n < 4; n++) v[n] = load_narrow(in + (t + (j + n) * rest) * ROWS);
                narrow_butterfly(0, v, v + 1);
                narrow_butterfly(0, v + 2, v + 3);
                v[4] = v[0], v[5] = v[1], v[6] = v[3], v[7] = v[2];
                UNROLL for (int n = 0; n < 2; n++) narrow_butterfly(0, v + n, v + n + 2);
                UNROLL for (int n = 4; n < 6; n++) narrow_butterfly(0, v + n, v + n + 2);
                UNROLL for (int n = 0; n < 8; n++) store_narrow(sums + (2 * j + n) * ROWS, v[n]);
            }
            const int32_t *term = terms;
            for (int64_t i = 0; i < order; i++) {
                const int32_t *minus = term + 1 + *term, *end = term + 1 + order / 4;
                narrow sum = load_narrow(sums + *++term);
                while (++term < minus) sum = saturating_sum(sum, load_narrow(sums + *term));
                for (; term < end; term++) sum = saturating_difference(sum, load_narrow(sums + *term));
                store_narrow(out + (t + i * rest) * ROWS, sum);
            }
        }
}

/* The terms of every row of F. At least half of them are added: the others would make the row's sum -1 times
 * what it should be, and `flips` has the sign that makes up for it. A sum of four adds its first column, so no sum
 * on the way is minus the sum of all its states: states of p bits fit as long as (order - 4) 2^(p-1) <= 2^15. */
static void NAME(make_terms)(int64_t order, const NAME(Pick) *pick, int32_t *terms, int16_t *flips)
{
    for (int64_t i = 0; i < order; i++, pick += order / 4) {
        int64_t plus = 0;
        for (int64_t j = 0; j < order / 4; j++) plus += pick[j].sign > 0;
        flips[i] = 2 * plus < order / 4 ? -1 : 1;
        *terms++ = (int32_t)(flips[i] > 0 ? plus : order / 4 - plus);
        for (int sign = 1; sign >= -1; sign -= 2)
            for (int64_t j = 0; j < order / 4; j++)
                if (pick[j].sign == (float)(sign * flips[i])) *terms++ = pick[j].place;
    }
}

static void NAME(prepare_narrow_step)(NAME(Layer) *layer)
{
    const IntegerLayerArgs *args = layer->args;
    int16_t none = 1, *flips = &none;
    if (args->num_factors) NAME(make_terms)(*args->factor_orders, layer->picks, layer->terms, flips = layer->flips);
    layer->in_place = !args->num_factors && layer->segment > 1 && layer->segment <= MOST_GROUP;
    layer->group = layer->in_place ? layer->segment : args->sylvester < MOST_GROUP ? args->sylvester : MOST_GROUP;
    layer->lift = args->round_multiplier == 1 ? 2 : 1;
    layer->lifted_scale = layer->rounding.scale / layer->lift;
    layer->lifted_offset = MAGIC - MAGIC * layer->lifted_scale + (float)(1 << (args->activation_bits - 1));
    for (int64_t i = 0; i < args->hidden; i++) {
        layer->lifted_bias[i] = ((const float *)args->bias)[i] * layer->lift + MAGIC;
        int sign = args->signs[i] * flips[i % args->block / args->sylvester];
        int32_t p = sign * (int32_t)layer->lift * (1 << args->state_shift);
        int32_t q = i % layer->group < layer->group / 2 ? p : -p; /* a + b, or a - b */
        layer->dots[i] = (int32_t)((uint32_t)p & 0xFFFF) | q * (1 << 16);
    }
}

static void saturating_transform(int64_t stages, int64_t size, int64_t sylvester, const int16_t *in, int16_t *out)
{
    narrow_transform(1, stages, size, sylvester, in, out);
}

/* The stages above the groups, into `out`; returns where the sums are. */
static const int16_t *NAME(upper_stages)(const NAME(Layer) *layer, int16_t *out)
{
    const IntegerLayerArgs *args = layer->args;
    const int16_t *in = layer->state;
    int64_t exact = args->narrow_stages;
    if (args->num_factors) {
        narrow_factor_pass(*args->factor_orders, args->hidden, args->sylvester, layer->terms, layer->narrow_sums, in, out);
        in = out, exact = 0;
    }
    for (int64_t order = args->sylvester, stages; order > layer->group; order >>= stages, in = out, exact = 0) {
        for (stages = 1; stages < 4 && order >> stages > layer->group; stages++);
        if (stages <= exact)
            exact_transform(stages, args->hidden, order, in, out);
        else
            saturating_transform(stages, args->hidden, order, in, out);
    }
    return in;
}

/* Make the step if that can be done in 16 bits; returns whether it was made. It rests after a failure, longer
 * after each one in a row: a network that always fails loses little time. */
static int NAME(narrow_step)(NAME(Layer) *layer, NAME(Turn) *turn)
{
    if (!layer->args->fits_narrow_step || !turn->all) return 0;
    if (layer->rest > 0) {
        layer->rest--;
        return 0;
    }
    for (int64_t k = 0; k < layer->reads * ROWS; k++) layer->lifted_x[k] = layer->x[k] * layer->lift;
    int64_t reads = layer->reads;
    int16_t *next = layer->in_place ? layer->state : layer->work;
    const int16_t *sums = NAME(upper_stages)(layer, next);
    int failed = reads == 1 ? NAME(narrow_groups)(layer, 1, sums, next, turn)
                            : NAME(narrow_groups)(layer, reads, sums, next, turn);
    layer->penalty = !failed ? 0 : layer->penalty < LONGEST_REST ? 2 * layer->penalty + 1 : LONGEST_REST;
    layer->rest = layer->penalty;
    if (layer->in_place) return 1;
    if (failed) return 0;
    layer->work = layer->state, layer->state = next;
    return 1;
}
