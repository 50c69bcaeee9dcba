/* hadamrnn.h: Hadamard recurrent networks of integers, for devices.
 *
 * The program is the same for every network; a network is constant data (`hadamrnn_model`). One step of layer l, all
 * integers, `round` with ties towards +infinity, `saturate` to activation_bits:
 *
 *     a = (u * H h) 2^state_shift                                   hadamrnn_narrow_pass, hadamrnn_transform_chunk
 *     a = a - round(a / 2^k)                                        where the block leaks
 *     h = saturate(round((a + drive) * multiplier / 2^round_shift)) hadamrnn_product
 *     h = max(h, 0)                                                 recurrence "relu" only
 *     drive = shift(U x, input_shift) + b_i 2^bias_shift            hadamrnn_drive
 *
 * Every layer but the last gives codes to the layer above, which sums `stride` of them up (hadamrnn_output):
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
 * buffer of 32 bits, a chunk of the state at a time, with the factors F, orders that are no power of two, by their signs;
 * the last two in registers, together with all that follows for a row (hadamrnn_advance).
 *
 * The caller owns all memory: `hadamrnn_memory` points to it. C99, stdbool.h, stddef.h, stdint.h and string.h only. No
 * heap, no floating point, no division in a step, no global variables, no recursion; no sum overflows whatever the input is, which
 * is proved when a model is made. Right shifts of signed integers must be arithmetic, as in gcc and clang.
 *
 * Before including this file define
 *     HADAMRNN_SPECIALISED      for functions that are inlined, so that the constants of a model in sight are folded
 * and for options
 *     HADAMRNN_FLASH            the attribute of constants: a section, for example
 *     HADAMRNN_NARROW_PRODUCT   no products of 64 bits (Cortex-M0 and AVR always)
 *
 * Start reading at hadamrnn_model, then at hadamrnn_step.
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

#if defined(__ARM_FEATURE_SIMD32) && (defined(__ARM_ACLE) || defined(__GNUC__))
#include <arm_acle.h>
#define HADAMRNN_SIMD
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

/* What a step or a window returns. */
#define HADAMRNN_OK 0u
#define HADAMRNN_UNKNOWN_ID 1u /* no such id: the state is as it was */
#define HADAMRNN_FULL 2u /* the sums hold no more steps: the state is as it was, and still answers */
#define HADAMRNN_READY 3u /* a window is complete: its logits are new */
#define HADAMRNN_BAD_WINDOW 4u /* hadamrnn_window_init refused it: nothing was done */

#define HADAMRNN_NO_CLASS 0xFFFFu /* the class of a window before the first whole one */

/* What a network reads: codes of every channel, the number of the one channel that is 1, or ids of an embedding. */
#define HADAMRNN_DENSE 0u
#define HADAMRNN_ONE_HOT 1u
#define HADAMRNN_EMBEDDED 2u

/* Read-outs. */
#define HADAMRNN_LAST 0u
#define HADAMRNN_MEAN 1u
#define HADAMRNN_POSITIVE 2u
#define HADAMRNN_MAX 3u
#define HADAMRNN_READOUTS 4u

#define HADAMRNN_FACTORS 4u /* factors of a block that are no power of two, at most */
#define HADAMRNN_GROUP 8u /* rows that are finished together: eight codes of p bits are p whole bytes */

/* Constants are bytes in flash, numbers of several bytes little endian: rows come in groups of 8, the last one filled
 * up with zeros. Codes of U and V have code_bits each, the first one in the lowest bits. Biases, gains, offsets and
 * thresholds are numbers of value_bytes. A NULL pointer is something that the network does not have. */
typedef struct {
    uint16_t order; /* 0: no factor */
    uint16_t stride; /* of the entries that it mixes */
    const uint8_t *signs; /* row after row in whole bytes, a bit for each sign, 1 for -1 */
} hadamrnn_factor;

typedef struct {
    uint16_t units; /* of h */
    uint16_t inputs; /* of x */
    uint16_t block; /* units of a block of H */
    uint32_t cells; /* where h begins in the narrow cells of the memory */
    uint32_t sums; /* where the sums of its outputs begin in the narrow cells, if the stride is above 1 */
    uint8_t stages; /* of the transform: log2 of the power of two in `block` */
    uint8_t in_place; /* how many of them are made in the cells of h, in 16 bits: an even number */
    uint8_t state_shift;
    int8_t input_shift; /* negative: to the right, rounded */
    uint8_t bias_shift;
    uint16_t multiplier; /* 1, or 16 bits */
    uint8_t round_shift;
    uint8_t leak; /* k of all units, where there are no `leaks` */
    uint8_t leak_bytes; /* of a group: 1 where its rows share k, else 8 */
    uint8_t output_bits;
    uint8_t gain_shift;
    uint8_t offset_shift;
    uint8_t has_skip;
    int8_t skip_shift; /* negative: to the right, rounded */
    hadamrnn_factor factors[HADAMRNN_FACTORS];
    const uint8_t *signs; /* u, a bit each, 1 for -1 */
    const uint8_t *weight; /* U by groups: (group, column, row); of a one-hot input by columns: (column, group, row) */
    const uint8_t *bias; /* b_i */
    const uint8_t *leaks; /* k, a byte each */
    const uint8_t *gain;
    const uint8_t *offset;
} hadamrnn_layer;

typedef struct {
    uint8_t input_kind;
    uint8_t input_bits; /* of dense codes */
    uint8_t activation_bits; /* of h */
    uint8_t code_bits; /* of U and V */
    uint8_t value_bytes; /* 1 or 2 */
    uint8_t embedding_bytes; /* 1 or 2 */
    uint8_t is_relu;
    uint8_t num_layers;
    uint8_t num_readouts;
    uint8_t thresholds; /* rows of theta; 1 without any */
    uint8_t feature_bits;
    uint8_t output_bias_shift;
    uint16_t stride; /* steps of a layer for one of the layer above */
    uint16_t input_size;
    uint16_t output_size;
    uint16_t longest; /* steps that the sums hold; 0: no limit */
    uint32_t vocabulary; /* ids */
    uint32_t phases; /* where the steps of each layer since the layer above made one begin in the narrow cells */
    uint32_t counts; /* where the counters begin in the wide cells; sums and maxima begin at 0 */
    uint32_t pool_wide; /* cells of sums and counters, all wide ones of a state */
    uint32_t pool_narrow; /* cells of maxima */
    uint32_t narrow_cells; /* of a state */
    uint32_t work_cells; /* of the buffers of a step */
    uint32_t code_cells;
    uint8_t readouts[HADAMRNN_READOUTS];
    uint16_t multipliers[HADAMRNN_READOUTS]; /* M */
    const hadamrnn_layer *layers; /* the lowest first */
    const uint8_t *output_weight; /* V: (output, read-out, row of thresholds, group, row) */
    const uint8_t *output_bias; /* b_o */
    const uint8_t *theta; /* (row of thresholds, row) */
    const uint8_t *feature_shift; /* (read-out, row of thresholds, row); NULL: code = value */
    const uint8_t *embedding; /* (id, channel) */
    const uint8_t *raw_offset; /* 4 bytes for each channel */
    const uint8_t *raw_multiplier; /* 4 bytes for each channel */
    const uint8_t *raw_shift; /* a byte for each channel */
    const uint8_t *raw_knee; /* a byte for each channel */
    const uint8_t *value_multiplier; /* 4 bytes for each target of a regressor */
    const uint8_t *value_shift; /* a byte for each target */
    const uint8_t *value_offset; /* 4 bytes for each target */
} hadamrnn_model;

/* Of a channel, set by the application: its reading at rest, and a gain in units of 2^-14. */
typedef struct {
    int32_t zero;
    uint16_t gain; /* HADAMRNN_UNIT_GAIN: 1 */
} hadamrnn_calibration;

#define HADAMRNN_UNIT_GAIN 16384u

/* A lane is what one sequence adds: a number on a device. On a host it is a vector, a number of each of several
 * sequences that run side by side: lanes.h of the native library then defines these types, and the functions of a lane. */
#ifndef HADAMRNN_LANES_H
typedef int16_t hadamrnn_narrow;
typedef int32_t hadamrnn_wide;
typedef uint32_t hadamrnn_count;
#endif

typedef struct {
    hadamrnn_count saturations; /* entries of h clipped since init */
    uint16_t inputs; /* steps since init, if the model has a longest */
    uint16_t pooled; /* steps of the last layer that the pools hold */
} hadamrnn_counters;

/* The memory of one stream, the caller's. What it holds is undefined before hadamrnn_init. */
typedef struct {
    hadamrnn_counters *counters;
    hadamrnn_wide *wide; /* pool_wide: sums and counters of the read-outs */
    hadamrnn_narrow *narrow; /* narrow_cells: maxima, states, sums between layers, phases */
    hadamrnn_wide *work; /* used within a step only */
    hadamrnn_narrow *codes; /* used within a step only */
#ifdef HADAMRNN_LANES_H
    const hadamrnn_wide *drive; /* what ids add to the sums of the lowest layer, which differs between lanes; or NULL */
#endif
} hadamrnn_memory;

/* The same for reading out. */
typedef struct {
    const hadamrnn_counters *counters;
    const hadamrnn_wide *wide;
    const hadamrnn_narrow *narrow;
} hadamrnn_view;

/* A sliding window: size / hop hops of `hop` steps. */
typedef struct {
    uint16_t hops; /* size / hop */
    uint16_t begun; /* hops of the first window that have begun */
    uint16_t hop; /* 0: refused */
    uint16_t steps; /* since the last hop ended */
    uint16_t oldest; /* state: 0 is the window's own, then come the slots */
    uint16_t is_ready; /* 1 from the first whole window on */
    uint32_t clipped; /* raw codes that had to be clipped since init */
} hadamrnn_window;

#ifdef __cplusplus
}
#endif

#endif

#if (defined(HADAMRNN_SPECIALISED) || defined(HADAMRNN_SHARED)) && !defined(HADAMRNN_CODE)
#define HADAMRNN_CODE

/* Functions that fold a model's constants, and small ones, are inlined; of passes over the state there is one copy. */
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
#define HADAMRNN_API /* declared in hadamrnn_shared.h */
#define HADAMRNN_FOLDED HADAMRNN_ONE_COPY
#else
#define HADAMRNN_API HADAMRNN_INLINE
#define HADAMRNN_FOLDED HADAMRNN_INLINE /* once for every layer, with its constants */
#endif

#if (defined(__AVR__) || defined(__ARM_ARCH_6M__)) && !defined(HADAMRNN_NARROW_PRODUCT)
#define HADAMRNN_NARROW_PRODUCT
#endif

#ifdef __AVR__
#define HADAMRNN_UNROLL false
#else
#define HADAMRNN_UNROLL true /* the rows of a layer of several columns of U */
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

/* ---- Constants. AVR reads flash by instructions of its own; elsewhere the arrays are aligned to 4 bytes. */

HADAMRNN_INLINE uint8_t hadamrnn_byte(const uint8_t *p)
{
#ifdef __AVR__
    return pgm_read_byte(p);
#else
    return *p;
#endif
}

HADAMRNN_INLINE int16_t hadamrnn_word(const uint8_t *p)
{
#if defined(__AVR__)
    return (int16_t)pgm_read_word(p);
#elif defined(__GNUC__) && (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
    int16_t value;
    (void)memcpy(&value, __builtin_assume_aligned(p, 2), sizeof value);
    return value;
#else
    return (int16_t)(uint16_t)(p[0] | ((uint32_t)p[1] << 8));
#endif
}

HADAMRNN_INLINE int32_t hadamrnn_long(const uint8_t *p)
{
#if defined(__AVR__)
    return (int32_t)pgm_read_dword(p);
#elif defined(__GNUC__) && (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
    int32_t value;
    (void)memcpy(&value, __builtin_assume_aligned(p, 4), sizeof value);
    return value;
#else
    const uint32_t value = p[0] | ((uint32_t)p[1] << 8) | ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);
    return (int32_t)value;
#endif
}

/* A lane of a host reads constants that are already unpacked. */
#ifndef HADAMRNN_LANES_H
/* Number i of numbers of one or two bytes. */
HADAMRNN_INLINE int32_t hadamrnn_value(const uint8_t *p, uint_fast8_t bytes, uint_fast16_t i)
{
    return (bytes == 1u) ? (int32_t)(int8_t)hadamrnn_byte(p + i) : (int32_t)hadamrnn_word(p + (2u * i));
}

/* Code i of a group of eight codes of `bits` bits. */
HADAMRNN_INLINE int32_t hadamrnn_code(const uint8_t *group, uint_fast8_t bits, uint_fast8_t i)
{
#if !defined(__AVR__)
    if (bits == 4u) { /* the usual ones, a group of them in one word */
        const uint32_t at_top = (uint32_t)hadamrnn_long(group) << (28u - (4u * i));
        return (int32_t)at_top >> 28;
    }
#endif
    const uint8_t *const p = group + (((uint_fast16_t)bits * i) >> 3);
    const uint_fast8_t end = (uint_fast8_t)((((uint_fast16_t)bits * i) & 7u) + bits);
    int32_t code;
    if (end <= 8u) {
#ifdef __AVR__ /* which shifts by one bit at a time */
        const uint8_t bottom = (uint8_t)((hadamrnn_byte(p) >> (end - bits)) & ((1u << bits) - 1u));
        const uint8_t sign = (uint8_t)(1u << (bits - 1u));
        code = (int8_t)(uint8_t)((bottom ^ sign) - sign);
#else
        code = (int8_t)(uint8_t)((uint32_t)hadamrnn_byte(p) << (8u - end)) >> (8u - bits);
#endif
    } else {
        const uint32_t both = hadamrnn_byte(p) | ((uint32_t)hadamrnn_byte(p + 1) << 8);
        code = (int16_t)(uint16_t)(both << (16u - end)) >> (16u - bits);
    }
    return code;
}

/* Number i times 2^shift. */
HADAMRNN_INLINE int32_t hadamrnn_shifted_value(const uint8_t *p, uint_fast8_t bytes, uint_fast16_t i, uint_fast8_t shift)
{
    return hadamrnn_value(p, bytes, i) * (INT32_C(1) << shift);
}

/* Of the usual network. */
#define HADAMRNN_CODE_BITS 4u
#define HADAMRNN_VALUE_BYTES 2u

/* The signs of a group of eight rows. */
#define HADAMRNN_SIGN_BYTES 1u
typedef uint32_t hadamrnn_signs;

HADAMRNN_INLINE hadamrnn_signs hadamrnn_read_signs(const uint8_t *p)
{
    return hadamrnn_byte(p);
}
#endif

/* ---- Arithmetic. */

/* value / 2^shift, ties towards +infinity; it cannot overflow. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_round_shift(hadamrnn_wide value, uint_fast8_t shift)
{
    return (shift == 0u) ? value : (((value >> (shift - 1u)) + 1) >> 1);
}

/* value 2^shift, rounded if shift is negative. A product, since C leaves left shifts
 * of negative numbers undefined. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_shift(hadamrnn_wide value, int_fast8_t shift)
{
    return (shift < 0) ? hadamrnn_round_shift(value, (uint_fast8_t)-shift) : (value * (INT32_C(1) << shift));
}

#ifndef HADAMRNN_LANES_H
HADAMRNN_INLINE hadamrnn_wide hadamrnn_widened(hadamrnn_narrow value)
{
    return value;
}

/* A number that fits 16 bits. */
HADAMRNN_INLINE hadamrnn_narrow hadamrnn_narrowed(hadamrnn_wide value)
{
    return (hadamrnn_narrow)value;
}

/* max(value, 0) */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_positive(hadamrnn_wide value)
{
    return (value < 0) ? 0 : value;
}

/* 1 if value > bound, else 0. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_exceeds(hadamrnn_wide value, int32_t bound)
{
    return (value > bound) ? 1 : 0;
}

HADAMRNN_INLINE hadamrnn_narrow hadamrnn_larger(hadamrnn_narrow a, hadamrnn_narrow b)
{
    return (a > b) ? a : b;
}

/* A number that all sequences share. */
HADAMRNN_INLINE int16_t hadamrnn_shared(hadamrnn_narrow value)
{
    return value;
}

HADAMRNN_INLINE hadamrnn_wide hadamrnn_saturate(hadamrnn_wide value, uint_fast8_t bits)
{
    const int32_t high = (INT32_C(1) << (bits - 1u)) - 1;
    const int32_t low = -high - 1;
    return (value > high) ? high : ((value < low) ? low : value);
}

/* saturate(value), and count it if that changes it. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_clip(hadamrnn_wide value, uint_fast8_t bits, hadamrnn_count *clipped)
{
    const int32_t high = (INT32_C(1) << (bits - 1u)) - 1;
    if ((value < (-high - 1)) || (value > high)) {
        value = (value < 0) ? (-high - 1) : high; /* written so, one instruction on a Cortex-M */
        (*clipped)++;
    }
    return value;
}

/* round(acc * multiplier / 2^shift), ties towards +infinity, multiplier above 1. `factor` is multiplier 2^(32 - shift), for
 * shifts of 17 to 32. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_product(hadamrnn_wide acc, uint_fast16_t multiplier, int32_t factor, uint_fast8_t shift)
{
#ifdef HADAMRNN_NARROW_PRODUCT
    (void)factor;
    /* By halves, acc = high 2^16 + low: the sum is floor(acc multiplier / 2^16), which fits since multiplier < 2^16. */
    const int32_t high = (int32_t)(int16_t)(acc >> 16) * (int32_t)multiplier;
    const uint32_t low = (uint32_t)(uint16_t)acc * (uint32_t)multiplier;
    if (shift > 16u) {
        return hadamrnn_round_shift(high + (int32_t)(low >> 16), (uint_fast8_t)(shift - 16u));
    }
    return high + (int32_t)((low + 0x8000u) >> 16);
#else
    if ((shift > 16u) && (shift <= 32u)) {
        /* The high word of acc factor, plus the first bit of the low one. */
        const int64_t product = (int64_t)acc * factor;
        return (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31);
    }
    return (int32_t)((((int64_t)acc * (int32_t)multiplier) + (INT64_C(1) << (shift - 1u))) >> shift);
#endif
}

/* saturate(round(value rate / 2^shift)) */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_feature(hadamrnn_wide value, int32_t rate, uint_fast8_t shift, uint_fast8_t bits)
{
    const int64_t code = (((int64_t)value * rate) + (INT64_C(1) << (shift - 1u))) >> shift;
    const int32_t high = (INT32_C(1) << (bits - 1u)) - 1;
    const int32_t low = -high - 1;
    return (code > high) ? high : ((code < low) ? low : (int32_t)code);
}

/* y 2^shift with the sign of row i of a group. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_switched(hadamrnn_wide y, hadamrnn_signs signs, uint_fast8_t i, uint_fast8_t shift)
{
#ifdef __thumb2__
    const int32_t mask = (int32_t)(signs << (31u - i)) >> 31; /* no branch */
    return ((y ^ mask) - mask) * (INT32_C(1) << shift);
#else
    return ((((signs >> i) & 1u) != 0u) ? -y : y) * (INT32_C(1) << shift);
#endif
}
#endif

/* ---- The Hadamard transform. */

/* What a butterfly of 16 bits adds: an entry or, on cores with SIMD instructions, two of them at once. */
#ifdef HADAMRNN_SIMD
#define HADAMRNN_LANES 2u
typedef int16x2_t hadamrnn_lane;

HADAMRNN_INLINE hadamrnn_lane hadamrnn_add(hadamrnn_lane a, hadamrnn_lane b)
{
    return __sadd16(a, b);
}

HADAMRNN_INLINE hadamrnn_lane hadamrnn_subtract(hadamrnn_lane a, hadamrnn_lane b)
{
    return __ssub16(a, b);
}

HADAMRNN_INLINE hadamrnn_lane hadamrnn_load(const hadamrnn_narrow *h)
{
    hadamrnn_lane lane;
    (void)memcpy(&lane, h, sizeof lane);
    return lane;
}

HADAMRNN_INLINE void hadamrnn_store(hadamrnn_narrow *h, hadamrnn_lane lane)
{
    (void)memcpy(h, &lane, sizeof lane);
}
#else
#define HADAMRNN_LANES 1u
#ifndef HADAMRNN_LANES_H
typedef int_fast16_t hadamrnn_lane;
#endif

HADAMRNN_INLINE hadamrnn_lane hadamrnn_add(hadamrnn_lane a, hadamrnn_lane b)
{
    return (hadamrnn_lane)(a + b);
}

HADAMRNN_INLINE hadamrnn_lane hadamrnn_subtract(hadamrnn_lane a, hadamrnn_lane b)
{
    return (hadamrnn_lane)(a - b);
}

HADAMRNN_INLINE hadamrnn_lane hadamrnn_load(const hadamrnn_narrow *h)
{
    return *h;
}

HADAMRNN_INLINE void hadamrnn_store(hadamrnn_narrow *h, hadamrnn_lane lane)
{
    *h = (hadamrnn_narrow)lane;
}
#endif

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

/* The usual one: 12 bits leave it these stages. */
HADAMRNN_ONE_COPY void hadamrnn_widen8(const hadamrnn_narrow *h, hadamrnn_wide *work, uint_fast16_t size)
{
    hadamrnn_widen(8u, h, work, size, 4u);
}

/* F over the entries 0, stride, 2 stride, ... of every run of order stride, in place. Of four columns x_0, ..., x_3 of F,
 * which has a multiple of four, there are eight sums x_0 +- x_1 +- x_2 +- x_3 up to the sign. They are made once, 2 order
 * numbers in `sums`, and a row of F takes one of them for each four of its signs. */
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
                /* If x_0 is subtracted, the other signs are turned round and the sum is subtracted. */
                sum = ((bits & 1u) == 0u) ? (sum + sums[(2u * j) + place]) : (sum - sums[(2u * j) + 7u - place]);
                bits >>= 4;
            }
            h[i + (k * stride)] = sum;
        }
    }
}

/* What 16 bits do not hold but for the last two stages, of `size` entries: the factors, and `stages` stages. Their
 * order is free. */
HADAMRNN_FOLDED void hadamrnn_transform_chunk(const hadamrnn_layer *layer, const hadamrnn_narrow *h, hadamrnn_wide *work,
                                              uint_fast16_t size, uint_fast8_t stages)
{
    uint_fast16_t stride = (uint_fast16_t)((uint_fast16_t)4u << stages);
    uint_fast8_t left = stages;
    if (stages == 0u) {
        hadamrnn_widen(1u, h, work, size, size);
    } else if (stages == 3u) {
        left = 0;
        hadamrnn_widen8(h, work, size);
    } else if ((stages & 1u) != 0u) {
        stride >>= 1;
        left--;
        hadamrnn_widen(2u, h, work, size, stride);
    } else {
        stride >>= 2;
        left = (uint_fast8_t)(left - 2u);
        hadamrnn_widen(4u, h, work, size, stride);
    }
    while (left > 0u) {
        stride >>= 2;
        left = (uint_fast8_t)(left - 2u);
        hadamrnn_wide_pass(work, size, stride);
    }
    if (layer->factors[0].order != 0u) { /* known early: without factors their function is left out */
        for (uint_fast8_t f = 0; (f < HADAMRNN_FACTORS) && (layer->factors[f].order != 0u); f++) {
            hadamrnn_factor_pass(work, layer->units, &layer->factors[f], work + size);
        }
    }
}

/* ---- One layer. */

/* A layer goes along its rows in groups of 8. Its description is a copy, whose pointers go along with the rows: no store
 * through a pointer can change it, so that a compiler keeps it in registers. */
typedef struct {
    hadamrnn_layer layer;
    const hadamrnn_narrow *x; /* the codes of `columns` columns of U */
#ifdef HADAMRNN_LANES_H
    const hadamrnn_wide *drive; /* of a group, or NULL */
#endif
    const hadamrnn_wide *work; /* H h but for the last two stages */
    hadamrnn_narrow *h; /* the same, if the layer buffers nothing, and the next state */
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

/* U x of the eight rows of a group; `bits` is code_bits. */
HADAMRNN_INLINE void hadamrnn_products(const hadamrnn_rows *at, uint_fast8_t bits, hadamrnn_wide product[8])
{
    const uint8_t *weight = at->layer.weight;
    hadamrnn_wide sums[8];
    (void)memset(sums, 0, sizeof sums);
    for (uint_fast16_t j = 0; j < at->columns; j++) {
        const hadamrnn_wide x = hadamrnn_widened(at->x[j]);
        HADAMRNN_FOR8(i, sums[i] += hadamrnn_code(weight, bits, i) * x)
        weight += bits;
    }
    (void)memcpy(product, sums, sizeof sums);
}

/* shift(U x, input_shift) + b_i 2^bias_shift of row i of a group; `products` are U x of more than one column. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_drive(const hadamrnn_rows *at, const hadamrnn_wide products[8], uint_fast8_t i)
{
    const hadamrnn_layer *const layer = &at->layer;
    hadamrnn_wide drive = {0};
#ifdef HADAMRNN_LANES_H
    if (at->drive != NULL) {
        return at->drive[i];
    }
#endif
    if (at->columns == 1u) {
        drive = hadamrnn_shift(hadamrnn_code(layer->weight, at->code_bits, i) * at->only, layer->input_shift);
    } else if (at->columns > 1u) {
        drive = hadamrnn_shift(products[i], layer->input_shift);
    } else {
        /* The layer reads nothing. */
    }
    if (layer->bias != NULL) {
        drive += hadamrnn_shifted_value(layer->bias, at->value_bytes, i, layer->bias_shift);
    }
    return drive;
}

/* Row i of a group: its next state from (H h)_i and its drive. */
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

/* The rows first, ..., first + 3 of a group. */
HADAMRNN_INLINE void hadamrnn_four_rows(hadamrnn_rows *at, uint_fast8_t first, hadamrnn_signs signs,
                                        const hadamrnn_wide products[8])
{
    hadamrnn_wide v[4];
    HADAMRNN_FOR4(i, v[i] = at->is_buffered ? at->work[first + i] : hadamrnn_widened(at->h[first + i]))
    if (at->layer.stages > 1u) {
        hadamrnn_butterflies(v);
    } else if (at->layer.stages == 1u) {
        hadamrnn_butterfly(&v[0], &v[1]);
        hadamrnn_butterfly(&v[2], &v[3]);
    } else {
        /* No stage is left. */
    }
    if (HADAMRNN_UNROLL || (at->columns < 2u)) {
        HADAMRNN_FOR4(i, hadamrnn_row(at, first + i, v[i], signs, hadamrnn_drive(at, products, first + i)))
    } else {
        for (uint_fast8_t i = 0; i < 4u; i++) {
            hadamrnn_row(at, first + i, v[i], signs, hadamrnn_drive(at, products, first + i));
        }
    }
}

/* One group of rows. */
HADAMRNN_INLINE void hadamrnn_group(hadamrnn_rows *at)
{
    hadamrnn_layer *const layer = &at->layer;
    const hadamrnn_signs signs = hadamrnn_read_signs(layer->signs);
    hadamrnn_wide products[8];
    if (at->columns > 1u) {
#ifdef HADAMRNN_SHARED
        if (at->code_bits == 4u) { /* the usual ones, with their constant */
            hadamrnn_products(at, 4u, products);
        } else {
            hadamrnn_products(at, at->code_bits, products);
        }
#else
        hadamrnn_products(at, at->code_bits, products);
#endif
    }
    hadamrnn_four_rows(at, 0u, signs, products);
    hadamrnn_four_rows(at, 4u, signs, products);
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

/* All rows: what 16 bits do not hold of a chunk of them at a time in the buffer, all of them if there are factors. */
HADAMRNN_INLINE void hadamrnn_all_groups(hadamrnn_rows *at, const hadamrnn_layer *layer, uint_fast8_t stages,
                                         hadamrnn_wide *work)
{
    const bool has_factors = layer->factors[0].order != 0u;
    const uint_fast16_t groups = (layer->units + (HADAMRNN_GROUP - 1u)) / HADAMRNN_GROUP;
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

/* h becomes the next state. The layer reads the codes x, or of a one-hot input the channel `id`. */
HADAMRNN_INLINE void hadamrnn_advance(const hadamrnn_model *model, const hadamrnn_layer *layer,
                                      const hadamrnn_memory *memory, const hadamrnn_narrow *x, uint32_t id)
{
    const bool is_one_hot = (layer == model->layers) && (model->input_kind == HADAMRNN_ONE_HOT);
    const uint_fast16_t groups = (layer->units + (HADAMRNN_GROUP - 1u)) / HADAMRNN_GROUP;
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
    if (at.columns == 1u) { /* its shift comes first; only codes of 0 meet one that does not fit */
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
#if defined(HADAMRNN_LANES_H) || defined(HADAMRNN_SHARED)
    /* A compiler that sees no constants gets the paper's kind of layer as a loop of its own, in which these are. */
    const hadamrnn_layer *const copy = &at.layer;
    if (at.is_buffered && !at.is_relu && (copy->leaks == NULL) && (copy->leak == 0u) && (copy->stages > 1u) &&
        (copy->multiplier != 1u) && (copy->round_shift > 16u) && (copy->round_shift <= 32u) &&
        (copy->input_shift == 0) && (at.columns == 1u) && (at.code_bits == HADAMRNN_CODE_BITS) &&
        (at.value_bytes == HADAMRNN_VALUE_BYTES) && (at.activation_bits == 12u) && (copy->bias != NULL)) {
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
#else
    hadamrnn_all_groups(&at, layer, buffered, memory->work);
#endif
    memory->counters->saturations = at.clipped;
}

/* The codes for the layer above: added to `sums` if the stride is above 1, else in their place. */
HADAMRNN_INLINE void hadamrnn_output(const hadamrnn_model *model, const hadamrnn_layer *layer,
                                     const hadamrnn_memory *memory, const hadamrnn_narrow *x, hadamrnn_narrow *sums)
{
    const hadamrnn_layer own = *layer; /* a copy, as of rows */
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

/* Take one more step of the last layer into account. */
HADAMRNN_INLINE void hadamrnn_pool_step(const hadamrnn_model *model, const hadamrnn_memory *memory)
{
    const hadamrnn_layer *const top = &model->layers[model->num_layers - 1u];
    const uint_fast16_t rows = ((top->units + (HADAMRNN_GROUP - 1u)) / HADAMRNN_GROUP) * HADAMRNN_GROUP;
    const bool sums = model->counts != 0u; /* the counters begin behind the sums, if there are any */
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

/* The value of entry `at` of a read-out, counted over rows of thresholds and units. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_pooled(const hadamrnn_model *model, const hadamrnn_view *memory, uint_fast8_t readout,
                                        uint_fast16_t at)
{
    const hadamrnn_layer *const top = &model->layers[model->num_layers - 1u];
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

/* Add V times eight codes to every logit, V of `bits` bits; v is where the first logit's weights of these codes begin, `pitch` bytes
 * before those of the next. */
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

/* Groups of eight features of a read-out. */
HADAMRNN_INLINE uint_fast16_t hadamrnn_feature_groups(const hadamrnn_model *model, uint_fast8_t readout)
{
    const uint_fast16_t groups =
        (model->layers[model->num_layers - 1u].units + (HADAMRNN_GROUP - 1u)) / HADAMRNN_GROUP;
    const bool counted = (readout == HADAMRNN_MEAN) || (readout == HADAMRNN_POSITIVE);
    return counted ? (groups * model->thresholds) : groups;
}

/* The logits of the steps so far. */
HADAMRNN_API void hadamrnn_logits(const hadamrnn_model *model, const hadamrnn_view *memory, hadamrnn_wide *logits)
{
    const uint8_t *v = model->output_weight;
    const uint8_t *shift = model->feature_shift;
    const uint32_t steps = (memory->counters->pooled == 0u) ? 1u : memory->counters->pooled;
    size_t pitch = 0;
    for (uint_fast8_t r = 0; r < model->num_readouts; r++) {
        pitch += hadamrnn_feature_groups(model, model->readouts[r]) * model->code_bits;
    }
    for (uint_fast16_t k = 0; k < model->output_size; k++) {
        logits[k] = (hadamrnn_wide){0};
        if (model->output_bias != NULL) {
            logits[k] += hadamrnn_shifted_value(model->output_bias, model->value_bytes, k, model->output_bias_shift);
        }
    }
    for (uint_fast8_t r = 0; r < model->num_readouts; r++) {
        const uint_fast8_t readout = model->readouts[r];
        const uint_fast16_t groups = hadamrnn_feature_groups(model, readout);
        const bool counted = (readout == HADAMRNN_MEAN) || (readout == HADAMRNN_POSITIVE);
        const uint32_t rate = ((uint32_t)model->multipliers[r] << 15) / (counted ? steps : 1u);
        for (uint_fast16_t g = 0; g < groups; g++) {
            hadamrnn_wide codes[8];
            for (uint_fast8_t i = 0; i < HADAMRNN_GROUP; i++) {
                codes[i] = hadamrnn_pooled(model, memory, readout, (HADAMRNN_GROUP * g) + i);
                if (shift != NULL) {
                    codes[i] = hadamrnn_feature(codes[i], (int32_t)rate, hadamrnn_byte(shift), model->feature_bits);
                    shift++;
                }
            }
            if (model->code_bits == 4u) { /* the usual ones, with their constant */
                hadamrnn_project(model, codes, 4u, v, pitch, logits);
            } else {
                hadamrnn_project(model, codes, model->code_bits, v, pitch, logits);
            }
            v += model->code_bits;
        }
    }
}

/* The index of the largest logit, the first of equals; of a single logit 1 if it is above zero, else 0. */
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

/* The answers of a regressor: value = saturate(round(logit multiplier / 2^shift) + offset) of every target, to 32 bits. */
HADAMRNN_API void hadamrnn_values(const hadamrnn_model *model, const int32_t *logits, int32_t *values)
{
    for (uint_fast16_t k = 0; k < model->output_size; k++) {
        values[k] = logits[k];
        if (model->value_multiplier != NULL) {
            const uint_fast8_t shift = hadamrnn_byte(model->value_shift + k);
            const int64_t product = (int64_t)logits[k] * hadamrnn_long(model->value_multiplier + (4u * k));
            const int64_t rounded = (product + (INT64_C(1) << (shift - 1u))) >> shift;
            const int64_t value = rounded + hadamrnn_long(model->value_offset + (4u * k));
            values[k] = (value > INT32_MAX) ? INT32_MAX : ((value < INT32_MIN) ? INT32_MIN : (int32_t)value);
        }
    }
}

/* ---- Streams. */

/* Start a stream: h = 0. */
HADAMRNN_API void hadamrnn_init(const hadamrnn_model *model, const hadamrnn_memory *memory)
{
    (void)memset(memory->counters, 0, sizeof *memory->counters);
    (void)memset(memory->wide, 0, model->pool_wide * sizeof *memory->wide);
    (void)memset(memory->narrow, 0, model->narrow_cells * sizeof *memory->narrow);
}

/* |raw| as octaves, 1 + |raw| / 2^knee, in units of 2^-16 and with the sign of raw; raw itself without a knee. */
HADAMRNN_INLINE int32_t hadamrnn_compress(int32_t raw, uint_fast8_t knee)
{
    int32_t octaves = raw;
    if (knee != 0u) {
        const uint32_t size = (raw < 0) ? (0u - (uint32_t)raw) : (uint32_t)raw;
        const uint32_t above = size + ((uint32_t)1 << knee);
        uint_fast8_t octave = knee;
        while ((above >> octave) > 1u) {
            octave++;
        }
        const uint32_t rest = above - ((uint32_t)1 << octave);
        const uint32_t part = (octave > 16u) ? (rest >> (octave - 16u)) : (rest << (16u - octave));
        const uint32_t whole = (uint32_t)octave - (uint32_t)knee;
        const uint32_t spanned = (whole << 16) + part;
        octaves = (raw < 0) ? -(int32_t)spanned : (int32_t)spanned;
    }
    return octaves;
}

/* Correct the readings of this device's sensor: saturate(round((raw - zero) gain / 2^14)) of every channel, to 32 bits. `raw`
 * and `corrected` may be the same array. */
HADAMRNN_API void hadamrnn_calibrate(const hadamrnn_model *model, const hadamrnn_calibration *channels, const int32_t *raw,
                                     int32_t *corrected)
{
    for (uint_fast16_t j = 0; j < model->input_size; j++) {
        const int64_t product = ((int64_t)raw[j] - channels[j].zero) * (int64_t)channels[j].gain;
        const int64_t value = (product + 8192) >> 14;
        corrected[j] = (value > INT32_MAX) ? INT32_MAX : ((value < INT32_MIN) ? INT32_MIN : (int32_t)value);
    }
}

/* Turn raw sensor codes into input codes: x = saturate(round((raw - offset) * multiplier / 2^shift)). Return how many had
 * to be clipped. */
HADAMRNN_API uint16_t hadamrnn_encode(const hadamrnn_model *model, const int32_t *raw, int16_t *x)
{
    const int64_t high = (INT64_C(1) << (model->input_bits - 1u)) - 1;
    const int64_t low = -high - 1;
    uint16_t clipped = 0;
    for (uint_fast16_t j = 0; j < model->input_size; j++) {
        int64_t code = raw[j];
        if (model->raw_offset != NULL) {
            const uint_fast8_t shift = hadamrnn_byte(model->raw_shift + j);
            if (model->raw_knee != NULL) {
                code = hadamrnn_compress(raw[j], hadamrnn_byte(model->raw_knee + j));
            }
            code = (code - hadamrnn_long(model->raw_offset + (4u * j))) * hadamrnn_long(model->raw_multiplier + (4u * j));
            if (shift != 0u) {
                code = ((code >> (shift - 1u)) + 1) >> 1;
            }
        }
        if ((code < low) || (code > high)) {
            code = (code < 0) ? low : high;
            clipped++;
        }
        x[j] = (int16_t)code;
    }
    return clipped;
}

/* Layer l makes a step. Return 1 if the layer above then has its turn. */
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
/* Advance by one time step of a dense input; a code of x outside input_bits counts as the nearest one within. */
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

/* ---- Sliding windows: a read-out every `hop` steps, of exactly the last `size` ones.
 *
 * size / hop states read the stream: each begins `hop` steps after the one before it, and restarts once it was read. State 0
 * is the window's own, the slots are the others. NAME_window_push is the loop:
 *
 *     for every i < hadamrnn_window_states: step state i
 *     if hadamrnn_window_hop_ends:
 *         if hadamrnn_window_is_whole: read state hadamrnn_window_turn
 *         hadamrnn_window_restart of state hadamrnn_window_turn
 */

/* Start a window. Return HADAMRNN_OK or HADAMRNN_BAD_WINDOW. */
HADAMRNN_API uint8_t hadamrnn_window_init(const hadamrnn_model *model, hadamrnn_window *window, uint16_t size,
                                             uint16_t hop, bool has_slots)
{
    const uint16_t longest = (model->longest == 0u) ? UINT16_MAX : model->longest;
    const bool lacks_slots = !has_slots && (size != hop);
    (void)memset(window, 0, sizeof *window);
    if ((hop == 0u) || (size == 0u) || (size > longest) || ((size % hop) != 0u) || lacks_slots) {
        return HADAMRNN_BAD_WINDOW;
    }
    window->hops = (uint16_t)(size / hop);
    window->begun = 1;
    window->hop = hop;
    return HADAMRNN_OK;
}

/* How many states read the next input. */
HADAMRNN_INLINE uint16_t hadamrnn_window_states(const hadamrnn_window *window)
{
    return window->begun;
}

/* Count a step. Return 1 if a hop ends with it. */
HADAMRNN_INLINE bool hadamrnn_window_hop_ends(hadamrnn_window *window)
{
    window->steps++;
    if (window->steps == window->hop) {
        window->steps = 0;
    }
    return window->steps == 0u;
}

/* The state whose turn it is when a hop ends: to be read, or to begin. */
HADAMRNN_INLINE uint16_t hadamrnn_window_turn(const hadamrnn_window *window)
{
    return (window->begun < window->hops) ? window->begun : window->oldest;
}

/* A hop has ended. Return 1 if a window ends with it. */
HADAMRNN_INLINE bool hadamrnn_window_is_whole(hadamrnn_window *window)
{
    const bool is_whole = window->begun == window->hops;
    if (is_whole) {
        window->is_ready = 1;
    }
    return is_whole;
}

/* The state whose turn it was begins again. */
HADAMRNN_INLINE void hadamrnn_window_restart(const hadamrnn_model *model, hadamrnn_window *window,
                                             const hadamrnn_memory *memory)
{
    hadamrnn_init(model, memory);
    if (window->begun < window->hops) {
        window->begun++;
    } else {
        window->oldest++;
        if (window->oldest >= window->hops) {
            window->oldest = 0;
        }
    }
}

#endif
