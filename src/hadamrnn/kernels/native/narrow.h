/* Vectors of 16-bit integers, and the few instructions that C's vectors do not spell.
 *
 * x86's AVX has instructions of its own for all of them; the rest is plain vector code for any target.
 * UNPACKED lanes: x86 interleaves within 128 bits, which its own packing undoes.
 */
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define ROWS (VECTOR_BYTES / 2)
#define WIDE_LANES (VECTOR_BYTES / 4)

typedef int16_t narrow __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t narrow_memory __attribute__((vector_size(VECTOR_BYTES), aligned(2), may_alias));
typedef int16_t half_narrow __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef int32_t word __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t long_word __attribute__((vector_size(2 * VECTOR_BYTES)));

typedef struct {
    word v[2];
} Words;

INLINE narrow load_narrow(const int16_t *p) { return *(const narrow_memory *)p; }
INLINE void store_narrow(int16_t *p, narrow v) { *(narrow_memory *)p = v; }
INLINE narrow select_narrow(narrow where, narrow yes, narrow no) { return (yes & where) | (no & ~where); }
INLINE word select_word(word where, word yes, word no) { return (yes & where) | (no & ~where); }

/* round(v / 2^shift), ties towards +infinity, without an overflow. */
INLINE word rounded_shift(word v, int shift) { return shift ? (v >> shift) + ((v >> (shift - 1)) & 1) : v; }

/* v * 2^shift; a negative shift rounds. */
INLINE word shifted(word v, int shift) { return shift >= 0 ? v << shift : rounded_shift(v, -shift); }

#if defined(__AVX512BW__) && VECTOR_BYTES == 64
#define AVX(name, ...) _mm512_##name(__VA_ARGS__)
#define AVX_INTEGERS __m512i
#define fused_multiply_add(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && VECTOR_BYTES == 32
#define AVX(name, ...) _mm256_##name(__VA_ARGS__)
#define AVX_INTEGERS __m256i
#define fused_multiply_add(a, b, c) _mm256_fmadd_ps(a, b, c)
#elif defined(__aarch64__) && VECTOR_BYTES == 16
#define fused_multiply_add(a, b, c) (wide)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#endif

#ifdef AVX
#define WIDEN_SHIFT 16
#define WIDE_LANE(row) ((row) / 4 % 2 * WIDE_LANES + (row) / 8 * 4 + (row) % 4)
INLINE narrow least_narrow(narrow a, narrow b) { return (narrow)AVX(min_epi16, (AVX_INTEGERS)a, (AVX_INTEGERS)b); }
INLINE narrow most_narrow(narrow a, narrow b) { return (narrow)AVX(max_epi16, (AVX_INTEGERS)a, (AVX_INTEGERS)b); }
INLINE word least_word(word a, word b) { return (word)AVX(min_epi32, (AVX_INTEGERS)a, (AVX_INTEGERS)b); }
INLINE word most_word(word a, word b) { return (word)AVX(max_epi32, (AVX_INTEGERS)a, (AVX_INTEGERS)b); }
INLINE narrow saturating_sum(narrow a, narrow b) { return (narrow)AVX(adds_epi16, (AVX_INTEGERS)a, (AVX_INTEGERS)b); }
INLINE narrow saturating_difference(narrow a, narrow b)
{
    return (narrow)AVX(subs_epi16, (AVX_INTEGERS)a, (AVX_INTEGERS)b);
}

/* x * 2^WIDEN_SHIFT in words. */
INLINE Words widened_words(narrow x)
{
    AVX_INTEGERS zero = (AVX_INTEGERS)(narrow){0}, bits = (AVX_INTEGERS)x;
    return (Words){{(word)AVX(unpacklo_epi16, zero, bits), (word)AVX(unpackhi_epi16, zero, bits)}};
}

/* Two vectors side by side, and the sums a p + b q in words; `dot` holds p and, 16 bits higher, q. */
typedef struct {
    AVX_INTEGERS v[2];
} Duet;

INLINE Duet duet(narrow a, narrow b)
{
    AVX_INTEGERS p = (AVX_INTEGERS)a, q = (AVX_INTEGERS)b;
    return (Duet){{AVX(unpacklo_epi16, p, q), AVX(unpackhi_epi16, p, q)}};
}

INLINE Words duet_sums(Duet ab, int32_t dot)
{
    AVX_INTEGERS pq = AVX(set1_epi32, dot);
    return (Words){{(word)AVX(madd_epi16, ab.v[0], pq), (word)AVX(madd_epi16, ab.v[1], pq)}};
}

/* Two vectors of words as one of 16 bits, saturated to them. */
INLINE narrow packed(word low, word high) { return (narrow)AVX(packs_epi32, (AVX_INTEGERS)low, (AVX_INTEGERS)high); }
#else
#define WIDEN_SHIFT 0
#define WIDE_LANE(row) (row)
INLINE narrow least_narrow(narrow a, narrow b) { return select_narrow(a < b, a, b); }
INLINE narrow most_narrow(narrow a, narrow b) { return select_narrow(a > b, a, b); }
INLINE word least_word(word a, word b) { return select_word(a < b, a, b); }
INLINE word most_word(word a, word b) { return select_word(a > b, a, b); }

#ifdef fused_multiply_add
INLINE narrow saturating_sum(narrow a, narrow b) { return (narrow)vqaddq_s16((int16x8_t)a, (int16x8_t)b); }
INLINE narrow saturating_difference(narrow a, narrow b) { return (narrow)vqsubq_s16((int16x8_t)a, (int16x8_t)b); }
#endif

typedef union {
    narrow whole;
    half_narrow half[2];
} Halves;

INLINE Words widened_words(narrow x)
{
    Halves parts = {.whole = x};
    return (Words){{__builtin_convertvector(parts.half[0], word), __builtin_convertvector(parts.half[1], word)}};
}

typedef struct {
    Words a, b;
} Duet;

INLINE Duet duet(narrow a, narrow b) { return (Duet){widened_words(a), widened_words(b)}; }

INLINE Words duet_sums(Duet ab, int32_t dot)
{
    int32_t p = (int16_t)dot, q = dot >> 16;
    return (Words){{ab.a.v[0] * p + ab.b.v[0] * q, ab.a.v[1] * p + ab.b.v[1] * q}};
}

INLINE narrow packed(word low, word high)
{
    word least = (word){0} + INT16_MIN, most = (word){0} + INT16_MAX;
    low = least_word(most_word(low, least), most);
    high = least_word(most_word(high, least), most);
    Halves parts = {.half = {__builtin_convertvector(low, half_narrow), __builtin_convertvector(high, half_narrow)}};
    return parts.whole;
}
#endif

/* States on their way out of floats whose lowest bits are MAGIC_BITS + h + top: h + top in 16 bits, and in
 * `seen` every bit that came by. `outside` tells whether one was not in 0 .. 2 top - 1, given all are below 2^21.
 */
#define MAGIC 12582912.0f /* 1.5 * 2^23: added to y, it leaves the nearest integer in the lowest bits */
#define MAGIC_BITS 0x4B400000
#if defined(AVX) && VECTOR_BYTES == 64
typedef word Seen;
#define LOW(r) (2 * ((r) / 8 * 4 + (r) % 4) + (r) / 4 % 2 * 32)
#define LOW_8(r) LOW(r), LOW(r + 1), LOW(r + 2), LOW(r + 3), LOW(r + 4), LOW(r + 5), LOW(r + 6), LOW(r + 7)
INLINE narrow lifted_states(word low, word high, Seen *seen)
{
    const narrow lowest_halves = {LOW_8(0), LOW_8(8), LOW_8(16), LOW_8(24)};
    *seen |= low | high;
    return (narrow)_mm512_permutex2var_epi16((__m512i)low, (__m512i)lowest_halves, (__m512i)high);
}

INLINE int any_bit(narrow v) { return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0; }
INLINE int outside(Seen seen, int16_t top) { return any_bit((narrow)((seen ^ (seen & MAGIC_BITS)) & (-2 * top))); }
#else
typedef narrow Seen;
INLINE narrow lifted_states(word low, word high, Seen *seen)
{
    narrow states = packed(low - MAGIC_BITS, high - MAGIC_BITS);
    *seen |= states;
    return states;
}

INLINE int any_bit(narrow v)
{
    union {
        narrow lanes;
        uint64_t words[VECTOR_BYTES / 8];
    } bits = {.lanes = v};
    uint64_t any = 0;
    UNROLL for (int i = 0; i < VECTOR_BYTES / 8; i++) any |= bits.words[i];
    return any != 0;
}

INLINE int outside(Seen seen, int16_t top) { return any_bit(seen & (int16_t)(-2 * top)); }
#endif

INLINE Words signed_words(narrow x)
{
    Words words = widened_words(x);
    return (Words){{words.v[0] >> WIDEN_SHIFT, words.v[1] >> WIDEN_SHIFT}};
}

/* The butterflies of the fast transform between `radix` (up to 16, a constant) vectors in registers; where their
 * sums might leave 16 bits they saturate, see narrow_step.h. */
INLINE void narrow_butterfly(int saturates, narrow *a, narrow *b)
{
#ifdef fused_multiply_add /* else there are no floats, whose step alone saturates */
    if (saturates) {
        narrow difference = saturating_difference(*a, *b);
        *a = saturating_sum(*a, *b);
        *b = difference;
        return;
    }
#endif
    (void)saturates;
    narrow difference = *a - *b;
    *a += *b;
    *b = difference;
}

INLINE void narrow_butterflies(int saturates, int radix, narrow *v)
{
    if (radix > 1) UNROLL for (int j = 0; j < radix; j++) if (!(j & 1)) narrow_butterfly(saturates, v + j, v + j + 1);
    if (radix > 2) UNROLL for (int j = 0; j < radix; j++) if (!(j & 2)) narrow_butterfly(saturates, v + j, v + j + 2);
    if (radix > 4) UNROLL for (int j = 0; j < radix; j++) if (!(j & 4)) narrow_butterfly(saturates, v + j, v + j + 4);
    if (radix > 8) UNROLL for (int j = 0; j < radix; j++) if (!(j & 8)) narrow_butterfly(saturates, v + j, v + j + 8);
}

INLINE void narrow_pass(int saturates, int radix, int64_t size, int64_t sylvester, const int16_t *in, int16_t *out)
{
    int64_t stride = sylvester / radix;
    for (int64_t block = 0; block < size; block += sylvester)
        for (int64_t t = block; t < block + stride; t++) {
            narrow v[16];
            UNROLL for (int j = 0; j < radix; j++) v[j] = load_narrow(in + (t + j * stride) * ROWS);
            narrow_butterflies(saturates, radix, v);
            UNROLL for (int j = 0; j < radix; j++) store_narrow(out + (t + j * stride) * ROWS, v[j]);
        }
}

/* The `stages` (1 to 4) highest stages of the transforms of order `sylvester` that tile `size` units. */
INLINE void narrow_transform(int saturates, int64_t stages, int64_t size, int64_t sylvester, const int16_t *in,
                             int16_t *out)
{
    switch (stages) { /* each case inlines a pass for that constant */
    case 1: narrow_pass(saturates, 2, size, sylvester, in, out); break;
    case 2: narrow_pass(saturates, 4, size, sylvester, in, out); break;
    case 3: narrow_pass(saturates, 8, size, sylvester, in, out); break;
    default: narrow_pass(saturates, 16, size, sylvester, in, out); break;
    }
}

static void exact_transform(int64_t stages, int64_t size, int64_t sylvester, const int16_t *in, int16_t *out)
{
    narrow_transform(0, stages, size, sylvester, in, out);
}
