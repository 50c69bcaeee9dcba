/* Vectors of integers: ROWS rows of the batch side by side, a row in each lane. A template in WIDE.
 *
 *     narrow   int16, ROWS lanes in one vector
 *     pair     WIDE (float or int32_t), ROWS lanes in two vectors
 *
 * Which of the two vectors of a pair a row falls into is the machine's choice: the lane of row r is WIDE_LANE(r).
 * `widened` gives x * WIDEN_SCALE. Floats hold integers up to 2^24 exactly, and a fused multiply-add rounds
 * once: `rounded` of floats is the exact rounding, where the caller has proven those bounds.
 */

#define wide NAME(wide_vector)
#define Pair NAME(vector_pair)
typedef WIDE wide __attribute__((vector_size(VECTOR_BYTES)));
typedef WIDE NAME(wide_memory) __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

typedef struct {
    wide v[2];
} Pair;

INLINE Pair NAME(load_pair)(const WIDE *p)
{
    return (Pair){{((const NAME(wide_memory) *)p)[0], ((const NAME(wide_memory) *)p)[1]}};
}

INLINE void NAME(store_pair)(WIDE *p, Pair a)
{
    ((NAME(wide_memory) *)p)[0] = a.v[0];
    ((NAME(wide_memory) *)p)[1] = a.v[1];
}

/* Numbers as words, and back. */
INLINE word NAME(to_words)(wide v) { return __builtin_convertvector(v, word); }
INLINE wide NAME(from_words)(word v) { return __builtin_convertvector(v, wide); }

INLINE Pair NAME(widened)(narrow x)
{
    Words words = widened_words(x);
#if WIDE_IS_FLOAT
    return (Pair){{NAME(from_words)(words.v[0]), NAME(from_words)(words.v[1])}};
#else
    return (Pair){{words.v[0] >> WIDEN_SHIFT, words.v[1] >> WIDEN_SHIFT}};
#endif
}

#undef WIDEN_SCALE
#if WIDE_IS_FLOAT
#define WIDEN_SCALE ((float)(1 << WIDEN_SHIFT))
#else
#define WIDEN_SCALE 1
#endif

/* How a sum becomes a state: round(acc * multiplier / 2^shift). */
typedef struct {
    float scale; /* multiplier / 2^shift, exact */
    int64_t multiplier, half;
    int shift;
} NAME(Rounding);

INLINE word NAME(rounded)(wide acc, const NAME(Rounding) *rounding)
{
#if WIDE_IS_FLOAT
    wide scale = rounding->scale - (wide){0}, magic = MAGIC - (wide){0};
    return (word)fused_multiply_add(acc, scale, magic) - MAGIC_BITS;
#else
    if (rounding->multiplier == 1) return rounded_shift(acc, rounding->shift);
    long_word product = __builtin_convertvector(acc, long_word) * rounding->multiplier + rounding->half;
    return __builtin_convertvector(product >> rounding->shift, word);
#endif
}

/* The butterflies of the fast transform between `radix` (1, 2, 4 or 8, a constant) pairs in registers. */
INLINE void NAME(butterfly)(Pair *a, Pair *b)
{
    UNROLL for (int half = 0; half < 2; half++) {
        wide difference = a->v[half] - b->v[half];
        a->v[half] += b->v[half];
        b->v[half] = difference;
    }
}

INLINE void NAME(pair_butterflies)(Pair *v, int radix)
{
    if (radix >= 2) UNROLL for (int i = 0; i < radix; i += 2) NAME(butterfly)(v + i, v + i + 1);
    if (radix >= 4) UNROLL for (int i = 0; i < radix; i += 4) {
        NAME(butterfly)(v + i, v + i + 2);
        NAME(butterfly)(v + i + 1, v + i + 3);
    }
    if (radix >= 8) UNROLL for (int i = 0; i < 4; i++) NAME(butterfly)(v + i, v + i + 4);
}
