/* The lanes of runtime/hadamrnn.h on a host: a vector has one number from each of ROWS sequences.
 *
 * States have 16 bits and sums 32, as on a device, so the proof against overflow holds for both. Constants are arrays
 * of int32_t, unpacked and shifted beforehand, so that a vector instruction can read them from memory as an operand.
 * Operations that C's vector extension lacks are written for AVX-512, for AVX2, and once for all other machines.
 */
#ifndef HADAMRNN_LANES_H
#define HADAMRNN_LANES_H

#include <stdint.h>

#include "template.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define ROWS (VECTOR_BYTES / 4)

typedef int16_t hadamrnn_narrow __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef int32_t hadamrnn_wide __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t hadamrnn_count __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t long_lane __attribute__((vector_size(2 * VECTOR_BYTES)));
typedef hadamrnn_narrow hadamrnn_lane;
typedef const int32_t *hadamrnn_signs;

#define HADAMRNN_UNROLL true
#define HADAMRNN_LANES 1u /* entries of a state in a hadamrnn_lane */
#define HADAMRNN_CODE_BITS 32u
#define HADAMRNN_VALUE_BYTES 4u
#define HADAMRNN_MAX_CODE_BITS 32u
#define HADAMRNN_SHORT_BYTES 4u
#define HADAMRNN_SIGN_BYTES 32u /* bytes of the signs of eight rows */

/* ---- Constants. */

INLINE int32_t hadamrnn_code(const uint8_t *group, uint_fast8_t bits, uint_fast8_t i)
{
    (void)bits;
    return ((const int32_t *)(const void *)group)[i];
}

INLINE int32_t hadamrnn_value(const uint8_t *p, uint_fast8_t bytes, uint_fast16_t i)
{
    (void)bytes;
    return ((const int32_t *)(const void *)p)[i];
}

INLINE int32_t hadamrnn_shifted_value(const uint8_t *p, uint_fast8_t bytes, uint_fast16_t i, uint_fast8_t shift)
{
    (void)shift;
    return hadamrnn_value(p, bytes, i);
}

INLINE hadamrnn_signs hadamrnn_read_signs(const uint8_t *p) { return (const int32_t *)(const void *)p; }

INLINE hadamrnn_wide hadamrnn_switched(hadamrnn_wide y, hadamrnn_signs signs, uint_fast8_t i, uint_fast8_t shift)
{
    (void)shift;
    return y * signs[i];
}

/* ---- Arithmetic. */

#if defined(__AVX512BW__) && VECTOR_BYTES == 64
#define WIDE(name, ...) (hadamrnn_wide)_mm512_##name(__VA_ARGS__)
typedef __m512i register_bits;
INLINE hadamrnn_wide hadamrnn_widened(hadamrnn_narrow v) { return WIDE(cvtepi16_epi32, (__m256i)v); }
INLINE hadamrnn_narrow hadamrnn_narrowed(hadamrnn_wide v) { return (hadamrnn_narrow)_mm512_cvtepi32_epi16((__m512i)v); }
INLINE hadamrnn_count with_differences(hadamrnn_count count, hadamrnn_wide a, hadamrnn_wide b)
{
    const __mmask16 differ = _mm512_cmpneq_epi32_mask((__m512i)a, (__m512i)b);
    return (hadamrnn_count)_mm512_mask_add_epi32((__m512i)count, differ, (__m512i)count, _mm512_set1_epi32(1));
}
#elif defined(__AVX2__) && VECTOR_BYTES == 32
#define WIDE(name, ...) (hadamrnn_wide)_mm256_##name(__VA_ARGS__)
typedef __m256i register_bits;
INLINE hadamrnn_wide hadamrnn_widened(hadamrnn_narrow v) { return WIDE(cvtepi16_epi32, (__m128i)v); }
INLINE hadamrnn_narrow hadamrnn_narrowed(hadamrnn_wide v)
{
    return (hadamrnn_narrow)_mm_packs_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
}
#else
INLINE hadamrnn_wide hadamrnn_widened(hadamrnn_narrow v) { return __builtin_convertvector(v, hadamrnn_wide); }
INLINE hadamrnn_narrow hadamrnn_narrowed(hadamrnn_wide v) { return __builtin_convertvector(v, hadamrnn_narrow); }
#endif

#ifdef WIDE
INLINE hadamrnn_wide least(hadamrnn_wide a, hadamrnn_wide b) { return WIDE(min_epi32, (register_bits)a, (register_bits)b); }
INLINE hadamrnn_wide most(hadamrnn_wide a, hadamrnn_wide b) { return WIDE(max_epi32, (register_bits)a, (register_bits)b); }

/* The lower halves times a multiplier of 16 bits, shifted right by 16. */
INLINE hadamrnn_wide low_product(hadamrnn_wide acc, hadamrnn_count multiplier)
{
    return WIDE(mulhi_epu16, (register_bits)acc, (register_bits)multiplier);
}
#else
INLINE hadamrnn_wide least(hadamrnn_wide a, hadamrnn_wide b) { return (a & (a < b)) | (b & ~(a < b)); }
INLINE hadamrnn_wide most(hadamrnn_wide a, hadamrnn_wide b) { return (a & (a > b)) | (b & ~(a > b)); }

INLINE hadamrnn_wide low_product(hadamrnn_wide acc, hadamrnn_count multiplier)
{
    return (hadamrnn_wide)((((hadamrnn_count)acc & 0xFFFFu) * multiplier) >> 16);
}
#endif
#if !defined(__AVX512BW__) || VECTOR_BYTES != 64
INLINE hadamrnn_count with_differences(hadamrnn_count count, hadamrnn_wide a, hadamrnn_wide b)
{
    return count - (hadamrnn_count)(a != b);
}
#endif

INLINE hadamrnn_lane hadamrnn_add(hadamrnn_lane a, hadamrnn_lane b) { return a + b; }
INLINE hadamrnn_lane hadamrnn_subtract(hadamrnn_lane a, hadamrnn_lane b) { return a - b; }
INLINE hadamrnn_lane hadamrnn_load(const hadamrnn_narrow *h) { return *h; }
INLINE void hadamrnn_store(hadamrnn_narrow *h, hadamrnn_lane lane) { *h = lane; }
INLINE int16_t hadamrnn_shared(hadamrnn_narrow value) { return value[0]; }
INLINE hadamrnn_wide hadamrnn_positive(hadamrnn_wide value) { return most(value, (hadamrnn_wide){0}); }
INLINE hadamrnn_wide hadamrnn_exceeds(hadamrnn_wide value, int32_t bound) { return (value > bound) & 1; }

INLINE hadamrnn_narrow hadamrnn_larger(hadamrnn_narrow a, hadamrnn_narrow b)
{
    const hadamrnn_narrow is_larger = a > b;
    return (a & is_larger) | (b & ~is_larger);
}

INLINE hadamrnn_wide hadamrnn_saturate(hadamrnn_wide value, uint_fast8_t bits)
{
    const hadamrnn_wide high = (hadamrnn_wide){0} + ((INT32_C(1) << (bits - 1)) - 1);
    return most(least(value, high), ~high);
}

INLINE hadamrnn_wide hadamrnn_clip(hadamrnn_wide value, uint_fast8_t bits, hadamrnn_count *clipped)
{
    const hadamrnn_wide saturated = hadamrnn_saturate(value, bits);
    *clipped = with_differences(*clipped, saturated, value);
    return saturated;
}

/* By halves, acc = high 2^16 + low: high multiplier + floor(low multiplier / 2^16) is floor(acc multiplier / 2^16). */
INLINE hadamrnn_wide hadamrnn_product(hadamrnn_wide acc, uint_fast16_t multiplier, int32_t shifted_multiplier,
                                      uint_fast8_t shift)
{
    (void)shifted_multiplier;
    const hadamrnn_count factor = (hadamrnn_count){0} + (uint32_t)multiplier;
    const hadamrnn_wide high = (acc >> 16) * (hadamrnn_wide)factor;
    if (shift <= 16) {
        const hadamrnn_count low = ((hadamrnn_count)acc & 0xFFFFu) * factor;
        return high + (hadamrnn_wide)((low + 0x8000u) >> 16);
    }
    const hadamrnn_wide value = high + low_product(acc, factor);
    return ((value >> (shift - 17)) + 1) >> 1;
}

INLINE hadamrnn_wide hadamrnn_feature(hadamrnn_wide value, int32_t rate, uint_fast8_t shift, uint_fast8_t bits)
{
    const long_lane high = (long_lane){0} + ((INT64_C(1) << (bits - 1)) - 1);
    long_lane code = __builtin_convertvector(value, long_lane) * (int64_t)rate;
    code = (code + (INT64_C(1) << (shift - 1))) >> (int64_t)shift;
    const long_lane over = code > high, under = code < ~high;
    code = (code & ~(over | under)) | (high & over) | (~high & under);
    return __builtin_convertvector(code, hadamrnn_wide);
}

#endif
