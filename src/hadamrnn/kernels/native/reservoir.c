/* The reservoirs of runtime/hadamrnn_reservoir.h on a batch, for one instruction set: ROWS sequences in the lanes of vectors.
 *
 * The build compiles this file once per instruction set, like `integers.c`. A slice is one group of units over one tile of
 * sequences, so that its states and counts stay in the first-level cache. A tile runs as many steps as its longest
 * sequence; the counts of each sequence are copied at its end. Start reading at `reservoir`.
 */
#include <stdlib.h>

#include "arguments.h"
#include "lanes.h"

INLINE void hadamrnn_reservoir_count(hadamrnn_narrow *count, hadamrnn_narrow h, int16_t threshold)
{
    *count -= h > threshold; /* a comparison of vectors is -1 where true */
}

#define HADAMRNN_SPECIALISED
#include "hadamrnn_reservoir.h"

#define NAME_(name, isa) name##_##isa
#define NAME(name, isa) NAME_(name, isa)
enum { ALIGNMENT = 64 };

typedef struct {
    const ReservoirArgs *args;
    const ReservoirGroupArgs *own;
    int64_t slice, first, rows; /* slice index; first row and number of rows of its tile */
    hadamrnn_reservoir_group group;
    hadamrnn_reservoir reservoir;
    hadamrnn_counters counters;
    hadamrnn_memory memory;
} Tile;

/* Describe the group of a slice as a reservoir of one group. */
static void describe(Tile *tile)
{
    const ReservoirArgs *args = tile->args;
    const ReservoirGroupArgs *own = tile->own;
    const int64_t delays = own->dilation * args->channels, states = own->dilation * own->blocks * 8;
    tile->group = (hadamrnn_reservoir_group){
        .log2_width = (uint8_t)own->log2_width,
        .dilation = (uint8_t)own->dilation,
        .is_difference = (uint8_t)own->is_difference,
        .input_shift = (uint8_t)own->input_shift,
        .is_segmented = (uint8_t)own->is_segmented,
        .blocks = (uint16_t)own->blocks,
        .features = (uint16_t)own->features,
        .ends = {(uint16_t)own->ends[0], (uint16_t)own->ends[1], (uint16_t)own->ends[2]},
        .states = (uint32_t)delays,
        .first_segment = (uint32_t)own->first_segment,
    };
    tile->reservoir = (hadamrnn_reservoir){
        .groups = 1,
        .channel_bytes = (uint8_t)args->channel_bytes,
        .channels = (uint16_t)args->channels,
        .counts = (uint32_t)(delays + states),
        .group = &tile->group,
        .block = args->block + own->first_block * (1 + args->channel_bytes),
        .unit = args->unit + own->first_block * 8,
        .threshold = args->threshold + own->first_feature * 2,
        .segment = args->segment,
    };
}

static void read_sample(const Tile *tile, int64_t t)
{
    const ReservoirArgs *args = tile->args;
    for (int64_t row = 0; row < tile->rows; row++) {
        const int16_t *x = args->x + ((tile->first + row) * args->time + t) * args->channels;
        int16_t *lane = (int16_t *)tile->memory.codes + row;
        for (int64_t c = 0; c < args->channels; c++) lane[c * ROWS] = x[c];
    }
}

/* Copy the counts of the sequences that end after `samples`. */
static void write_counts(const Tile *tile, int64_t samples)
{
    const ReservoirArgs *args = tile->args;
    const int16_t *counts = (const int16_t *)(tile->memory.narrow + tile->reservoir.counts);
    for (int64_t row = 0; row < tile->rows; row++) {
        if (args->lengths[tile->first + row] != samples) continue;
        uint16_t *out = args->counts + (tile->first + row) * args->features + tile->own->first_feature;
        for (int64_t f = 0; f < tile->own->features; f++) out[f] = (uint16_t)counts[f * ROWS + row];
        args->saturations[tile->slice] += tile->counters.saturations[row];
    }
}

/* Copy the states of every row after counted step number `step`, if they were requested. */
static void write_states(const Tile *tile, int64_t step, int64_t sample)
{
    const ReservoirArgs *args = tile->args;
    if (!tile->own->states || step % args->every != 0) return;
    const int64_t units = tile->own->blocks * 8, phase = (sample >> tile->own->log2_width) & (tile->own->dilation - 1);
    const int16_t *h = (const int16_t *)(tile->memory.narrow + tile->group.states + phase * units);
    for (int64_t row = 0; row < tile->rows; row++) {
        int16_t *out = tile->own->states + ((tile->first + row) * tile->own->sampled + step / args->every) * units;
        for (int64_t i = 0; i < units; i++) out[i] = h[i * ROWS + row];
    }
}

/* Run slice `index`: group index % groups of tile index / groups. */
int NAME(reservoir, ISA)(const ReservoirArgs *args, int64_t index)
{
    Tile tile = {.args = args, .own = args->groups + index % args->num_groups, .slice = index};
    tile.first = index / args->num_groups * ROWS;
    tile.rows = args->batch - tile.first < ROWS ? args->batch - tile.first : ROWS;
    describe(&tile);
    const int64_t wide = 2 * args->channels, narrow = tile.reservoir.counts + tile.own->features + args->channels;
    char *allocated = calloc(1, (size_t)wide * sizeof(hadamrnn_wide) + (size_t)narrow * sizeof(hadamrnn_narrow) + ALIGNMENT);
    if (!allocated) return STATUS_NO_MEMORY;
    hadamrnn_wide *cells = (hadamrnn_wide *)(((uintptr_t)allocated + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    hadamrnn_narrow *halves = (hadamrnn_narrow *)(cells + wide);
    tile.memory = (hadamrnn_memory){
        .counters = &tile.counters, .wide = cells, .work = cells + args->channels, .narrow = halves + args->channels, .codes = halves};
    int64_t longest = 0;
    for (int64_t row = 0; row < tile.rows; row++)
        if (args->lengths[tile.first + row] > longest) longest = args->lengths[tile.first + row];
    for (int64_t t = 0, step = 0; t < longest; t++) {
        read_sample(&tile, t);
        if (hadamrnn_reservoir_group_step(&tile.reservoir, &tile.group, &tile.memory, (uint_fast16_t)t))
            write_states(&tile, step++, t);
        write_counts(&tile, t + 1);
    }
    free(allocated);
    return STATUS_OK;
}
