/* hadamrnn_reservoir.h: reservoirs of integers: units at several time scales, thresholds, counts.
 *
 * The program is the same for every network; a network is constant data (`hadamrnn_reservoir`). All integers, `round` with
 * ties towards +infinity. A group of units averages m samples of every channel; its step j is
 *
 *     v_j = round((x_(mj) + ... + x_(mj + m - 1)) / m)                hadamrnn_reservoir_drive
 *     u_j = v_j - v_(j-d) if the group reads differences, else v_j
 *     h_j = saturate16(round(H D h_(j-d) / 4) + 2^q U u_j)            hadamrnn_reservoir_block
 *
 * with h = 0 before, D the signs of the units and H Sylvester's matrix in blocks of 8: H / 4 is 0.71 times an orthogonal
 * matrix, so states fade. m and d are powers of two. Differences begin at j = d: before that, nothing is computed. A
 * feature counts the steps in which the state of its unit is above its threshold: among all steps or, if the group has
 * three segments, among those in one third of the window. After J such steps (hadamrnn_reservoir_logits)
 *
 *     rate   = floor(2^30 / max(J, 1))
 *     code   = round(count rate / 2^(15 + e))                         the fraction of steps in units of 2^(e - 15)
 *     logits = V code + b_o 2^output_bias_shift
 *
 * Trailing samples that do not fill a mean are ignored. Every sum fits 32 bits: sums of m samples 2^23, U u 2^q 2^27,
 * H D h 2^18, count rate 2^30; for the logits this is proved when a network is made.
 *
 * The memory of a stream is a `hadamrnn_memory`, owned by the caller: `wide` has the sums of samples, `narrow` the delayed
 * means, the states of every group (phase j mod d, unit) and the counts, unsigned numbers of 16 bits. A step uses
 * `work`, a number for each channel. hadamrnn_init starts a stream. No heap, no floating point, no division in a step.
 *
 * Define HADAMRNN_SPECIALISED before including this file. Start reading at hadamrnn_reservoir_step.
 */
#ifndef HADAMRNN_RESERVOIR_H
#define HADAMRNN_RESERVOIR_H

#include "hadamrnn.h"

#define HADAMRNN_RESERVOIR_BLOCK 8u
#define HADAMRNN_RESERVOIR_SEGMENTS 3u

typedef struct {
    uint8_t log2_width; /* log2 of m */
    uint8_t dilation; /* d */
    uint8_t is_difference;
    uint8_t input_shift; /* q */
    uint8_t is_segmented; /* 1: each feature belongs to a third of the window */
    uint16_t blocks;
    uint16_t features;
    uint16_t ends[HADAMRNN_RESERVOIR_SEGMENTS]; /* ends of the thirds in counted steps; 0xFFFF without segments */
    uint32_t sums; /* wide cells: sums of samples, if m > 1 */
    uint32_t delays; /* narrow cells: (phase, channel), if the group reads differences */
    uint32_t states; /* narrow cells: (phase, unit) */
    uint32_t first_block; /* index among the blocks of all groups */
    uint32_t first_feature; /* index among the features of all groups */
    uint32_t first_segment; /* index among the features that belong to a third */
} hadamrnn_reservoir_group;

/* Constants are bytes in flash, numbers of several bytes little endian; codes of fewer bits are packed, lowest bit
 * first. */
typedef struct {
    uint8_t groups;
    uint8_t channel_bytes; /* bytes per block: 0 for one channel, 1, or 2 for more than 256 */
    uint8_t weight_bits; /* bits of V */
    uint8_t output_bias_shift;
    uint16_t channels;
    uint16_t outputs;
    uint32_t counts; /* narrow cells: (feature) */
    const hadamrnn_reservoir_group *group;
    const uint8_t *block; /* D, a bit for each unit, 1 for -1; then the channel */
    const uint8_t *unit; /* a byte each: U in the lower four bits, the number of features in the upper four */
    const uint8_t *threshold; /* 2 bytes each */
    const uint8_t *segment; /* 2 bits each */
    const uint8_t *exponent; /* e, 4 bits each */
    const uint8_t *output_weight; /* V: (feature, output), weight_bits each */
    const uint8_t *output_bias; /* b_o, 2 bytes each */
} hadamrnn_reservoir;

#endif

#if defined(HADAMRNN_SPECIALISED) && !defined(HADAMRNN_RESERVOIR_CODE)
#define HADAMRNN_RESERVOIR_CODE

/* Element i of packed codes of up to 8 bits. */
HADAMRNN_INLINE uint_fast8_t hadamrnn_reservoir_code(const uint8_t *codes, uint_fast8_t bits, uint32_t i)
{
    const uint32_t bit = i * bits;
    const uint8_t *const p = codes + (bit >> 3);
    const uint_fast8_t place = (uint_fast8_t)(bit & 7u);
    uint32_t pair = hadamrnn_byte(p);
    if ((place + bits) > 8u) {
        pair |= (uint32_t)hadamrnn_byte(p + 1) << 8;
    }
    return (uint_fast8_t)((pair >> place) & ((1u << bits) - 1u));
}

/* The value of a code in two's complement. */
HADAMRNN_INLINE int32_t hadamrnn_reservoir_signed(uint_fast8_t code, uint_fast8_t bits)
{
    const int32_t sign = INT32_C(1) << (bits - 1u);
    return ((int32_t)code ^ sign) - sign;
}

#ifndef HADAMRNN_LANES_H
/* Count a state above a threshold. */
HADAMRNN_INLINE void hadamrnn_reservoir_count(hadamrnn_narrow *count, hadamrnn_narrow h, int16_t threshold)
{
    *count = (int16_t)(uint16_t)((uint16_t)*count + ((h > threshold) ? 1u : 0u));
}
#endif

/* Add sample number `sample`, in memory->codes. Return true if it completes a mean that counts: memory->work then has
 * 2^q u of every channel. */
HADAMRNN_INLINE bool hadamrnn_reservoir_drive(const hadamrnn_reservoir *r, const hadamrnn_reservoir_group *group,
                                              const hadamrnn_memory *memory, uint_fast16_t sample)
{
    hadamrnn_wide *const sums = memory->wide + group->sums;
    const uint_fast16_t width = (uint_fast16_t)1u << group->log2_width;
    const uint_fast16_t j = sample >> group->log2_width;
    const uint_fast16_t phase = j & (group->dilation - 1u);
    hadamrnn_narrow *const delays = memory->narrow + group->delays + ((uint32_t)phase * r->channels);
    if (width > 1u) {
        for (uint_fast16_t c = 0u; c < r->channels; c++) {
            sums[c] += hadamrnn_widened(memory->codes[c]);
        }
    }
    if (((sample + 1u) & (width - 1u)) != 0u) {
        return false;
    }
    for (uint_fast16_t c = 0u; c < r->channels; c++) {
        hadamrnn_wide v = hadamrnn_widened(memory->codes[c]);
        if (width > 1u) {
            v = (sums[c] + (int32_t)(width >> 1)) >> group->log2_width;
            sums[c] = (hadamrnn_wide){0};
        }
        if (group->is_difference != 0u) {
            const hadamrnn_wide before = hadamrnn_widened(delays[c]);
            delays[c] = hadamrnn_narrowed(v);
            v -= before;
        }
        memory->work[c] = v * (INT32_C(1) << group->input_shift);
    }
    return (group->is_difference == 0u) || (j >= group->dilation);
}

HADAMRNN_INLINE void hadamrnn_reservoir_butterfly(hadamrnn_wide *upper, hadamrnn_wide *lower)
{
    const hadamrnn_wide sum = *upper + *lower;
    *lower = *upper - *lower;
    *upper = sum;
}

/* H D h of one block. */
HADAMRNN_INLINE void hadamrnn_reservoir_mix(const hadamrnn_narrow *h, uint_fast8_t signs, hadamrnn_wide *v)
{
    for (uint_fast8_t i = 0u; i < HADAMRNN_RESERVOIR_BLOCK; i++) {
        const int32_t mask = -(int32_t)(((uint32_t)signs >> i) & 1u);
        v[i] = (hadamrnn_widened(h[i]) ^ mask) - mask;
    }
    hadamrnn_reservoir_butterfly(&v[0], &v[1]);
    hadamrnn_reservoir_butterfly(&v[2], &v[3]);
    hadamrnn_reservoir_butterfly(&v[4], &v[5]);
    hadamrnn_reservoir_butterfly(&v[6], &v[7]);
    hadamrnn_reservoir_butterfly(&v[0], &v[2]);
    hadamrnn_reservoir_butterfly(&v[1], &v[3]);
    hadamrnn_reservoir_butterfly(&v[4], &v[6]);
    hadamrnn_reservoir_butterfly(&v[5], &v[7]);
    hadamrnn_reservoir_butterfly(&v[0], &v[4]);
    hadamrnn_reservoir_butterfly(&v[1], &v[5]);
    hadamrnn_reservoir_butterfly(&v[2], &v[6]);
    hadamrnn_reservoir_butterfly(&v[3], &v[7]);
}

/* The position of a step in the constants: block by block, feature by feature. */
typedef struct {
    const uint8_t *block;
    const uint8_t *unit;
    const uint8_t *threshold;
    hadamrnn_narrow *h;
    hadamrnn_narrow *count;
    uint32_t segment; /* index among the features that belong to a third */
} hadamrnn_reservoir_place;

/* Advance one block and count its features; `third` is the third of the window that the step is in. */
HADAMRNN_INLINE void hadamrnn_reservoir_block(const hadamrnn_reservoir *r, const hadamrnn_memory *memory,
                                              hadamrnn_reservoir_place *at, bool is_segmented, uint_fast8_t third)
{
    uint_fast16_t channel = 0u;
    if (r->channel_bytes > 0u) {
        channel = hadamrnn_byte(at->block + 1);
    }
    if (r->channel_bytes > 1u) {
        channel |= (uint_fast16_t)hadamrnn_byte(at->block + 2) << 8;
    }
    const hadamrnn_wide u = memory->work[channel];
    hadamrnn_wide mixed[HADAMRNN_RESERVOIR_BLOCK];
    hadamrnn_reservoir_mix(at->h, hadamrnn_byte(at->block), mixed);
    for (uint_fast8_t i = 0u; i < HADAMRNN_RESERVOIR_BLOCK; i++) {
        const uint_fast8_t unit = hadamrnn_byte(at->unit + i);
        const hadamrnn_wide input = u * hadamrnn_reservoir_signed(unit & 15u, 4u);
        const hadamrnn_wide sum = ((mixed[i] + 2) >> 2) + input;
        const hadamrnn_narrow h = hadamrnn_narrowed(hadamrnn_clip(sum, 16u, &memory->counters->saturations));
        at->h[i] = h;
        for (uint_fast8_t n = (uint_fast8_t)(unit >> 4); n > 0u; n--) {
            if (!is_segmented || (hadamrnn_reservoir_code(r->segment, 2u, at->segment) == third)) {
                hadamrnn_reservoir_count(at->count, h, hadamrnn_word(at->threshold));
            }
            at->segment++;
            at->threshold += 2;
            at->count++;
        }
    }
    at->h += HADAMRNN_RESERVOIR_BLOCK;
    at->unit += HADAMRNN_RESERVOIR_BLOCK;
    at->block += 1u + r->channel_bytes;
}

/* Advance one group by sample number `sample`, in memory->codes. Return true if its units made a step. */
HADAMRNN_ONE_COPY bool hadamrnn_reservoir_group_step(const hadamrnn_reservoir *r, const hadamrnn_reservoir_group *group,
                                                     const hadamrnn_memory *memory, uint_fast16_t sample)
{
    if (!hadamrnn_reservoir_drive(r, group, memory, sample)) {
        return false;
    }
    const uint_fast16_t j = sample >> group->log2_width;
    const uint_fast16_t step = j - ((group->is_difference != 0u) ? group->dilation : 0u);
    const uint_fast8_t third = (uint_fast8_t)(((step >= group->ends[0]) ? 1u : 0u) + ((step >= group->ends[1]) ? 1u : 0u));
    const uint32_t phase = (uint32_t)j & (group->dilation - 1u);
    hadamrnn_reservoir_place at;
    at.block = r->block + (group->first_block * (1u + r->channel_bytes));
    at.unit = r->unit + (group->first_block * HADAMRNN_RESERVOIR_BLOCK);
    at.threshold = r->threshold + (2u * group->first_feature);
    at.h = memory->narrow + group->states + (phase * group->blocks * HADAMRNN_RESERVOIR_BLOCK);
    at.count = memory->narrow + r->counts + group->first_feature;
    at.segment = group->first_segment;
    for (uint_fast16_t b = 0u; b < group->blocks; b++) {
        if (group->is_segmented != 0u) {
            hadamrnn_reservoir_block(r, memory, &at, true, third);
        } else {
            hadamrnn_reservoir_block(r, memory, &at, false, 0u);
        }
    }
    return true;
}

#ifndef HADAMRNN_LANES_H
/* Advance by one sample, with the codes x of every channel. Return HADAMRNN_OK, or HADAMRNN_FULL if counters are full. */
HADAMRNN_INLINE uint8_t hadamrnn_reservoir_step(const hadamrnn_model *ends, const hadamrnn_reservoir *r,
                                                const hadamrnn_memory *memory, const int16_t *x)
{
    const int16_t high = (int16_t)((INT32_C(1) << (ends->input_bits - 1u)) - 1);
    const int16_t low = (int16_t)(-high - 1);
    const uint16_t sample = memory->counters->inputs;
    if (sample >= ends->longest) {
        return HADAMRNN_FULL;
    }
    memory->counters->inputs++;
    for (uint_fast16_t c = 0u; c < r->channels; c++) {
        memory->codes[c] = (x[c] > high) ? high : ((x[c] < low) ? low : x[c]);
    }
    for (uint_fast8_t g = 0u; g < r->groups; g++) {
        (void)hadamrnn_reservoir_group_step(r, &r->group[g], memory, sample);
    }
    return HADAMRNN_OK;
}

/* The rate for the features of each segment after this many samples. */
HADAMRNN_INLINE void hadamrnn_reservoir_rates(const hadamrnn_reservoir_group *group, uint_fast16_t samples, uint32_t *rates)
{
    const uint32_t start = (group->is_difference != 0u) ? group->dilation : 0u;
    const uint32_t means = (uint32_t)samples >> group->log2_width;
    const uint32_t steps = (means > start) ? (means - start) : 0u;
    uint32_t begin = 0u;
    for (uint_fast8_t s = 0u; s < HADAMRNN_RESERVOIR_SEGMENTS; s++) {
        const uint32_t end = (steps < group->ends[s]) ? steps : group->ends[s];
        rates[s] = (UINT32_C(1) << 30) / ((end > begin) ? (end - begin) : 1u);
        begin = group->ends[s];
    }
}

/* Read out after any step. */
HADAMRNN_ONE_COPY void hadamrnn_reservoir_logits(const hadamrnn_reservoir *r, const hadamrnn_view *view, int32_t *logits)
{
    for (uint_fast16_t k = 0u; k < r->outputs; k++) {
        logits[k] = hadamrnn_word(r->output_bias + (2u * k)) * (INT32_C(1) << r->output_bias_shift);
    }
    uint32_t f = 0u;
    for (uint_fast8_t g = 0u; g < r->groups; g++) {
        const hadamrnn_reservoir_group *const group = &r->group[g];
        const uint32_t end = f + group->features;
        uint32_t segment = group->first_segment;
        uint32_t rates[HADAMRNN_RESERVOIR_SEGMENTS];
        hadamrnn_reservoir_rates(group, view->counters->inputs, rates);
        for (; f < end; f++) {
            const uint_fast8_t third = (group->is_segmented != 0u) ? hadamrnn_reservoir_code(r->segment, 2u, segment) : 0u;
            const uint_fast8_t shift = (uint_fast8_t)(15u + hadamrnn_reservoir_code(r->exponent, 4u, f));
            const uint32_t share = (uint16_t)view->narrow[r->counts + f] * rates[third];
            const int32_t code = (int32_t)((share + (UINT32_C(1) << (shift - 1u))) >> shift);
            const uint32_t v = f * r->outputs;
            segment++;
            for (uint_fast16_t k = 0u; k < r->outputs; k++) {
                const uint_fast8_t weight = hadamrnn_reservoir_code(r->output_weight, r->weight_bits, v + (uint32_t)k);
                logits[k] += code * hadamrnn_reservoir_signed(weight, r->weight_bits);
            }
        }
    }
}
#endif
#endif
