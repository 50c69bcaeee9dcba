/* hadamrnn_device.h: device-specific code: access to constants, and the arithmetic of a lane, which is one number.
 *
 * Part of hadamrnn.h, which includes it. AVR reads flash by special instructions and shifts by one bit at a time;
 * Cortex-M4 and M33 add two numbers of 16 bits at once; Cortex-M0 and AVR have no product of 64 bits.
 */
#ifndef HADAMRNN_DEVICE_H
#define HADAMRNN_DEVICE_H

#if defined(__ARM_FEATURE_SIMD32) && (defined(__ARM_ACLE) || defined(__GNUC__))
#include <arm_acle.h>
#define HADAMRNN_SIMD
#endif

#if (defined(__AVR__) || defined(__ARM_ARCH_6M__)) && !defined(HADAMRNN_NARROW_PRODUCT)
#define HADAMRNN_NARROW_PRODUCT
#endif

/* ---- Constants. AVR reads flash by special instructions; elsewhere the arrays are aligned to 4 bytes. */

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
    const uint32_t value = hadamrnn_byte(p) | ((uint32_t)hadamrnn_byte(p + 1) << 8);
    return (int16_t)(uint16_t)value;
}

HADAMRNN_INLINE int32_t hadamrnn_long(const uint8_t *p)
{
#ifdef __GNUC__
    const uint8_t *const q = __builtin_assume_aligned(p, 4);
#else
    const uint8_t *const q = p;
#endif
    const uint32_t low = hadamrnn_byte(q) | ((uint32_t)hadamrnn_byte(q + 1) << 8);
    const uint32_t value = low | ((uint32_t)hadamrnn_byte(q + 2) << 16) | ((uint32_t)hadamrnn_byte(q + 3) << 24);
    return (int32_t)value;
}

/* saturate(value) to `bits` bits. */
HADAMRNN_INLINE int32_t hadamrnn_fitted(int64_t value, uint_fast8_t bits)
{
    const uint32_t top = UINT32_MAX >> (33u - bits);
    const int32_t high = (int32_t)top;
    return (value > high) ? high : ((value < (-high - 1)) ? (-high - 1) : (int32_t)value);
}

/* ---- Lanes of one number. On a host, kernels/native/lanes.h of the Python package replaces the rest of this file. */
#ifndef HADAMRNN_LANES_H

#define HADAMRNN_CODE_BITS 4u /* constants of the usual network */
#define HADAMRNN_VALUE_BYTES 2u
#define HADAMRNN_UNROLL false /* rows with several columns of U: a loop takes less flash */

typedef uint32_t hadamrnn_signs; /* of a group of eight rows */
#define HADAMRNN_SIGN_BYTES 1u
HADAMRNN_INLINE hadamrnn_signs hadamrnn_read_signs(const uint8_t *p) { return hadamrnn_byte(p); }

/* Element i of an array of numbers of one or two bytes; the same times 2^shift. */
HADAMRNN_INLINE int32_t hadamrnn_value(const uint8_t *p, uint_fast8_t bytes, uint_fast16_t i)
{
    return (bytes == 1u) ? (int32_t)(int8_t)hadamrnn_byte(p + i) : (int32_t)hadamrnn_word(p + (2u * i));
}
HADAMRNN_INLINE int32_t hadamrnn_shifted_value(const uint8_t *p, uint_fast8_t bytes, uint_fast16_t i, uint_fast8_t shift)
{
    return hadamrnn_value(p, bytes, i) * (INT32_C(1) << shift);
}

/* Code i of a group of eight codes of `bits` bits. */
HADAMRNN_INLINE int32_t hadamrnn_code(const uint8_t *group, uint_fast8_t bits, uint_fast8_t i)
{
    const uint8_t *const p = group + (((uint_fast16_t)bits * i) >> 3);
    const uint_fast8_t end = (uint_fast8_t)((((uint_fast16_t)bits * i) & 7u) + bits);
    int32_t code;
#ifdef __AVR__
    if (end <= 8u) { /* AVR shifts by one bit at a time */
        const uint8_t bottom = (uint8_t)((hadamrnn_byte(p) >> (end - bits)) & ((1u << bits) - 1u));
        const uint8_t sign = (uint8_t)(1u << (bits - 1u));
        return (int8_t)(uint8_t)((bottom ^ sign) - sign);
    }
#else
    if (bits == 4u) { /* the usual width: a group fits one word */
        const uint32_t at_top = (uint32_t)hadamrnn_long(group) << (28u - (4u * i));
        return (int32_t)at_top >> 28;
    }
#endif
    if (end <= 8u) {
        code = (int8_t)(uint8_t)((uint32_t)hadamrnn_byte(p) << (8u - end)) >> (8u - bits);
    } else {
        const uint32_t both = hadamrnn_byte(p) | ((uint32_t)hadamrnn_byte(p + 1) << 8);
        code = (int16_t)(uint16_t)(both << (16u - end)) >> (16u - bits);
    }
    return code;
}

/* A state in 32 bits; a number that fits 16 bits in 16. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_widened(hadamrnn_narrow value) { return value; }
HADAMRNN_INLINE hadamrnn_narrow hadamrnn_narrowed(hadamrnn_wide value) { return (hadamrnn_narrow)value; }
HADAMRNN_INLINE int16_t hadamrnn_shared(hadamrnn_narrow value) { return value; } /* a number that all sequences share */

HADAMRNN_INLINE hadamrnn_wide hadamrnn_positive(hadamrnn_wide value) { return (value < 0) ? 0 : value; }
HADAMRNN_INLINE hadamrnn_wide hadamrnn_exceeds(hadamrnn_wide value, int32_t bound) { return (value > bound) ? 1 : 0; }
HADAMRNN_INLINE hadamrnn_narrow hadamrnn_larger(hadamrnn_narrow a, hadamrnn_narrow b) { return (a > b) ? a : b; }

HADAMRNN_INLINE hadamrnn_wide hadamrnn_saturate(hadamrnn_wide value, uint_fast8_t bits)
{
    const int32_t high = (INT32_C(1) << (bits - 1u)) - 1;
    return (value > high) ? high : ((value < (-high - 1)) ? (-high - 1) : value);
}

/* saturate(value); count it if it was clipped. */
HADAMRNN_INLINE hadamrnn_wide hadamrnn_clip(hadamrnn_wide value, uint_fast8_t bits, hadamrnn_count *clipped)
{
    const int32_t high = (INT32_C(1) << (bits - 1u)) - 1;
    if ((value < (-high - 1)) || (value > high)) {
        value = (value < 0) ? (-high - 1) : high; /* in this form one instruction on a Cortex-M */
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
        return (((high + (int32_t)(low >> 16)) >> (shift - 17u)) + 1) >> 1;
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
    return hadamrnn_fitted((((int64_t)value * rate) + (INT64_C(1) << (shift - 1u))) >> shift, bits);
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

/* The operand of a 16-bit butterfly: one entry, or two at once on cores with SIMD instructions. */
#ifdef HADAMRNN_SIMD
#define HADAMRNN_LANES 2u
typedef int16x2_t hadamrnn_lane;
HADAMRNN_INLINE hadamrnn_lane hadamrnn_add(hadamrnn_lane a, hadamrnn_lane b) { return __sadd16(a, b); }
HADAMRNN_INLINE hadamrnn_lane hadamrnn_subtract(hadamrnn_lane a, hadamrnn_lane b) { return __ssub16(a, b); }
#else
#define HADAMRNN_LANES 1u
typedef int_fast16_t hadamrnn_lane;
HADAMRNN_INLINE hadamrnn_lane hadamrnn_add(hadamrnn_lane a, hadamrnn_lane b) { return (hadamrnn_lane)(a + b); }
HADAMRNN_INLINE hadamrnn_lane hadamrnn_subtract(hadamrnn_lane a, hadamrnn_lane b) { return (hadamrnn_lane)(a - b); }
#endif

HADAMRNN_INLINE hadamrnn_lane hadamrnn_load(const hadamrnn_narrow *h)
{
#ifdef HADAMRNN_SIMD
    hadamrnn_lane lane;
    (void)memcpy(&lane, h, sizeof lane);
    return lane;
#else
    return *h;
#endif
}

HADAMRNN_INLINE void hadamrnn_store(hadamrnn_narrow *h, hadamrnn_lane lane)
{
#ifdef HADAMRNN_SIMD
    (void)memcpy(h, &lane, sizeof lane);
#else
    *h = (hadamrnn_narrow)lane;
#endif
}

#endif
#endif
