/* One step of a layer of an integer network, for a tile of ROWS rows; a template in WIDE.
 *
 *     a   = (u * H (v * h)) << s1           H = I kron (F_1 kron ... kron F_r kron S)
 *     a   = a - round(a / 2^k)              where the block leaks
 *     acc = a + shift(U x, s2) + (b_i << s3)
 *     h   = saturate(round(acc * m / 2^r))
 *
 * The first stages of S, between the units farthest apart, are done in 16 bits, all rows of a unit in one vector.
 * They leave 2^narrow_stages groups of units that no longer meet: each is widened, transformed and rounded by
 * itself, in a buffer that stays in the first-level cache, and goes back to where it came from.
 */

/* A sum of four columns, and its sign in a row. */
typedef struct {
    int32_t place;
    WIDE sign;
} NAME(Pick);

typedef struct {
    const IntegerLayerArgs *args;
    NAME(Rounding) rounding;
    int64_t segment;   /* units of a group that lie side by side: sylvester >> narrow_stages */
    int64_t last_radix; /* of the pass that ends with the rounding; the other stages come before */
    int64_t reads;     /* codes of a step, or -1 where `x` is what they add to the accumulators */
    WIDE *post;        /* (hidden,): u << s1, of what `widened` gives */
    int16_t *state;    /* (hidden, ROWS) */
    int16_t *work;     /* (hidden, ROWS) */
    int16_t *codes;    /* (seen, ROWS): what the step reads */
    WIDE *x;           /* (seen, ROWS): the same; or (hidden, ROWS) */
    int64_t pitch;     /* units from a segment to the next one in `buffer` */
    WIDE *buffer;      /* (block / sylvester, pitch, ROWS) */
    NAME(Pick) *picks; /* (order, order / 4) of every factor */
    WIDE *sums;        /* (2 order, ROWS) of the largest factor */

    /* The rest is of narrow_step.h. A lift is 1, or 2 where it makes room for the half that rounding adds. */
    int64_t group;     /* units side by side that take all their lower stages together */
    int in_place;      /* whether a group is a segment, and can be mended */
    int64_t rest, penalty; /* steps still to be made the other way, and as many as the last failure cost */
    WIDE lift, lifted_scale, lifted_offset; /* lifted sum + MAGIC -> MAGIC + 2^(p-1) + state */
    WIDE *lifted_bias; /* (hidden,): MAGIC + bias */
    WIDE *lifted_x;    /* (seen, ROWS) */
    int32_t *dots;     /* (hidden,): what the last stage makes of two sums, see `duet_sums` */
    int32_t *terms;    /* (order, 1 + order / 4) of the factor */
    int16_t *flips;    /* (order,) */
    int16_t *narrow_sums; /* (2 order, ROWS) */
} NAME(Layer);

/* Which rows take part in a step, and how many of their entries were clipped: lanes count downwards. */
typedef struct {
    narrow alive;
    int all;
    narrow clips;
} NAME(Turn);

/* shift(U x, s2) + (b_i << s3) of `radix` units, `stride` apart. */
INLINE void NAME(drive)(const NAME(Layer) *layer, int radix, int64_t reads, int64_t unit, int64_t stride, Pair *drive)
{
    const IntegerLayerArgs *args = layer->args;
    if (reads < 0) {
        UNROLL for (int j = 0; j < radix; j++) drive[j] = NAME(load_pair)(layer->x + (unit + j * stride) * ROWS);
        return;
    }
    const WIDE *weight = (const WIDE *)args->weight + unit * reads, *bias = (const WIDE *)args->bias + unit;
    int64_t shift = -args->input_shift;
    UNROLL for (int j = 0; j < radix; j++) {
        WIDE start = shift ? 0 : bias[j * stride];
        drive[j] = (Pair){{start - (wide){0}, start - (wide){0}}};
    }
    for (int64_t c = 0; c < reads; c++) {
        Pair x = NAME(load_pair)(layer->x + c * ROWS);
        UNROLL for (int j = 0; j < radix; j++) {
            WIDE w = weight[j * stride * reads + c];
            drive[j].v[0] += x.v[0] * w;
            drive[j].v[1] += x.v[1] * w;
        }
    }
    if (!shift) return;
    UNROLL for (int j = 0; j < radix; j++) {
        UNROLL for (int half = 0; half < 2; half++) {
            word product = rounded_shift(NAME(to_words)(drive[j].v[half]), (int)shift);
            drive[j].v[half] = NAME(from_words)(product) + bias[j * stride];
        }
    }
}

/* From the sums H (v * h) of `radix` units to their next states. */
INLINE void NAME(finish)(const NAME(Layer) *layer, int radix, int64_t reads, int leak, int64_t unit, int64_t stride,
                         const Pair *sums, NAME(Turn) *turn)
{
    const IntegerLayerArgs *args = layer->args;
    int16_t top = (int16_t)((1 << (args->activation_bits - 1)) - 1);
    narrow high = (narrow){0} + top, low = ~high;
    Pair drive[4];
    NAME(drive)(layer, radix, reads, unit, stride, drive);
    UNROLL for (int j = 0; j < radix; j++) {
        int64_t i = unit + j * stride;
        Words next;
        UNROLL for (int half = 0; half < 2; half++) {
            wide a = sums[j].v[half] * layer->post[i];
            if (leak) {
                word exact = NAME(to_words)(a);
                a = NAME(from_words)(exact - rounded_shift(exact, leak));
            }
            next.v[half] = NAME(rounded)(a + drive[j].v[half], &layer->rounding);
        }
        narrow h = packed(next.v[0], next.v[1]), kept = least_narrow(most_narrow(h, low), high);
        if (args->activation_bits == 16) { /* it is the packing that clips */
            Words back = signed_words(h);
            turn->clips += packed(back.v[0] != next.v[0], back.v[1] != next.v[1]);
        } else {
            turn->clips += h != kept;
        }
        if (args->relu) kept = most_narrow(kept, (narrow){0});
        if (!turn->all) kept = select_narrow(turn->alive, kept, load_narrow(layer->state + i * ROWS));
        store_narrow(layer->state + i * ROWS, kept);
    }
}

/* Widen `size` units and do the stages below `radix`. */
INLINE void NAME(load_pass)(int radix, int64_t size, const int16_t *in, const int8_t *signs, WIDE *out)
{
    for (int64_t t = 0; t < size; t += radix) {
        Pair v[8];
        UNROLL for (int j = 0; j < radix; j++) v[j] = NAME(widened)(load_narrow(in + (t + j) * ROWS));
        if (signs) UNROLL for (int j = 0; j < radix; j++) {
            v[j].v[0] *= signs[t + j];
            v[j].v[1] *= signs[t + j];
        }
        NAME(pair_butterflies)(v, radix);
        UNROLL for (int j = 0; j < radix; j++) NAME(store_pair)(out + (t + j) * ROWS, v[j]);
    }
}

/* Stages of the transform in place: `radix` pairs, `stride` units apart. */
INLINE void NAME(middle_pass)(int radix, int64_t size, int64_t stride, WIDE *row)
{
    for (int64_t outer = 0; outer < size; outer += radix * stride)
        for (int64_t t = outer; t < outer + stride; t++) {
            Pair v[8];
            UNROLL for (int j = 0; j < radix; j++) v[j] = NAME(load_pair)(row + (t + j * stride) * ROWS);
            NAME(pair_butterflies)(v, radix);
            UNROLL for (int j = 0; j < radix; j++) NAME(store_pair)(row + (t + j * stride) * ROWS, v[j]);
        }
}

/* (I kron F kron I_rest) in place, F dense of `order`, a multiple of 4. Four columns of F at a time have eight
 * sums up to a sign: they are formed once, and each row picks its own. */
INLINE void NAME(factor_pass)(int64_t order, int64_t size, int64_t rest, const NAME(Pick) *picks, WIDE *sums, WIDE *row)
{
    for (int64_t outer = 0; outer < size; outer += order * rest)
        for (int64_t t = outer; t < outer + rest; t++) {
            const NAME(Pick) *pick = picks;
            for (int64_t j = 0; j < order; j += 4) {
                Pair v[8];
                UNROLL for (int n = 0; n < 4; n++) v[n] = NAME(load_pair)(row + (t + (j + n) * rest) * ROWS);
                NAME(butterfly)(v, v + 1);
                NAME(butterfly)(v + 2, v + 3);
                v[4] = v[0], v[5] = v[1], v[6] = v[3], v[7] = v[2]; /* sum and difference, with either of the other */
                NAME(butterfly)(v, v + 2);
                NAME(butterfly)(v + 1, v + 3);
                NAME(butterfly)(v + 4, v + 6);
                NAME(butterfly)(v + 5, v + 7);
                UNROLL for (int n = 0; n < 8; n++) NAME(store_pair)(sums + (2 * j + n) * ROWS, v[n]);
            }
            for (int64_t i = 0; i < order; i++) {
                Pair sum = {{{0}, {0}}};
                UNROLL for (int64_t j = 0; j < order; j += 4, pick++) {
                    Pair some = NAME(load_pair)(sums + pick->place);
                    sum.v[0] += some.v[0] * pick->sign;
                    sum.v[1] += some.v[1] * pick->sign;
                }
                NAME(store_pair)(row + (t + i * rest) * ROWS, sum);
            }
        }
}

static __attribute__((noinline)) void NAME(any_factor_pass)(int64_t order, int64_t size, int64_t rest,
                                                            const NAME(Pick) *picks, WIDE *sums, WIDE *row)
{
    switch (order) { /* each case inlines a pass for that constant */
    case 12: NAME(factor_pass)(12, size, rest, picks, sums, row); break;
    case 20: NAME(factor_pass)(20, size, rest, picks, sums, row); break;
    default: NAME(factor_pass)(order, size, rest, picks, sums, row); break;
    }
}

/* Where each row of F finds the sum of each four of its columns: v[n] of `factor_pass`, with its sign. */
static void NAME(make_picks)(int64_t order, const int8_t *factor, NAME(Pick) *picks)
{
    /* The signs of columns 1, 2, 3 relative to column 0, a bit each where it is -1, and the sum of those signs. */
    static const int8_t sums[8] = {0, 5, 6, 3, 4, 1, 2, 7};
    for (int64_t i = 0; i < order; i++, factor += order)
        for (int64_t j = 0; j < order; j += 4, picks++) {
            int signs = 0;
            for (int n = 1; n < 4; n++) signs |= (factor[j + n] != factor[j]) << (n - 1);
            picks->place = (int32_t)((2 * j + sums[signs]) * ROWS);
            picks->sign = factor[j];
        }
}

/* The last stages, `radix` units `stride` apart, and the rounding; unit 0 of `row` is unit `first` of the layer. */
INLINE void NAME(last_pass)(const NAME(Layer) *layer, int radix, int64_t reads, int leak, int64_t first,
                            const WIDE *row, NAME(Turn) *turn)
{
    int64_t stride = layer->segment / radix;
    for (int64_t t = 0; t < stride; t++) {
        Pair v[4];
        UNROLL for (int j = 0; j < radix; j++) v[j] = NAME(load_pair)(row + (t + j * stride) * ROWS);
        NAME(pair_butterflies)(v, radix);
        NAME(finish)(layer, radix, reads, leak, first + t, stride, v, turn);
    }
}

#if WIDE_IS_FLOAT
/* The same for the common case: units of one channel, no leak, no ReLU, no row that stands still. It clips
 * nothing: it returns whether something should have been clipped, and must then be done again. `stride` is a constant. */
INLINE int NAME(plain_units)(const NAME(Layer) *layer, int64_t stride, int64_t first, const float *row)
{
    const float *weight = (const float *)layer->args->weight + first, *bias = (const float *)layer->args->bias + first;
    const float *post = layer->post + first;
    int16_t *state = layer->state + first * ROWS, top = (int16_t)(1 << (layer->args->activation_bits - 1));
    Pair x = NAME(load_pair)(layer->x);
    wide scale = layer->rounding.scale - (wide){0}, magic = (MAGIC + top) - (wide){0};
    Seen seen = {0};
    for (int64_t t = 0; t < stride; t++) {
        Pair v[4];
        UNROLL for (int j = 0; j < 4; j++) v[j] = NAME(load_pair)(row + (t + j * stride) * ROWS);
        NAME(pair_butterflies)(v, 4);
        UNROLL for (int j = 0; j < 4; j++) {
            int64_t i = t + j * stride;
            Words bits;
            UNROLL for (int half = 0; half < 2; half++) {
                wide acc = v[j].v[half] * post[i] + (x.v[half] * weight[i] + bias[i]);
                bits.v[half] = (word)fused_multiply_add(acc, scale, magic);
            }
            store_narrow(state + i * ROWS, lifted_states(bits.v[0], bits.v[1], &seen) - top);
        }
    }
    return outside(seen, top);
}

static int NAME(plain_last_pass)(const NAME(Layer) *layer, int64_t first, const float *row)
{
    switch (layer->segment) {
    case 8: return NAME(plain_units)(layer, 2, first, row);
    case 16: return NAME(plain_units)(layer, 4, first, row);
    case 32: return NAME(plain_units)(layer, 8, first, row);
    default: return NAME(plain_units)(layer, layer->segment / 4, first, row);
    }
}
#else
static int NAME(plain_last_pass)(const NAME(Layer) *layer, int64_t first, const WIDE *row)
{
    (void)layer, (void)first, (void)row;
    return 1;
}
#endif

static __attribute__((noinline)) void NAME(any_last_pass)(const NAME(Layer) *shared, int leak, int64_t first,
                                                          const WIDE *row, NAME(Turn) *result)
{
    const IntegerLayerArgs args = *shared->args;
    NAME(Layer) layer = *shared;
    NAME(Turn) turn = *result;
    layer.args = &args;
    switch (layer.last_radix) { /* each case inlines a pass for that constant */
    case 1: NAME(last_pass)(&layer, 1, layer.reads, leak, first, row, &turn); break;
    case 2: NAME(last_pass)(&layer, 2, layer.reads, leak, first, row, &turn); break;
    default: NAME(last_pass)(&layer, 4, layer.reads, leak, first, row, &turn); break;
    }
    *result = turn;
}

/* All wide stages but the last ones, of one segment. */
static __attribute__((noinline)) void NAME(segment_stages)(const NAME(Layer) *layer, const int16_t *in, const int8_t *signs, WIDE *row)
{
    int64_t size = layer->segment, end = size / layer->last_radix, stride = end < 8 ? end : 8;
    switch (stride) {
    case 1: NAME(load_pass)(1, size, in, signs, row); break;
    case 2: NAME(load_pass)(2, size, in, signs, row); break;
    case 4: NAME(load_pass)(4, size, in, signs, row); break;
    default: NAME(load_pass)(8, size, in, signs, row); break;
    }
    while (stride < end) {
        int64_t radix = end / stride < 8 ? end / stride : 8;
        switch (radix) {
        case 2: NAME(middle_pass)(2, size, stride, row); break;
        case 4: NAME(middle_pass)(4, size, stride, row); break;
        default: NAME(middle_pass)(8, size, stride, row); break;
        }
        stride *= radix;
    }
}

/* One group of units that no longer meet others; `first` is the first unit of its first segment. */
static void NAME(group)(const NAME(Layer) *layer, const int16_t *product, int64_t first, int leak, NAME(Turn) *turn)
{
    const IntegerLayerArgs *args = layer->args;
    int64_t segments = args->block / args->sylvester, rest = layer->pitch;
    for (int64_t s = 0; s < segments; s++) {
        int64_t unit = first + s * args->sylvester;
        NAME(segment_stages)(layer, product + unit * ROWS, args->column_signs ? args->column_signs + unit : NULL,
                             layer->buffer + s * layer->pitch * ROWS);
    }
    const NAME(Pick) *picks = layer->picks;
    for (int64_t f = args->num_factors - 1; f >= 0; f--) { /* the last factor is the innermost */
        int64_t order = args->factor_orders[f];
        NAME(any_factor_pass)(order, segments * layer->pitch, rest, picks, layer->sums, layer->buffer);
        rest *= order;
        picks += order * order / 4;
    }
    int plain = WIDE_IS_FLOAT && layer->reads == 1 && layer->last_radix == 4 && !leak && !args->relu &&
                !args->input_shift && args->activation_bits < 15 && turn->all;
    for (int64_t s = 0; s < segments; s++) {
        int64_t unit = first + s * args->sylvester;
        const WIDE *sums = layer->buffer + s * layer->pitch * ROWS;
        if (!plain || NAME(plain_last_pass)(layer, unit, sums)) NAME(any_last_pass)(layer, leak, unit, sums, turn);
    }
}

#if WIDE_IS_FLOAT
#include "narrow_step.h"
#else
static void NAME(prepare_narrow_step)(NAME(Layer) *layer) { (void)layer; }
static int NAME(narrow_step)(NAME(Layer) *layer, NAME(Turn) *turn)
{
    (void)layer, (void)turn;
    return 0;
}
#endif

/* One step of the layer: `state` becomes the next one in the rows that take part. */
static void NAME(layer_step)(NAME(Layer) *layer, NAME(Turn) *turn)
{
    if (NAME(narrow_step)(layer, turn)) return;
    const IntegerLayerArgs *args = layer->args;
    const int16_t *product = layer->state;
    if (args->narrow_stages) { /* rows that stand still want their state back */
        int16_t *sums = turn->all ? layer->state : layer->work;
        exact_transform(args->narrow_stages, args->hidden, args->sylvester, layer->state, sums);
        product = sums;
    }
    for (int64_t start = 0, block = 0; start < args->hidden; start += args->block, block++)
        for (int64_t first = start; first < start + args->sylvester; first += layer->segment)
            NAME(group)(layer, product, first, args->leaks ? (int)args->leaks[block] : 0, turn);
}
