/* An integer network on a tile of ROWS rows of the batch, from zero states; a template in WIDE.
 *
 * Layers make their steps one after the other, each as soon as the one below has made `stride` of its own.
 * Rows may end at different steps: past its length a row stands still. Start reading at `integers`.
 */
#include "lanes.h"
#include "integer_layer.h"

#undef MOST_AHEAD
#define MOST_AHEAD 64 /* vectors of codes: a few kilobytes of the first-level cache */

typedef struct {
    int64_t first, rows;       /* the first row, how many there are */
    int64_t shortest, longest; /* of their lengths */
    int64_t length[ROWS];      /* 0 where there is no row */
    narrow present;            /* lanes that hold a row */
    int64_t clipped;
    NAME(Layer) *layers;
    int64_t ahead;             /* steps whose codes are read at once */
    int16_t *codes;            /* (ahead, seen, ROWS) */
    int16_t *max;              /* (hidden, ROWS) */
    int32_t *mean, *positive;  /* (num_thresholds, hidden, ROWS), lanes as in a pair */
    WIDE *features;            /* (hidden, ROWS): what V sees after a step */
    void *memory;
} NAME(IntegerTile);

/* Take `bytes` from the front of the memory at *used, in whole cache lines; with no memory, only count. */
static void *NAME(reserve)(char *memory, int64_t *used, int64_t bytes)
{
    void *place = memory && bytes ? memory + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return place;
}

static int64_t NAME(lay_out)(const IntegerArgs *args, NAME(IntegerTile) *tile, char *memory)
{
    const int64_t narrow_bytes = ROWS * (int64_t)sizeof(int16_t), wide_bytes = ROWS * (int64_t)sizeof(WIDE);
    int64_t used = 0, seen = args->layers->seen, hidden = args->layers[args->num_layers - 1].hidden, sums = args->num_thresholds * hidden;
    tile->layers = NAME(reserve)(memory, &used, args->num_layers * (int64_t)sizeof(NAME(Layer)));
    for (int64_t l = 0; l < args->num_layers; l++) {
        const IntegerLayerArgs *own = args->layers + l;
        int64_t reads = l == 0 && args->ids ? own->hidden : own->seen;
        NAME(Layer) layer = {.args = own};
        layer.post = NAME(reserve)(memory, &used, own->hidden * (int64_t)sizeof(WIDE));
        layer.state = NAME(reserve)(memory, &used, own->hidden * narrow_bytes);
        layer.work = NAME(reserve)(memory, &used, own->hidden * narrow_bytes);
        layer.codes = NAME(reserve)(memory, &used, l ? own->seen * narrow_bytes : 0); /* the lowest: `read_codes` */
        layer.x = NAME(reserve)(memory, &used, reads * wide_bytes);
        layer.segment = own->sylvester >> own->narrow_stages;
        layer.pitch = layer.segment + (own->num_factors > 0); /* a unit more: segments must not share cache sets */
        layer.buffer = NAME(reserve)(memory, &used, own->block / own->sylvester * layer.pitch * wide_bytes);
        int64_t picks = 0, largest = 0;
        for (int64_t f = 0; f < own->num_factors; f++) {
            int64_t order = own->factor_orders[f];
            picks += order * order / 4;
            if (order > largest) largest = order;
        }
        layer.picks = NAME(reserve)(memory, &used, picks * (int64_t)sizeof(NAME(Pick)));
        layer.sums = NAME(reserve)(memory, &used, 2 * largest * wide_bytes);
        if (own->fits_narrow_step) {
            layer.lifted_bias = NAME(reserve)(memory, &used, own->hidden * (int64_t)sizeof(WIDE));
            layer.lifted_x = NAME(reserve)(memory, &used, own->seen * wide_bytes);
            layer.dots = NAME(reserve)(memory, &used, own->hidden * (int64_t)sizeof(int32_t));
            layer.terms = NAME(reserve)(memory, &used, largest * (1 + largest / 4) * (int64_t)sizeof(int32_t));
            layer.flips = NAME(reserve)(memory, &used, largest * (int64_t)sizeof(int16_t));
            layer.narrow_sums = NAME(reserve)(memory, &used, 2 * largest * narrow_bytes);
        }
        if (memory) tile->layers[l] = layer;
    }
    tile->ahead = seen > MOST_AHEAD ? 1 : MOST_AHEAD / seen;
    tile->codes = NAME(reserve)(memory, &used, args->ids ? 0 : tile->ahead * seen * narrow_bytes);
    tile->max = NAME(reserve)(memory, &used, args->max ? hidden * narrow_bytes : 0);
    tile->mean = NAME(reserve)(memory, &used, args->mean ? sums * ROWS * (int64_t)sizeof(int32_t) : 0);
    tile->positive = NAME(reserve)(memory, &used, args->positive ? sums * ROWS * (int64_t)sizeof(int32_t) : 0);
    tile->features = NAME(reserve)(memory, &used, args->logits ? hidden * wide_bytes : 0);
    return used;
}

static void NAME(prepare_layer)(NAME(Layer) *layer, int is_lowest_of_ids)
{
    const IntegerLayerArgs *args = layer->args;
    layer->last_radix = layer->segment < 4 ? layer->segment : 4;
    layer->reads = is_lowest_of_ids ? -1 : args->seen;
    layer->rounding.multiplier = args->round_multiplier;
    layer->rounding.shift = (int)args->round_shift;
    layer->rounding.half = ((int64_t)1 << args->round_shift) >> 1;
    layer->rounding.scale = (float)args->round_multiplier / (float)((int64_t)1 << args->round_shift);
    const int8_t *factor = args->factors;
    NAME(Pick) *picks = layer->picks;
    for (int64_t f = args->num_factors - 1; f >= 0; f--) { /* they come the last one first, as `group` takes them */
        int64_t order = args->factor_orders[f];
        NAME(make_picks)(order, factor, picks);
        factor += order * order;
        picks += order * order / 4;
    }
    for (int64_t i = 0; i < args->hidden; i++)
        layer->post[i] = (WIDE)(args->signs[i] * ((WIDE)((int64_t)1 << args->state_shift) / WIDEN_SCALE));
    if (args->fits_narrow_step) NAME(prepare_narrow_step)(layer);
}

static int NAME(prepare_tile)(const IntegerArgs *args, int64_t index, NAME(IntegerTile) *tile)
{
    memset(tile, 0, sizeof *tile);
    tile->first = index * ROWS;
    tile->rows = args->batch - tile->first < ROWS ? args->batch - tile->first : ROWS;
    tile->shortest = args->time;
    for (int64_t row = 0; row < tile->rows; row++) {
        int64_t length = tile->length[row] = args->lengths[tile->first + row];
        tile->present[row] = -1;
        if (length > tile->longest) tile->longest = length;
        if (length < tile->shortest) tile->shortest = length;
    }
    tile->memory = calloc(1, (size_t)NAME(lay_out)(args, tile, NULL) + 64);
    if (!tile->memory) return STATUS_NO_MEMORY;
    NAME(lay_out)(args, tile, (char *)(((uintptr_t)tile->memory + 63) & ~(uintptr_t)63));
    for (int64_t l = 0; l < args->num_layers; l++) NAME(prepare_layer)(tile->layers + l, l == 0 && args->ids);
    const IntegerLayerArgs *last = args->layers + args->num_layers - 1;
    for (int64_t i = 0; args->max && i < last->hidden * ROWS; i++)
        tile->max[i] = (int16_t)-(1 << (last->activation_bits - 1));
    return STATUS_OK;
}

/* What the ids of step t add to the accumulators of the lowest layer. */
static void NAME(read_ids)(const IntegerArgs *args, const NAME(IntegerTile) *tile, int64_t t)
{
    int64_t hidden = tile->layers->args->hidden;
    for (int64_t row = 0; row < tile->rows; row++) {
        int64_t id = args->ids[(tile->first + row) * args->time + t];
        const WIDE *drive = (const WIDE *)args->table + id * hidden;
        WIDE *lane = tile->layers->x + WIDE_LANE(row);
        for (int64_t i = 0; i < hidden; i++) lane[i * ROWS] = drive[i];
    }
}

/* The codes that the lowest layer reads at step t. A row's codes lie side by side: some steps are read at once. */
static void NAME(read_codes)(const IntegerArgs *args, NAME(IntegerTile) *tile, int64_t t)
{
    int64_t seen = tile->layers->args->seen, step = t % tile->ahead;
    int32_t high = (1 << (args->input_bits - 1)) - 1, low = ~high;
    tile->layers->codes = tile->codes + step * seen * ROWS;
    if (step) return;
    int64_t steps = tile->longest - t < tile->ahead ? tile->longest - t : tile->ahead;
    for (int64_t row = 0; row < tile->rows; row++) {
        const int32_t *x = args->x + ((tile->first + row) * args->time + t) * seen;
        for (int64_t k = 0; k < steps * seen; k++) {
            int32_t code = x[k] < low ? low : x[k];
            tile->codes[k * ROWS + row] = (int16_t)(code > high ? high : code);
        }
    }
}

static void NAME(widen_codes)(const NAME(Layer) *layer)
{
    for (int64_t c = 0; c < layer->args->seen; c++) {
        Words codes = signed_words(load_narrow(layer->codes + c * ROWS));
        NAME(store_pair)(layer->x + c * ROWS, (Pair){{NAME(from_words)(codes.v[0]), NAME(from_words)(codes.v[1])}});
    }
}

/* What the layer above reads of this one's state: added to its codes, or in their place at the first of a stride.
 *
 *     y = max(h, 0)                                    without gain
 *     y = saturate(max(round((h gain + offset) / 2^gain_shift), 0))
 *     y = saturate(y + shift(x, skip_shift))           with a skip
 */
static void NAME(give_output)(const NAME(Layer) *layer, int is_first, int16_t *above)
{
    const IntegerLayerArgs args = *layer->args;
    word high = (word){0} + ((1 << (args.output_bits - 1)) - 1), low = ~high;
    for (int64_t i = 0; i < args.hidden; i++) {
        narrow h = load_narrow(layer->state + i * ROWS), y = most_narrow(h, (narrow){0});
        if (args.gain) {
            Words state = signed_words(h), codes = {{{0}, {0}}};
            if (args.has_skip) codes = signed_words(load_narrow(layer->codes + i * ROWS));
            UNROLL for (int half = 0; half < 2; half++) {
                word value = rounded_shift(state.v[half] * args.gain[i] + args.offset[i], (int)args.gain_shift);
                value = least_word(most_word(value, (word){0}), high);
                if (args.has_skip) value += shifted(codes.v[half], (int)args.skip_shift);
                state.v[half] = least_word(most_word(value, low), high);
            }
            y = packed(state.v[0], state.v[1]);
        }
        store_narrow(above + i * ROWS, is_first ? y : y + load_narrow(above + i * ROWS));
    }
}

/* Add the last layer's states to the pools of the rows that take part. */
static void NAME(pool)(const IntegerArgs *args, const NAME(IntegerTile) *tile, const NAME(Turn) *turn)
{
    const NAME(Layer) *layer = tile->layers + args->num_layers - 1;
    int64_t hidden = layer->args->hidden;
    Words alive = signed_words(turn->alive);
    for (int64_t i = 0; args->max && i < hidden * ROWS; i += ROWS) {
        narrow most = load_narrow(tile->max + i), better = load_narrow(layer->state + i) > most;
        store_narrow(tile->max + i, select_narrow(better & turn->alive, load_narrow(layer->state + i), most));
    }
    if (!args->mean && !args->positive) return;
    for (int64_t k = 0; k < args->num_thresholds * hidden; k++) {
        Words above = signed_words(load_narrow(layer->state + k % hidden * ROWS));
        UNROLL for (int half = 0; half < 2; half++) {
            word difference = above.v[half] - args->thresholds[k], on = (difference > 0) & alive.v[half];
            int64_t place = k * ROWS + half * WIDE_LANES;
            if (args->mean) *(word *)(tile->mean + place) += difference & on;
            if (args->positive) *(word *)(tile->positive + place) -= on;
        }
    }
}

/* What V sees of a state: max(h, 0), or saturate(round(max(h, 0) rate / 2^shift)). */
INLINE Pair NAME(feature)(const IntegerArgs *args, int64_t i, narrow h)
{
    Words value = signed_words(most_narrow(h, (narrow){0}));
    if (args->feature_shift) {
        int shift = (int)args->feature_shift[i];
        word high = (word){0} + ((1 << (args->feature_bits - 1)) - 1);
        UNROLL for (int half = 0; half < 2; half++) {
            long_word product = __builtin_convertvector(value.v[half], long_word) * args->feature_rate;
            product = (product + ((int64_t)1 << (shift - 1))) >> shift;
            long_word over = product > INT16_MAX; /* before the words could overflow */
            product = (product & ~over) | (over & INT16_MAX);
            value.v[half] = least_word(__builtin_convertvector(product, word), high);
        }
    }
    return (Pair){{NAME(from_words)(value.v[0]), NAME(from_words)(value.v[1])}};
}

/* The logits after step t, to the rows that take part. */
static void NAME(write_logits)(const IntegerArgs *args, const NAME(IntegerTile) *tile, int64_t t)
{
    const NAME(Layer) *layer = tile->layers + args->num_layers - 1;
    int64_t hidden = layer->args->hidden;
    for (int64_t i = 0; i < hidden; i++)
        NAME(store_pair)(tile->features + i * ROWS, NAME(feature)(args, i, load_narrow(layer->state + i * ROWS)));
    for (int64_t o = 0; o < args->output_size; o++) {
        const WIDE *weight = (const WIDE *)args->output_weight + o * hidden;
        Pair sum = {{{0}, {0}}};
        for (int64_t i = 0; i < hidden; i++) {
            Pair feature = NAME(load_pair)(tile->features + i * ROWS);
            sum.v[0] += feature.v[0] * weight[i];
            sum.v[1] += feature.v[1] * weight[i];
        }
        WIDE lanes[ROWS];
        NAME(store_pair)(lanes, sum);
        for (int64_t row = 0; row < tile->rows; row++)
            if (t < tile->length[row])
                args->logits[((tile->first + row) * args->time + t) * args->output_size + o] =
                    (int32_t)lanes[WIDE_LANE(row)] + args->output_bias[o];
    }
}

static int64_t NAME(total)(narrow counts)
{
    int64_t sum = 0;
    for (int row = 0; row < ROWS; row++) sum -= counts[row];
    return sum;
}

/* Step t of the lowest layer, and of those above it whose turn it is. */
static void NAME(network_step)(const IntegerArgs *args, NAME(IntegerTile) *tile, int64_t t)
{
    NAME(Turn) turn = {.alive = tile->present, .all = t < tile->shortest};
    for (int64_t row = 0; !turn.all && row < tile->rows; row++) turn.alive[row] = t < tile->length[row] ? -1 : 0;
    if (args->ids)
        NAME(read_ids)(args, tile, t);
    else
        NAME(read_codes)(args, tile, t);
    int64_t steps = t; /* that the layer has made */
    for (int64_t l = 0; l < args->num_layers; l++) {
        NAME(Layer) *layer = tile->layers + l;
        if (layer->reads >= 0) NAME(widen_codes)(layer);
        turn.clips = (narrow){0};
        NAME(layer_step)(layer, &turn);
        if (any_bit(turn.clips)) tile->clipped += NAME(total)(turn.clips & turn.alive);
        if (l == args->num_layers - 1) break;
        NAME(give_output)(layer, steps % args->stride == 0, tile->layers[l + 1].codes);
        if ((steps + 1) % args->stride) return;
        steps /= args->stride;
    }
    NAME(pool)(args, tile, &turn);
    if (args->logits) NAME(write_logits)(args, tile, t);
}

/* The last states and the pools, row by row. */
static void NAME(write_rows)(const IntegerArgs *args, const NAME(IntegerTile) *tile)
{
    const NAME(Layer) *layer = tile->layers + args->num_layers - 1;
    int64_t hidden = layer->args->hidden, sums = args->num_thresholds * hidden;
    for (int64_t row = 0; row < tile->rows; row++) {
        int64_t place = tile->first + row;
        for (int64_t i = 0; i < hidden; i++) args->last[place * hidden + i] = layer->state[i * ROWS + row];
        for (int64_t i = 0; args->max && i < hidden; i++) args->max[place * hidden + i] = tile->max[i * ROWS + row];
        for (int64_t k = 0; args->mean && k < sums; k++)
            args->mean[place * sums + k] = tile->mean[k * ROWS + WIDE_LANE(row)];
        for (int64_t k = 0; args->positive && k < sums; k++)
            args->positive[place * sums + k] = tile->positive[k * ROWS + WIDE_LANE(row)];
    }
}

/* Run tile `index` of the batch. */
int NAME(integers)(const IntegerArgs *args, int64_t index)
{
    NAME(IntegerTile) tile;
    int status = NAME(prepare_tile)(args, index, &tile);
    if (status) return status;
    for (int64_t t = 0; t < tile.longest; t++) NAME(network_step)(args, &tile, t);
    NAME(write_rows)(args, &tile);
    args->saturations[index] = tile.clipped;
    free(tile.memory);
    return STATUS_OK;
}

/* How many rows a tile has. */
int NAME(integer_rows)(void) { return ROWS; }
