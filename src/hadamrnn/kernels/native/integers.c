/* The integer network of runtime/hadamrnn.h on a batch, for one instruction set: ROWS sequences in the lanes of vectors.
 *
 * The build compiles this file once per instruction set, as `instance.c`. All sequences of a tile make all steps of the
 * longest one; a sequence that ends is read out at its end, and what its lane does afterwards counts for nothing. Start
 * reading at `integers`.
 */
#include <stdlib.h>

#include "arguments.h"
#include "lanes.h"

#define HADAMRNN_SPECIALISED
#include "hadamrnn.h"

#define NAME_(name, isa) name##_##isa
#define NAME(name, isa) NAME_(name, isa)
enum { ALIGNMENT = 64, MOST_LAYERS = 255 };

typedef struct {
    const IntegerArgs *args;
    int64_t first, rows, longest; /* the first row, how many there are, and their longest length */
    int64_t lengths[ROWS];        /* -1 if there is no row */
    hadamrnn_model model;
    hadamrnn_memory memory;
    hadamrnn_wide *drive;
    hadamrnn_wide *logits;
    void *allocated;
} Tile;

static void describe_layer(const IntegerLayerArgs *args, hadamrnn_layer *layer)
{
    memset(layer, 0, sizeof *layer);
    layer->units = (uint16_t)args->units;
    layer->inputs = (uint16_t)args->inputs;
    layer->block = (uint16_t)args->block;
    layer->cells = (uint32_t)args->cells;
    layer->sums = (uint32_t)args->sums;
    layer->stages = (uint8_t)args->stages;
    layer->in_place = (uint8_t)args->in_place;
    layer->input_shift = (int8_t)args->input_shift;
    layer->multiplier = (uint16_t)args->multiplier;
    layer->round_shift = (uint8_t)args->round_shift;
    layer->leak_bytes = HADAMRNN_GROUP;
    layer->output_bits = (uint8_t)args->output_bits;
    layer->gain_shift = (uint8_t)args->gain_shift;
    layer->has_skip = (uint8_t)args->has_skip;
    layer->skip_shift = (int8_t)args->skip_shift;
    layer->signs = (const uint8_t *)args->signs;
    layer->weight = (const uint8_t *)args->weight;
    layer->bias = (const uint8_t *)args->bias;
    layer->leaks = args->leaks;
    layer->gain = (const uint8_t *)args->gain;
    layer->offset = (const uint8_t *)args->offset;
    for (int f = 0; f < (int)HADAMRNN_FACTORS; f++)
        layer->factors[f] = (hadamrnn_factor){(uint16_t)args->factor_orders[f], (uint16_t)args->factor_strides[f],
                                              args->factors[f]};
}

static void describe_model(const IntegerArgs *args, hadamrnn_layer *layers, hadamrnn_model *model)
{
    memset(model, 0, sizeof *model);
    model->input_bits = (uint8_t)args->input_bits;
    model->activation_bits = (uint8_t)args->activation_bits;
    model->code_bits = 8 * sizeof(int32_t);
    model->value_bytes = sizeof(int32_t);
    model->is_relu = (uint8_t)args->is_relu;
    model->num_layers = (uint8_t)args->num_layers;
    model->num_readouts = (uint8_t)args->num_readouts;
    model->thresholds = (uint8_t)args->thresholds;
    model->feature_bits = (uint8_t)args->feature_bits;
    model->stride = (uint16_t)args->stride;
    model->input_size = (uint16_t)args->input_size;
    model->output_size = (uint16_t)args->output_size;
    model->phases = (uint32_t)args->phases;
    model->counts = (uint32_t)args->counts;
    model->pool_wide = (uint32_t)args->pool_wide;
    model->pool_narrow = (uint32_t)args->pool_narrow;
    model->narrow_cells = (uint32_t)args->narrow_cells;
    for (int r = 0; r < (int)HADAMRNN_READOUTS; r++) {
        model->readouts[r] = (uint8_t)args->readouts[r];
        model->multipliers[r] = (uint16_t)args->multipliers[r];
    }
    model->layers = layers;
    model->output_weight = (const uint8_t *)args->output_weight;
    model->output_bias = (const uint8_t *)args->output_bias;
    model->theta = (const uint8_t *)args->theta;
    model->feature_shift = args->feature_shift;
    for (int64_t l = 0; l < args->num_layers; l++) describe_layer(args->layers + l, layers + l);
}

/* Take `count` vectors of `bytes` from the front of the memory at *used; with no memory, only count. */
static void *reserve(char *memory, size_t *used, int64_t count, size_t bytes)
{
    void *place = memory ? memory + *used : NULL;
    *used += ((size_t)count * bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return place;
}

static size_t lay_out(Tile *tile, char *memory)
{
    const IntegerArgs *args = tile->args;
    const int64_t units = args->layers->units;
    size_t used = 0;
    hadamrnn_layer *layers = reserve(memory, &used, args->num_layers, sizeof *layers);
    tile->memory.counters = reserve(memory, &used, 1, sizeof *tile->memory.counters);
    tile->memory.wide = reserve(memory, &used, args->pool_wide, sizeof(hadamrnn_wide));
    tile->memory.narrow = reserve(memory, &used, args->narrow_cells, sizeof(hadamrnn_narrow));
    tile->memory.work = reserve(memory, &used, args->work_cells, sizeof(hadamrnn_wide));
    tile->memory.codes = reserve(memory, &used, args->code_cells, sizeof(hadamrnn_narrow));
    tile->drive = reserve(memory, &used, args->ids ? units + HADAMRNN_GROUP : 0, sizeof(hadamrnn_wide));
    tile->memory.drive = args->ids ? tile->drive : NULL;
    tile->logits = reserve(memory, &used, args->output_size, sizeof(hadamrnn_wide));
    if (memory) describe_model(args, layers, &tile->model);
    return used;
}

static int prepare(const IntegerArgs *args, int64_t index, Tile *tile)
{
    memset(tile, 0, sizeof *tile);
    tile->args = args;
    tile->first = index * ROWS;
    tile->rows = args->batch - tile->first < ROWS ? args->batch - tile->first : ROWS;
    for (int64_t row = 0; row < ROWS; row++) {
        tile->lengths[row] = row < tile->rows ? args->lengths[tile->first + row] : -1;
        if (tile->lengths[row] > tile->longest) tile->longest = tile->lengths[row];
    }
    tile->allocated = calloc(1, lay_out(tile, NULL) + ALIGNMENT);
    if (!tile->allocated) return STATUS_NO_MEMORY;
    lay_out(tile, (char *)(((uintptr_t)tile->allocated + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1)));
    hadamrnn_init(&tile->model, &tile->memory);
    return STATUS_OK;
}

/* The input of step t: codes, or what ids add to the lowest layer. */
static void read_input(const Tile *tile, int64_t t)
{
    const IntegerArgs *args = tile->args;
    const int32_t high = (1 << (args->input_bits - 1)) - 1, low = ~high;
    /* Lanes without a row read zeros, not what the layers left in the buffer: their sums would overflow. */
    if (tile->rows < ROWS) memset(tile->memory.codes, 0, (size_t)args->input_size * sizeof(hadamrnn_narrow));
    for (int64_t row = 0; row < tile->rows; row++) {
        const int64_t step = (tile->first + row) * args->time + t;
        if (args->ids) {
            const int64_t units = args->layers->units;
            const int32_t *drive = args->table + args->ids[step] * units;
            int32_t *lane = (int32_t *)tile->drive + row;
            for (int64_t i = 0; i < units; i++) lane[i * ROWS] = drive[i];
        } else {
            const int32_t *x = args->x + step * args->input_size;
            int16_t *lane = (int16_t *)tile->memory.codes + row;
            for (int64_t j = 0; j < args->input_size; j++)
                lane[j * ROWS] = (int16_t)(x[j] > high ? high : x[j] < low ? low : x[j]);
        }
    }
}

/* Write the logits after `steps` steps, of the rows that end there or, with every output, have not ended. */
static void write_logits(Tile *tile, int64_t steps)
{
    const IntegerArgs *args = tile->args;
    const hadamrnn_view view = {tile->memory.counters, tile->memory.wide, tile->memory.narrow};
    int is_read = 0;
    for (int64_t row = 0; row < tile->rows; row++) {
        if (args->every_output ? steps == 0 || tile->lengths[row] < steps : tile->lengths[row] != steps) continue;
        if (!is_read) hadamrnn_logits(&tile->model, &view, tile->logits);
        is_read = 1;
        const int64_t place = args->every_output ? (tile->first + row) * args->time + steps - 1 : tile->first + row;
        for (int64_t k = 0; k < args->output_size; k++) args->logits[place * args->output_size + k] = tile->logits[k][row];
    }
}

static void count_saturations(const Tile *tile, int64_t steps)
{
    for (int64_t row = 0; row < tile->rows; row++)
        if (tile->lengths[row] == steps)
            tile->args->saturations[tile->first / ROWS] += tile->memory.counters->saturations[row];
}

/* Run tile `index` of the batch. */
int NAME(integers, ISA)(const IntegerArgs *args, int64_t index)
{
    Tile tile;
    const int status = prepare(args, index, &tile);
    if (status) return status;
    args->saturations[index] = 0;
    write_logits(&tile, 0);
    for (int64_t t = 0; t < tile.longest; t++) {
        read_input(&tile, t);
        hadamrnn_advance_all(&tile.model, &tile.memory, 0);
        write_logits(&tile, t + 1);
        count_saturations(&tile, t + 1);
    }
    free(tile.allocated);
    return STATUS_OK;
}

/* How many rows a tile has. */
int NAME(integer_rows, ISA)(void) { return ROWS; }
