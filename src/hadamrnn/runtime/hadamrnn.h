/* hadamrnn.h: Hadamard recurrent networks of integers, for devices.
 *
 * The program is the same for every network; a network is constant data (`hadamrnn_model`). All numbers are integers,
 * `round` has ties towards +infinity, `saturate` is to activation_bits, shift(x, n) is x 2^n, rounded if n is negative.
 * One step of a layer with the state h, the signs u and the input codes x:
 *
 *     a = (u * H h) 2^state_shift                                   hadamrnn_narrow_pass, hadamrnn_transform_chunk
 *     a = a - round(a / 2^k)                                        if the block leaks
 *     h = saturate(round((a + drive) * multiplier / 2^round_shift)) hadamrnn_product
 *     h = max(h, 0)                                                 recurrence "relu" only
 *     drive = shift(U x, input_shift) + b_i 2^bias_shift            hadamrnn_drive
 *
 * Every layer except the last outputs codes, of which the next layer sums `stride` at a time (hadamrnn_output):
 *
 *     y = max(h, 0), or with a gain saturate(max(round((h gain + offset 2^offset_shift) / 2^gain_shift), 0))
 *     y = saturate(y + shift(x, skip_shift))                        with a skip connection
 *
 * The read-out keeps sums, counters and maxima of the last layer (hadamrnn_pool_step). After T of its steps:
 *
 *     value  = max(h, 0) | sum max(h - theta, 0) | number of h > theta | max h
 *     code   = saturate(round(value rate / 2^feature_shift)),  rate = (M << 15) / T of sums and counters, else M << 15
 *     logits = V codes + b_o 2^output_bias_shift                    hadamrnn_logits
 *
 * H is block diagonal. A block F_1 kron ... kron F_r kron S_{2^stages} is applied factor by factor, in any order since
 * integers are exact: the widest stages of S in place, in pairs, in 16 bits as long as the sums fit; the next ones in a
 * buffer of 32 bits, a chunk of the state at a time, with the factors F, whose orders are no powers of two, by their
 * signs; the last two in registers, together with the rest of the work on a row (hadamrnn_advance).
 *
 * Who calls whom:
 *
 *     hadamrnn_step, hadamrnn_step_id         one time step of a dense input, of an id
 *       hadamrnn_advance_all                  every layer that is due
 *         hadamrnn_layer_step
 *           hadamrnn_advance                  the next h
 *             hadamrnn_narrow_pass            two stages of S, in place, in 16 bits
 *             hadamrnn_all_groups
 *               hadamrnn_transform_chunk      the next stages and the factors, in 32 bits
 *               hadamrnn_group                eight rows: hadamrnn_drives, then hadamrnn_four_rows and hadamrnn_row
 *           hadamrnn_output                   y, of a layer below another one
 *           hadamrnn_pool_step                sums, counters and maxima, of the last layer
 *     hadamrnn_logits                         the read-out
 *
 * The caller owns all memory: `hadamrnn_memory` points to it. C99, stdbool.h, stddef.h, stdint.h and string.h only. No
 * heap, no floating point, no division in a step, no global variables, no recursion; no sum overflows for any input, which
 * is proved when a model is made. Right shifts of signed integers must be arithmetic, as in gcc and clang.
 *
 * Before including this file define
 *     HADAMRNN_SPECIALISED      for inlined functions, so that the compiler folds the constants of a visible model
 * and for options
 *     HADAMRNN_FLASH            the attribute of constants: a section, for example
 *     HADAMRNN_NARROW_PRODUCT   no products of 64 bits (Cortex-M0 and AVR always)
 *
 * It consists of hadamrnn_model.h: a network as data; hadamrnn.h, this file: the program; hadamrnn_device.h:
 * device-specific code; hadamrnn_units.h: raw codes and values; hadamrnn_window.h, which includes this file: sliding
 * windows. Start reading at hadamrnn_model.h, then at hadamrnn_step.
 */
#ifndef HADAMRNN_H
#define HADAMRNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVR__
#include <avr/pgmspace.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HADAMRNN_FLASH
#ifdef __AVR__
#define HADAMRNN_FLASH PROGMEM
#else
#define HADAMRNN_FLASH
#endif
#endif

#ifdef __GNUC__
#define HADAMRNN_ALIGNED __attribute__((aligned(4)))
#else
#define HADAMRNN_ALIGNED
#endif

/* The results of a step or a window. */
#define HADAMRNN_OK 0u
#define HADAMRNN_UNKNOWN_ID 1u /* no such id: the state is unchanged */
#define HADAMRNN_FULL 2u /* the sums are full: the state is unchanged, and can still be read */
#define HADAMRNN_READY 3u /* a window is complete: its logits are new */
#define HADAMRNN_BAD_WINDOW 4u /* hadamrnn_window_init refused it: nothing has changed */

#define HADAMRNN_NO_CLASS 0xFFFFu /* the class of a window before the first whole one */

#include "hadamrnn_model.h"

/* The sensor of one device: its reading at rest, and a gain in units of 2^-14, of each channel. */
typedef struct {
    int32_t zero;
    uint16_t gain; /* HADAMRNN_UNIT_GAIN: 1 */
} hadamrnn_calibration;

#define HADAMRNN_UNIT_GAIN 16384u

/* Correct the readings of a sensor that differ from those of the training data, before NAME_encode: saturate(round((raw -
 * zero) gain / 2^14)), to 32 bits. `raw` and `corrected` may be the same array. */
static inline void hadamrnn_calibrate(const hadamrnn_calibration *channels, uint16_t count, const int32_t *raw,
                                      int32_t *corrected)
{
    for (uint16_t j = 0; j < count; j++) {
        const int64_t product = ((int64_t)raw[j] - channels[j].zero) * (int64_t)channels[j].gain;
        const int64_t value = (product + 8192) >> 14;
        corrected[j] = (value > INT32_MAX) ? INT32_MAX : ((value < INT32_MIN) ? INT32_MIN : (int32_t)value);
    }
}

/* A lane is the type of a sum: a number on a device. On a host it is a vector with one number from each of several
 * sequences that run side by side: lanes.h of the native library then defines these types, and the functions of a lane. */
#ifndef HADAMRNN_LANES_H
typedef int16_t hadamrnn_narrow;
typedef int32_t hadamrnn_wide;
typedef uint32_t hadamrnn_count;
#endif

typedef struct {
    hadamrnn_count saturations; /* entries of h clipped since init */
    uint16_t inputs; /* steps since init, if the model has a longest */
    uint16_t pooled; /* steps of the last layer in the pools */
} hadamrnn_counters;

/* The memory of one stream, owned by the caller. Its content is undefined before hadamrnn_init. */
typedef struct {
    hadamrnn_counters *counters;
    hadamrnn_wide *wide; /* pool_wide: sums and counters of the read-outs */
    hadamrnn_narrow *narrow; /* narrow_cells: maxima, states, sums between layers, phases */
    hadamrnn_wide *work; /* used within a step only */
    hadamrnn_narrow *codes; /* used within a step only */
#ifdef HADAMRNN_LANES_H
    const hadamrnn_wide *drive; /* contributions of ids to the sums of the lowest layer, which differ between lanes; or NULL */
#endif
} hadamrnn_memory;

/* The memory that a read-out needs. */
typedef struct {
    const hadamrnn_counters *counters;
    const hadamrnn_wide *wide;
    const hadamrnn_narrow *narrow;
} hadamrnn_view;

#ifdef __cplusplus
}
#endif

#endif

#if (defined(HADAMRNN_SPECIALISED) || defined(HADAMRNN_SHARED)) && !defined(HADAMRNN_CODE)
#define HADAMRNN_CODE

/* How functions are compiled:
 *
 *     build                           INLINE     ONE_COPY         FOLDED     API
 *     specialised: constants known    inlined    a function       inlined    inlined
 *     shared: any network             inlined    a function       a function external, declared in hadamrnn_shared.h
 *     host: vectors as lanes          inlined    a function       a function inlined
 *
 * Small functions are INLINE and passes over the state are ONE_COPY; FOLDED is inlined for every layer, with its constants. */
#if defined(__GNUC__) && defined(__OPTIMIZE__)
#define HADAMRNN_INLINE static inline __attribute__((always_inline))
#else
#define HADAMRNN_INLINE static inline
#endif
#ifdef __GNUC__
#define HADAMRNN_ONE_COPY __attribute__((noinline, unused)) static
#else
#define HADAMRNN_ONE_COPY static
#endif

#if defined(HADAMRNN_LANES_H)
#define HADAMRNN_API HADAMRNN_INLINE
#define HADAMRNN_FOLDED HADAMRNN_ONE_COPY
#elif defined(HADAMRNN_SHARED)
#define HADAMRNN_API
#define HADAMRNN_FOLDED HADAMRNN_ONE_COPY
#else
#define HADAMRNN_API HADAMRNN_INLINE
#define HADAMRNN_FOLDED HADAMRNN_INLINE
#endif

/* A statement for i = 0, ..., 3 or 0, ..., 7, each with its constant i, so that arrays stay in registers. */
#define HADAMRNN_WITH(i, value, statement) \
    {                                      \
        const uint_fast8_t i = (value);    \
        statement;                         \
    }
#define HADAMRNN_FOR4(i, statement)     \
    HADAMRNN_WITH(i, 0u, statement)     \
    HADAMRNN_WITH(i, 1u, statement)     \
    HADAMRNN_WITH(i, 2u, statement)     \
    HADAMRNN_WITH(i, 3u, statement)
#define HADAMRNN_FOR8(i, statement)     \
    HADAMRNN_FOR4(i, statement)         \
    HADAMRNN_WITH(i, 4u, statement)     \
    HADAMRNN_WITH(i, 5u, statement)     \
    HADAMRNN_WITH(i, 6u, statement)     \
    HADAMRNN_WITH(i, 7u, statement)

#include "hadamrnn_device.h"

/* ---- Arithmetic. */

/* value / 2^shift, ties towards +infinity; it cannot overflow. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_round_shift(hadamrnn_wide value, uint_fast8_t shift)
{
    return (shift == 0u) ? value : (((value >> (shift - 1u)) + 1) >> 1);
}

/* shift(value, shift). A product, since C leaves left shifts of negative numbers undefined. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_shift(hadamrnn_wide value, int_fast8_t shift)
{
    return (shift < 0) ? hadamrnn_round_shift(value, (uint_fast8_t)-shift) : (value * (INT32_C(1) << shift));
}

/* ---- Sizes. */

/* The groups of eight rows that hold `units` rows. */
HADAMRNN_INLINE uint16_t hadamrnn_groups(uint16_t units)
{
    return (uint16_t)((units + (HADAMRNN_GROUP - 1u)) / HADAMRNN_GROUP);
}

/* The layer that is read out. */
HADAMRNN_INLINE const hadamrnn_layer *hadamrnn_top(const hadamrnn_model *model)
{
    return &model->layers[model->num_layers - 1u];
}

/* Whether a read-out has a value for every row of thresholds, and its value grows with the steps. */
HADAMRNN_INLINE bool hadamrnn_is_counted(uint_fast8_t readout)
{
    return (readout == HADAMRNN_MEAN) || (readout == HADAMRNN_POSITIVE);
}

/* Groups of eight features of a read-out. */
HADAMRNN_INLINE uint32_t hadamrnn_feature_groups(const hadamrnn_model *model, uint_fast8_t readout)
{
    const uint32_t groups = hadamrnn_groups(hadamrnn_top(model)->units);
    return hadamrnn_is_counted(readout) ? (groups * model->thresholds) : groups;
}

/* Bytes of V for one logit. */
HADAMRNN_INLINE uint32_t hadamrnn_pitch(const hadamrnn_model *model)
{
    uint32_t groups = 0;
    for (uint_fast8_t r = 0; r < model->num_readouts; r++) {
        groups += hadamrnn_feature_groups(model, model->readouts[r]);
    }
    return groups * model->code_bits;
}

/* ---- The Hadamard transform. */

/* S_4 over the entries 0, stride, 2 stride, 3 stride of every run of 4 stride, in place, in 16 bits; stride is even. */
HADAMRNN_ONE_COPY void hadamrnn_narrow_pass(hadamrnn_narrow *h, uint_fast16_t size, uint_fast16_t stride)
{
    const hadamrnn_narrow *const end = h + size;
    while (h < end) {
        const hadamrnn_narrow *const next = h + stride;
        while (h < next) {
            const hadamrnn_lane a0 = hadamrnn_load(h);
            const hadamrnn_lane a1 = hadamrnn_load(h + stride);
            const hadamrnn_lane a2 = hadamrnn_load(h + (2u * stride));
            const hadamrnn_lane a3 = hadamrnn_load(h + (3u * stride));
            const hadamrnn_lane b0 = hadamrnn_add(a0, a2);
            const hadamrnn_lane b2 = hadamrnn_subtract(a0, a2);
            const hadamrnn_lane b1 = hadamrnn_add(a1, a3);
            const hadamrnn_lane b3 = hadamrnn_subtract(a1, a3);
            hadamrnn_store(h, hadamrnn_add(b0, b1));
            hadamrnn_store(h + stride, hadamrnn_subtract(b0, b1));
            hadamrnn_store(h + (2u * stride), hadamrnn_add(b2, b3));
            hadamrnn_store(h + (3u * stride), hadamrnn_subtract(b2, b3));
            h += HADAMRNN_LANES;
        }
        h += 3u * stride;
    }
}

HADAMRNN_INLINE void hadamrnn_butterfly(hadamrnn_wide *a, hadamrnn_wide *b)
{
    const hadamrnn_wide sum = *a + *b;
    *b = *a - *b;
    *a = sum;
}

/* S_4 v. */
HADAMRNN_INLINE void hadamrnn_butterflies(hadamrnn_wide *v)
{
    hadamrnn_butterfly(&v[0], &v[2]);
    hadamrnn_butterfly(&v[1], &v[3]);
    hadamrnn_butterfly(&v[0], &v[1]);
    hadamrnn_butterfly(&v[2], &v[3]);
}

/* The same over the entries 0, stride, 2 stride, 3 stride of every run of 4 stride, in place, in 32 bits. */
HADAMRNN_ONE_COPY void hadamrnn_wide_pass(hadamrnn_wide *work, uint_fast16_t size, uint_fast16_t stride)
{
    const hadamrnn_wide *const end = work + size;
    while (work < end) {
        const hadamrnn_wide *const next = work + stride;
        while (work < next) {
            hadamrnn_wide v[4];
            HADAMRNN_FOR4(i, v[i] = work[i * stride])
            hadamrnn_butterflies(v);
            HADAMRNN_FOR4(i, work[i * stride] = v[i])
            work++;
        }
        work += 3u * stride;
    }
}

/* S_radix, radix 1, 2, 4 or 8, over the entries 0, stride, 2 stride, ... of every run of radix stride, from 16 bits to
 * 32. */
HADAMRNN_INLINE void hadamrnn_widen(uint_fast8_t radix, const hadamrnn_narrow *h, hadamrnn_wide *work, uint_fast16_t size,
                                    uint_fast16_t stride)
{
    const hadamrnn_narrow *const end = h + size;
    while (h < end) {
        const hadamrnn_narrow *const next = h + stride;
        while (h < next) {
            hadamrnn_wide v[8];
            HADAMRNN_FOR8(i, if (i < radix) { v[i] = hadamrnn_widened(h[i * stride]); })
            if (radix == 8u) {
                HADAMRNN_FOR4(i, hadamrnn_butterfly(&v[i], &v[i + 4u]))
                hadamrnn_butterflies(&v[4]);
            }
            if (radix == 2u) {
                hadamrnn_butterfly(&v[0], &v[1]);
            } else if (radix > 2u) {
                hadamrnn_butterflies(v);
            } else {
                /* A copy. */
            }
            HADAMRNN_FOR8(i, if (i < radix) { work[i * stride] = v[i]; })
            h++;
            work++;
        }
        h += (radix - 1u) * stride;
        work += (radix - 1u) * stride;
    }
}

/* The usual case, since states of 12 bits need 32 bits for these stages. */
HADAMRNN_ONE_COPY void hadamrnn_widen8(const hadamrnn_narrow *h, hadamrnn_wide *work, uint_fast16_t size)
{
    hadamrnn_widen(8u, h, work, size, 4u);
}

/* F over the entries 0, stride, 2 stride, ... of every run of order stride, in place. The number of columns
 * of F is a multiple of four, and four of them have eight sums x_0 +- x_1 +- x_2 +- x_3 up to the sign. They are computed
 * once, 2 order numbers in `sums`, and a row of F takes one of them for each four of its signs. */
HADAMRNN_ONE_COPY void hadamrnn_factor_pass(hadamrnn_wide *h, uint_fast16_t size, const hadamrnn_factor *factor,
                                            hadamrnn_wide *sums)
{
    const uint_fast16_t order = factor->order;
    const uint_fast16_t stride = factor->stride;
    for (uint_fast16_t i = 0; i < size; i += (((i + 1u) % stride) == 0u) ? (((order - 1u) * stride) + 1u) : 1u) {
        for (uint_fast16_t k = 0; k < order; k += 4u) {
            hadamrnn_wide v[4];
            HADAMRNN_FOR4(j, v[j] = h[i + ((k + j) * stride)])
            hadamrnn_butterfly(&v[0], &v[1]);
            hadamrnn_butterfly(&v[2], &v[3]);
            for (uint_fast8_t j = 0; j < 2u; j++) { /* bit j - 1 of a place is 1 if x_j is subtracted */
                sums[(2u * k) + j] = v[j] + v[2];
                sums[(2u * k) + j + 2u] = v[j] - v[3];
                sums[(2u * k) + j + 4u] = v[j] + v[3];
                sums[(2u * k) + j + 6u] = v[j] - v[2];
            }
        }
        const uint8_t *signs = factor->signs;
        for (uint_fast16_t k = 0; k < order; k++) {
            hadamrnn_wide sum = {0};
            uint32_t bits = 0;
            for (uint_fast16_t j = 0; j < order; j += 4u) {
                if ((j & 4u) == 0u) {
                    bits = hadamrnn_byte(signs);
                    signs++;
                }
                const uint32_t place = (bits >> 1) & 7u;
                /* If x_0 is subtracted, flip the other signs and subtract the sum. */
                sum = ((bits & 1u) == 0u) ? (sum + sums[(2u * j) + place]) : (sum - sums[(2u * j) + 7u - place]);
                bits >>= 4;
            }
            h[i + (k * stride)] = sum;
        }
    }
}

/* Apply the factors and `stages` stages to `size` entries: all that needs 32 bits except the last two stages. The order
 * of stages and factors does not matter. */
HADAMRNN_FOLDED void hadamrnn_transform_chunk(const hadamrnn_layer *layer, const hadamrnn_narrow *h, hadamrnn_wide *work,
                                              uint_fast16_t size, uint_fast8_t stages)
{
    const uint_fast8_t first = (stages == 3u) ? 3u : ((stages == 0u) ? 0u : (2u - (stages & 1u)));
    uint_fast16_t stride = (uint_fast16_t)((uint_fast16_t)4u << (stages - first));
    if (first == 3u) {
        hadamrnn_widen8(h, work, size);
    } else if (first == 2u) {
        hadamrnn_widen(4u, h, work, size, stride);
    } else if (first == 1u) {
        hadamrnn_widen(2u, h, work, size, stride);
    } else {
        hadamrnn_widen(1u, h, work, size, stride);
    }
    for (uint_fast8_t done = first; done < stages; done += 2u) {
        stride >>= 2;
        hadamrnn_wide_pass(work, size, stride);
    }
    if (layer->factors[0].order != 0u) { /* checked early: networks without factors leave the function out */
        for (uint_fast8_t f = 0; (f < HADAMRNN_FACTORS) && (layer->factors[f].order != 0u); f++) {
            hadamrnn_factor_pass(work, layer->units, &layer->factors[f], work + size);
        }
    }
}

/* ---- One layer. */

/* A layer processes its rows in groups of 8. Its description is a local copy, whose pointers advance with the rows: no
 * store through a pointer can change it, so a compiler can keep it in registers. */
typedef struct {
    hadamrnn_layer layer;
    const hadamrnn_narrow *x; /* the codes of `columns` columns of U */
#ifdef HADAMRNN_LANES_H
    const hadamrnn_wide *drive; /* drive of a group, or NULL */
#endif
    const hadamrnn_wide *work; /* H h without the last two stages */
    hadamrnn_narrow *h; /* the same for a layer without a buffer, and the next state */
    hadamrnn_wide only; /* the code of a single column */
    int32_t factor; /* multiplier 2^(32 - round_shift), if that is below 2^31 */
    uint_fast16_t columns;
    uint_fast8_t code_bits;
    uint_fast8_t value_bytes;
    uint_fast8_t activation_bits;
    bool is_relu;
    bool is_buffered;
    hadamrnn_count clipped;
} hadamrnn_rows;

/* The drive of row i of a group, from (U x)_i: shift(U x, input_shift) + b_i 2^bias_shift. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_drive(const hadamrnn_rows *at, uint_fast8_t i, hadamrnn_wide product)
{
    hadamrnn_wide drive = product;
    if (at->columns != 0u) {
        drive = hadamrnn_shift(product, at->layer.input_shift);
    }
    if (at->layer.bias != NULL) {
        drive += hadamrnn_shifted_value(at->layer.bias, at->value_bytes, i, at->layer.bias_shift);
    }
    return drive;
}

/* The drives of the eight rows of a group; `bits` is code_bits. */
HADAMRNN_INLINE void hadamrnn_drives(const hadamrnn_rows *at, uint_fast8_t bits, hadamrnn_wide drives[8])
{
    const uint8_t *weight = at->layer.weight;
    hadamrnn_wide sums[8];
    (void)memset(sums, 0, sizeof sums);
    for (uint_fast16_t j = 0; j < at->columns; j++) {
        const hadamrnn_wide x = hadamrnn_widened(at->x[j]);
        HADAMRNN_FOR8(i, sums[i] += hadamrnn_code(weight, bits, i) * x)
        weight += bits;
    }
    HADAMRNN_FOR8(i, drives[i] = hadamrnn_drive(at, i, sums[i]))
}

/* Row i of a group: its next state from (H h)_i and its drive,
 *
 *     a = (u * H h) 2^state_shift;  a = a - round(a / 2^k)
 *     h = saturate(round((a + drive) * multiplier / 2^round_shift)), and max(h, 0) if is_relu
 */
HADAMRNN_INLINE void hadamrnn_row(hadamrnn_rows *at, uint_fast8_t i, hadamrnn_wide sum, hadamrnn_signs signs,
                                  hadamrnn_wide drive)
{
    const hadamrnn_layer *const layer = &at->layer;
    hadamrnn_wide a = hadamrnn_switched(sum, signs, i, layer->state_shift);
    uint_fast8_t k = layer->leak;
    if (layer->leaks != NULL) {
        k = hadamrnn_byte((layer->leak_bytes == 1u) ? layer->leaks : (layer->leaks + i));
    }
    if (k != 0u) {
        a -= (a + (INT32_C(1) << (k - 1u))) >> k;
    }
    a += drive;
    a = (layer->multiplier == 1u) ? hadamrnn_round_shift(a, layer->round_shift)
                                  : hadamrnn_product(a, layer->multiplier, at->factor, layer->round_shift);
    a = hadamrnn_clip(a, at->activation_bits, &at->clipped);
    at->h[i] = hadamrnn_narrowed(at->is_relu ? hadamrnn_positive(a) : a);
}

/* The drive of row i, one of `drives` if U has several columns, else computed here. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_drive_of(const hadamrnn_rows *at, const hadamrnn_wide drives[8], uint_fast8_t i)
{
#ifdef HADAMRNN_LANES_H
    if (at->drive != NULL) {
        return at->drive[i];
    }
#endif
    hadamrnn_wide product = {0};
    if (at->columns > 1u) {
        return drives[i];
    }
    if (at->columns == 1u) {
        product = hadamrnn_code(at->layer.weight, at->code_bits, i) * at->only;
    }
    return hadamrnn_drive(at, i, product);
}

/* The rows first, ..., first + 3 of a group. */
HADAMRNN_INLINE void hadamrnn_four_rows(hadamrnn_rows *at, uint_fast8_t first, hadamrnn_signs signs,
                                        const hadamrnn_wide drives[8])
{
    hadamrnn_wide v[4];
    HADAMRNN_FOR4(i, v[i] = at->is_buffered ? at->work[first + i] : hadamrnn_widened(at->h[first + i]))
    if (at->layer.stages > 1u) {
        hadamrnn_butterflies(v);
    } else if (at->layer.stages == 1u) {
        hadamrnn_butterfly(&v[0], &v[1]);
        hadamrnn_butterfly(&v[2], &v[3]);
    } else {
        /* no stage is left */
    }
    if (HADAMRNN_UNROLL || (at->columns < 2u)) {
        HADAMRNN_FOR4(i, hadamrnn_row(at, first + i, v[i], signs, hadamrnn_drive_of(at, drives, first + i)))
    } else {
        for (uint_fast8_t i = 0; i < 4u; i++) {
            hadamrnn_row(at, first + i, v[i], signs, drives[first + i]);
        }
    }
}

/* One group of rows. */
HADAMRNN_INLINE void hadamrnn_group(hadamrnn_rows *at)
{
    hadamrnn_layer *const layer = &at->layer;
    const hadamrnn_signs signs = hadamrnn_read_signs(layer->signs);
    hadamrnn_wide drives[8];
    if (at->columns > 1u) {
        if (at->code_bits == 4u) { /* the usual widths, as constants */
            hadamrnn_drives(at, 4u, drives);
        } else {
            hadamrnn_drives(at, at->code_bits, drives);
        }
    }
    if (HADAMRNN_UNROLL || (at->columns < 2u)) {
        hadamrnn_four_rows(at, 0u, signs, drives);
        hadamrnn_four_rows(at, 4u, signs, drives);
    } else {
        for (uint_fast8_t first = 0; first < HADAMRNN_GROUP; first += 4u) {
            hadamrnn_four_rows(at, first, signs, drives);
        }
    }
    layer->signs += HADAMRNN_SIGN_BYTES;
    layer->weight = (layer->weight == NULL) ? NULL : (layer->weight + (at->columns * at->code_bits));
    layer->bias = (layer->bias == NULL) ? NULL : (layer->bias + (HADAMRNN_GROUP * at->value_bytes));
    layer->leaks = (layer->leaks == NULL) ? NULL : (layer->leaks + layer->leak_bytes);
#ifdef HADAMRNN_LANES_H
    at->drive = (at->drive == NULL) ? NULL : (at->drive + HADAMRNN_GROUP);
#endif
    at->work += HADAMRNN_GROUP;
    at->h += HADAMRNN_GROUP;
}

/* All rows. Stages that need 32 bits use the buffer, a chunk of rows at a time, or all rows if there are factors. */
HADAMRNN_INLINE void hadamrnn_all_groups(hadamrnn_rows *at, const hadamrnn_layer *layer, uint_fast8_t stages,
                                         hadamrnn_wide *work)
{
    const bool has_factors = layer->factors[0].order != 0u;
    const uint_fast16_t groups = hadamrnn_groups(layer->units);
    const uint_fast16_t chunk =
        (has_factors || !at->is_buffered) ? groups : (uint_fast16_t)((uint_fast16_t)1u << (stages - 1u));
    for (uint_fast16_t start = 0; start < groups; start += chunk) {
        if (at->is_buffered) {
            hadamrnn_transform_chunk(layer, at->h, work, HADAMRNN_GROUP * chunk, stages);
            at->work = work;
        }
        for (uint_fast16_t g = 0; g < chunk; g++) {
            hadamrnn_group(at);
        }
    }
}

/* Replace h by the next state. The input is the codes x, or for a one-hot input the channel `id`: U has one column then,
 * that of `id`, whose code is 1. The code of a single column is shifted before the product: no row needs a shift. */
HADAMRNN_INLINE void hadamrnn_advance(const hadamrnn_model *model, const hadamrnn_layer *layer,
                                      const hadamrnn_memory *memory, const hadamrnn_narrow *x, uint32_t id)
{
    const bool is_one_hot = (layer == model->layers) && (model->input_kind == HADAMRNN_ONE_HOT);
    const uint_fast16_t groups = hadamrnn_groups(layer->units);
    const uint_fast8_t buffered = (uint_fast8_t)((layer->stages > 2u) ? (layer->stages - 2u - layer->in_place) : 0u);
    const uint32_t factor = (uint32_t)layer->multiplier << ((32u - layer->round_shift) & 31u);
    hadamrnn_rows at = {
        .layer = *layer,
        .x = x,
        .work = memory->work,
        .h = memory->narrow + layer->cells,
        .factor = (int32_t)factor,
        .columns = (layer->weight == NULL) ? 0u : (is_one_hot ? 1u : layer->inputs),
        .code_bits = model->code_bits,
        .value_bytes = model->value_bytes,
        .activation_bits = model->activation_bits,
        .is_relu = model->is_relu != 0u,
        .is_buffered = (buffered != 0u) || (layer->factors[0].order != 0u),
        .clipped = memory->counters->saturations};
    for (uint_fast8_t stage = 0; stage < layer->in_place; stage += 2u) {
        const uint_fast16_t block = (uint_fast16_t)((uint_fast16_t)1u << (layer->stages - stage));
        hadamrnn_narrow_pass(at.h, layer->units, block / 4u);
    }
    if (at.columns == 1u) { /* 2^input_shift x; if this does not fit, all codes of U are 0 */
        const uint_fast8_t shift = (layer->input_shift > 0) ? (uint_fast8_t)layer->input_shift : 0u;
        at.only = is_one_hot ? ((hadamrnn_wide){0} + 1) : hadamrnn_widened(x[0]);
        const hadamrnn_count shifted = (hadamrnn_count)at.only << shift;
        at.only = (hadamrnn_wide)shifted;
        at.layer.input_shift = (int8_t)(layer->input_shift - (int8_t)shift);
    }
    if (is_one_hot && (at.columns != 0u)) {
        at.layer.weight += id * (uint32_t)(groups * at.code_bits);
    }
#ifdef HADAMRNN_LANES_H
    at.drive = (layer == model->layers) ? memory->drive : NULL;
#endif
    bool is_usual = false;
#if defined(HADAMRNN_LANES_H) || defined(HADAMRNN_SHARED)
    /* If the compiler sees no constants, give it a separate loop for the paper's kind of layer, with constants. */
    const hadamrnn_layer *const copy = &at.layer;
    is_usual = at.is_buffered && !at.is_relu && (copy->leaks == NULL) && (copy->leak == 0u) && (copy->stages > 1u) &&
               (copy->multiplier != 1u) && (copy->round_shift > 16u) && (copy->round_shift <= 32u) &&
               (copy->input_shift == 0) && (at.columns == 1u) && (at.code_bits == HADAMRNN_CODE_BITS) &&
               (at.value_bytes == HADAMRNN_VALUE_BYTES) && (at.activation_bits == 12u) && (copy->bias != NULL);
#endif
    if (is_usual) {
        hadamrnn_rows usual = at;
        usual.layer.leaks = NULL;
        usual.layer.leak = 0;
        usual.layer.stages = 2;
        usual.layer.input_shift = 0;
        usual.columns = 1;
        usual.code_bits = HADAMRNN_CODE_BITS;
        usual.value_bytes = HADAMRNN_VALUE_BYTES;
        usual.activation_bits = 12;
        usual.is_relu = false;
        usual.is_buffered = true;
        hadamrnn_all_groups(&usual, layer, buffered, memory->work);
        at.clipped = usual.clipped;
    } else {
        hadamrnn_all_groups(&at, layer, buffered, memory->work);
    }
    memory->counters->saturations = at.clipped;
}

/* Compute the codes for the next layer; add them to `sums` if the stride is above 1, else overwrite `sums`:
 *
 *     y = max(h, 0), or with a gain saturate(max(round((h gain + offset 2^offset_shift) / 2^gain_shift), 0))
 *     y = saturate(y + shift(x, skip_shift)), with a skip connection
 */
HADAMRNN_INLINE void hadamrnn_output(const hadamrnn_model *model, const hadamrnn_layer *layer,
                                     const hadamrnn_memory *memory, const hadamrnn_narrow *x, hadamrnn_narrow *sums)
{
    const hadamrnn_layer own = *layer; /* a local copy, as for rows */
    const uint_fast8_t bytes = model->value_bytes;
    const bool is_strided = model->stride > 1u;
    const hadamrnn_narrow *const state = memory->narrow + own.cells;
    for (uint_fast16_t i = 0; i < own.units; i++) {
        const hadamrnn_wide h = hadamrnn_widened(state[i]);
        hadamrnn_wide code = h;
        if (own.gain != NULL) {
            code = (h * hadamrnn_value(own.gain, bytes, i)) + hadamrnn_shifted_value(own.offset, bytes, i, own.offset_shift);
            code = hadamrnn_round_shift(code, own.gain_shift);
        }
        code = hadamrnn_saturate(hadamrnn_positive(code), own.output_bits);
        if (own.has_skip != 0u) {
            code = hadamrnn_saturate(code + hadamrnn_shift(hadamrnn_widened(x[i]), own.skip_shift), own.output_bits);
        }
        sums[i] = hadamrnn_narrowed(is_strided ? (hadamrnn_widened(sums[i]) + code) : code);
    }
}

/* ---- The read-out. */

/* Add a step of the last layer to the pools: sum += max(h - theta, 0), count += (h > theta), largest = max(largest, h). */
HADAMRNN_INLINE void hadamrnn_pool_step(const hadamrnn_model *model, const hadamrnn_memory *memory)
{
    const hadamrnn_layer *const top = hadamrnn_top(model);
    const uint_fast16_t rows = hadamrnn_groups(top->units) * HADAMRNN_GROUP;
    const bool sums = model->counts != 0u; /* the counters come after the sums, if there are any */
    const bool counts = model->pool_wide > model->counts;
    const bool is_pooled = (model->pool_wide != 0u) || (model->pool_narrow != 0u);
    const uint_fast16_t units = is_pooled ? top->units : 0u;
    const uint_fast16_t entries = (model->pool_wide != 0u) ? (rows * model->thresholds) : 0u;
    const uint_fast8_t bytes = model->value_bytes;
    const uint8_t *const thresholds = model->theta;
    hadamrnn_wide *const sum = memory->wide;
    hadamrnn_wide *const count = memory->wide + model->counts;
    hadamrnn_narrow *const largest = memory->narrow;
    const bool has_largest = model->pool_narrow != 0u;
    const bool is_first = memory->counters->pooled == 0u;
    for (uint_fast16_t i = 0; i < units; i++) {
        const hadamrnn_narrow h = memory->narrow[top->cells + i];
        for (uint_fast16_t at = i; at < entries; at += rows) {
            const int32_t theta = (thresholds == NULL) ? 0 : hadamrnn_value(thresholds, bytes, at);
            if (sums) {
                sum[at] += hadamrnn_positive(hadamrnn_widened(h) - theta);
            }
            if (counts) {
                count[at] += hadamrnn_exceeds(hadamrnn_widened(h), theta);
            }
        }
        if (has_largest) {
            largest[i] = is_first ? h : hadamrnn_larger(h, largest[i]);
        }
    }
    if (is_pooled && (memory->counters->pooled < UINT16_MAX)) {
        memory->counters->pooled++;
    }
}

/* The value of a read-out at index `at`, which runs over rows of thresholds and units. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_pooled(const hadamrnn_model *model, const hadamrnn_view *memory, uint_fast8_t readout,
                                        uint_fast16_t at)
{
    const hadamrnn_layer *const top = hadamrnn_top(model);
    hadamrnn_wide value;
    if (readout == HADAMRNN_LAST) {
        value = hadamrnn_positive(hadamrnn_widened(memory->narrow[top->cells + at]));
    } else if (readout == HADAMRNN_MAX) {
        value = hadamrnn_widened(memory->narrow[at]);
    } else {
        value = memory->wide[((readout == HADAMRNN_POSITIVE) ? model->counts : 0u) + at];
    }
    return value;
}

/* Add V times eight codes to every logit, V of `bits` bits; v points to the first logit's weights of these codes, and those
 * of the next logit are `pitch` bytes further on. */
HADAMRNN_INLINE void hadamrnn_project(const hadamrnn_model *model, const hadamrnn_wide codes[8], uint_fast8_t bits,
                                      const uint8_t *v, size_t pitch, hadamrnn_wide *logits)
{
    for (uint_fast16_t k = 0; k < model->output_size; k++) {
        hadamrnn_wide sum = logits[k];
        HADAMRNN_FOR8(i, sum += hadamrnn_code(v, bits, i) * codes[i])
        logits[k] = sum;
        v = &v[pitch];
    }
}

/* The logits of the steps so far, T of the last layer:
 *
 *     code   = saturate(round(value rate / 2^feature_shift)),  rate = (M << 15) / T of sums and counters, else M << 15
 *     logits = V codes + b_o 2^output_bias_shift
 */
HADAMRNN_API void hadamrnn_logits(const hadamrnn_model *model, const hadamrnn_view *memory, hadamrnn_wide *logits)
{
    const uint8_t *v = model->output_weight;
    const uint8_t *shift = model->feature_shift;
    const uint32_t steps = (memory->counters->pooled == 0u) ? 1u : memory->counters->pooled;
    const size_t pitch = hadamrnn_pitch(model);
    for (uint_fast16_t k = 0; k < model->output_size; k++) {
        logits[k] = (hadamrnn_wide){0};
        if (model->output_bias != NULL) {
            logits[k] += hadamrnn_shifted_value(model->output_bias, model->value_bytes, k, model->output_bias_shift);
        }
    }
    for (uint_fast8_t r = 0; r < model->num_readouts; r++) {
        const uint_fast8_t readout = model->readouts[r];
        const uint_fast16_t groups = (uint_fast16_t)hadamrnn_feature_groups(model, readout);
        const uint32_t rate = ((uint32_t)model->multipliers[r] << 15) / (hadamrnn_is_counted(readout) ? steps : 1u);
        for (uint_fast16_t g = 0; g < groups; g++) {
            hadamrnn_wide codes[8];
            for (uint_fast8_t i = 0; i < HADAMRNN_GROUP; i++) {
                codes[i] = hadamrnn_pooled(model, memory, readout, (HADAMRNN_GROUP * g) + i);
                if (shift != NULL) {
                    codes[i] = hadamrnn_feature(codes[i], (int32_t)rate, hadamrnn_byte(shift), model->feature_bits);
                    shift++;
                }
            }
            if (model->code_bits == 4u) { /* the usual widths, as constants */
                hadamrnn_project(model, codes, 4u, v, pitch, logits);
            } else {
                hadamrnn_project(model, codes, model->code_bits, v, pitch, logits);
            }
            v += model->code_bits;
        }
    }
}

/* The index of the largest logit, the first on a tie; for a single logit 1 if it is above zero, else 0. */
HADAMRNN_API uint16_t hadamrnn_best(const hadamrnn_model *model, const int32_t *logits)
{
    uint16_t best = 0;
    if ((model->output_size == 1u) && (logits[0] > 0)) {
        best = 1;
    }
    for (uint16_t k = 1; k < model->output_size; k++) {
        if (logits[k] > logits[best]) {
            best = k;
        }
    }
    return best;
}

/* ---- Streams. */

/* Start a stream: h = 0. */
HADAMRNN_API void hadamrnn_init(const hadamrnn_model *model, const hadamrnn_memory *memory)
{
    (void)memset(memory->counters, 0, sizeof *memory->counters);
    (void)memset(memory->wide, 0, model->pool_wide * sizeof *memory->wide);
    (void)memset(memory->narrow, 0, model->narrow_cells * sizeof *memory->narrow);
}

/* Advance layer l by one step. Return 1 if the next layer must then advance. */
HADAMRNN_FOLDED bool hadamrnn_layer_step(const hadamrnn_model *model, uint_fast8_t l, const hadamrnn_memory *memory,
                                        uint32_t id)
{
    const hadamrnn_layer *const layer = &model->layers[l];
    const bool is_last = (l + 1u) == model->num_layers;
    const bool strided = model->stride > 1u;
    hadamrnn_narrow *const x = (strided && (l > 0u)) ? (memory->narrow + model->layers[l - 1u].sums) : memory->codes;
    hadamrnn_narrow *const sums = strided ? (memory->narrow + layer->sums) : memory->codes;
    bool is_due = !is_last;
    hadamrnn_advance(model, layer, memory, x, id);
    if (is_last) {
        hadamrnn_pool_step(model, memory);
    } else {
        hadamrnn_output(model, layer, memory, x, sums);
    }
    if (strided && (l > 0u)) {
        (void)memset(x, 0, layer->inputs * sizeof *x);
    }
    if (strided && !is_last) {
        hadamrnn_narrow *const phase = memory->narrow + model->phases + l;
        *phase = hadamrnn_narrowed(hadamrnn_widened(*phase) + 1);
        is_due = hadamrnn_shared(*phase) == (int16_t)model->stride;
        if (is_due) {
            *phase = (hadamrnn_narrow){0};
        }
    }
    return is_due;
}

/* Advance by one time step with the codes in memory->codes, or with an id. The first layers are named one by one, so that
 * a compiler that sees the model folds the constants of each. */
HADAMRNN_FOLDED uint8_t hadamrnn_advance_all(const hadamrnn_model *model, const hadamrnn_memory *memory, uint32_t id)
{
    const uint_fast8_t layers = model->num_layers;
    if (model->longest != 0u) {
        if (memory->counters->inputs >= model->longest) {
            return HADAMRNN_FULL;
        }
        memory->counters->inputs++;
    }
    bool is_due = true;
    HADAMRNN_FOR4(l, if ((l < layers) && is_due) { is_due = hadamrnn_layer_step(model, l, memory, id); })
    for (uint_fast8_t l = 4; (l < layers) && is_due; l++) {
        is_due = hadamrnn_layer_step(model, l, memory, id);
    }
    return HADAMRNN_OK;
}

#ifndef HADAMRNN_LANES_H
/* Advance by one time step of a dense input; codes of x saturate to input_bits. */
HADAMRNN_API uint8_t hadamrnn_step(const hadamrnn_model *model, const hadamrnn_memory *memory, const int16_t *x)
{
    const int16_t high = (int16_t)((INT32_C(1) << (model->input_bits - 1u)) - 1);
    const int16_t low = (int16_t)(-high - 1);
    for (uint_fast16_t j = 0; j < model->input_size; j++) {
        memory->codes[j] = (x[j] > high) ? high : ((x[j] < low) ? low : x[j]);
    }
    return hadamrnn_advance_all(model, memory, 0u);
}

/* Advance by one time step with an id. */
HADAMRNN_API uint8_t hadamrnn_step_id(const hadamrnn_model *model, const hadamrnn_memory *memory, uint32_t id)
{
    if (id >= model->vocabulary) {
        return HADAMRNN_UNKNOWN_ID;
    }
    if ((model->input_kind == HADAMRNN_EMBEDDED) && (model->embedding != NULL)) {
        const uint32_t row = id * model->input_size * model->embedding_bytes;
        for (uint_fast16_t j = 0; j < model->input_size; j++) {
            memory->codes[j] = (int16_t)hadamrnn_value(model->embedding + row, model->embedding_bytes, j);
        }
    }
    return hadamrnn_advance_all(model, memory, id);
}

#endif

#include "hadamrnn_units.h"

#endif
