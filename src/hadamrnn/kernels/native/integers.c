/* The integer network of runtime/hadamrnn.h on a batch, for one instruction set: ROWS sequences in the lanes of vectors.
 *
 * The build compiles this file once per instruction set, like `instance.c`. A tile runs as many steps as its longest
 * sequence; each sequence is read out at its end, and its lane is ignored afterwards. Start reading at `integers`.
 */
#include <stdlib.h>

#include "arguments.h"
#include "lanes.h"

#define HADAMRNN_SPECIALISED
#include "hadamrnn.h"
#include "hadamrnn_blob.h"

#define NAME_(name, isa) name##_##isa
#define NAME(name, isa) NAME_(name, isa)
enum { ALIGNMENT = 64 };

typedef struct {
    const IntegerArgs *args;
    int64_t first, rows, longest; /* the first row, how many there are, and their longest length */
    int64_t lengths[ROWS];        /* -1 if there is no row */
    hadamrnn_model model;
    hadamrnn_layer layers[UINT8_MAX];
    hadamrnn_counters counters;
    hadamrnn_memory memory;
    hadamrnn_wide *drive;
    hadamrnn_wide *logits;
    void *allocated;
} Tile;

/* Allocate the memory of all sequences of a tile, zeros. */
static int allocate(Tile *tile)
{
    const hadamrnn_model *model = &tile->model;
    const size_t driven = tile->layers->units + HADAMRNN_GROUP;
    const size_t wide = model->pool_wide + model->work_cells + driven + model->output_size;
    const size_t narrow = model->narrow_cells + model->code_cells;
    tile->allocated = calloc(1, wide * sizeof(hadamrnn_wide) + narrow * sizeof(hadamrnn_narrow) + ALIGNMENT);
    if (!tile->allocated) return STATUS_NO_MEMORY;
    hadamrnn_wide *cells = (hadamrnn_wide *)(((uintptr_t)tile->allocated + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    hadamrnn_narrow *halves = (hadamrnn_narrow *)(cells + wide);
    tile->drive = cells + model->pool_wide + model->work_cells;
    tile->logits = tile->drive + driven;
    tile->memory = (hadamrnn_memory){
        .counters = &tile->counters,
        .wide = cells,
        .work = cells + model->pool_wide,
        .narrow = halves,
        .codes = halves + model->narrow_cells,
        .drive = tile->args->ids ? tile->drive : NULL,
    };
    return STATUS_OK;
}

static int prepare(const IntegerArgs *args, int64_t index, Tile *tile)
{
    hadamrnn_reader reader = {args->blob, (uint32_t)args->blob_bytes, HADAMRNN_HEADER, true};
    tile->args = args;
    tile->first = index * ROWS;
    tile->rows = args->batch - tile->first < ROWS ? args->batch - tile->first : ROWS;
    tile->longest = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        tile->lengths[row] = row < tile->rows ? args->lengths[tile->first + row] : -1;
        if (tile->lengths[row] > tile->longest) tile->longest = tile->lengths[row];
    }
    memset(&tile->model, 0, sizeof tile->model);
    hadamrnn_read(&reader, &tile->model, tile->layers, UINT8_MAX);
    if (!reader.is_good) return STATUS_BAD_SIZE;
    const int status = allocate(tile);
    if (!status) hadamrnn_init(&tile->model, &tile->memory);
    return status;
}

/* The input of step t: codes, or the contributions of ids to the lowest layer. */
static void read_input(const Tile *tile, int64_t t)
{
    const IntegerArgs *args = tile->args;
    const hadamrnn_model *model = &tile->model;
    const int64_t units = tile->layers->units, channels = model->input_size;
    const int32_t high = (1 << (model->input_bits - 1)) - 1, low = ~high;
    /* Lanes without a row read zeros, not values that the layers left in the buffer: their sums would overflow. */
    if (tile->rows < ROWS) memset(tile->memory.codes, 0, (size_t)channels * sizeof(hadamrnn_narrow));
    for (int64_t row = 0; row < tile->rows; row++) {
        const int64_t step = (tile->first + row) * args->time + t;
        if (args->ids) {
            const int32_t *drive = args->table + args->ids[step] * units;
            int32_t *lane = (int32_t *)tile->drive + row;
            for (int64_t i = 0; i < units; i++) lane[i * ROWS] = drive[i];
        } else {
            const int32_t *x = args->x + step * channels;
            int16_t *lane = (int16_t *)tile->memory.codes + row;
            for (int64_t j = 0; j < channels; j++)
                lane[j * ROWS] = (int16_t)(x[j] > high ? high : x[j] < low ? low : x[j]);
        }
    }
}

/* Write the logits after `steps` steps of the rows that end there or, with every output, of all rows still running. */
static void write_logits(Tile *tile, int64_t steps)
{
    const IntegerArgs *args = tile->args;
    const int64_t outputs = tile->model.output_size;
    const hadamrnn_view view = {tile->memory.counters, tile->memory.wide, tile->memory.narrow};
    int is_read = 0;
    for (int64_t row = 0; row < tile->rows; row++) {
        if (args->every_output ? steps == 0 || tile->lengths[row] < steps : tile->lengths[row] != steps) continue;
        if (!is_read) hadamrnn_logits(&tile->model, &view, tile->logits);
        is_read = 1;
        const int64_t place = args->every_output ? (tile->first + row) * args->time + steps - 1 : tile->first + row;
        for (int64_t k = 0; k < outputs; k++) args->logits[place * outputs + k] = tile->logits[k][row];
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

/* The number of rows in a tile. */
int NAME(integer_rows, ISA)(void) { return ROWS; }
