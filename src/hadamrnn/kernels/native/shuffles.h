/* Operations across lanes: sums over the lanes of a vector, and the transpose of a square of numbers. */

#if LANES == 16
#define EACH_LANE LIST_16
#elif LANES == 8
#define EACH_LANE LIST_8
#elif LANES == 4
#define EACH_LANE LIST_4
#else
#define EACH_LANE LIST_2
#endif
#define LOW(a, b, s) SHUFFLE_TWO(a, b, EACH_LANE(LOW_OF_TWO, s))
#define HIGH(a, b, s) SHUFFLE_TWO(a, b, EACH_LANE(HIGH_OF_TWO, s))

/* v as the rows of a matrix of LANES x LANES becomes its transpose. */
#define TRANSPOSE_STAGE(s)                                   \
    UNROLL for (int i = 0; i < LANES; i++) {                 \
        if (i & (s)) continue;                               \
        vec low = LOW(v[i], v[i + (s)], s);                  \
        v[i + (s)] = HIGH(v[i], v[i + (s)], s);              \
        v[i] = low;                                          \
    }
INLINE void NAME(transpose)(vec *v)
{
#if LANES >= 16
    TRANSPOSE_STAGE(8)
#endif
#if LANES >= 8
    TRANSPOSE_STAGE(4)
#endif
#if LANES >= 4
    TRANSPOSE_STAGE(2)
#endif
    TRANSPOSE_STAGE(1)
}

/* Lane i gets v[i] + v[i ^ s], s = LANES / 2, ..., 2, 1: in the end each lane holds the sum of all. */
INLINE REAL NAME(sum_lanes)(vec v)
{
#if LANES >= 16
    v += SHUFFLE(v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    v += SHUFFLE(v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v += SHUFFLE(v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    v += SHUFFLE(v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif LANES == 8
    v += SHUFFLE(v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += SHUFFLE(v, 2, 3, 0, 1, 6, 7, 4, 5);
    v += SHUFFLE(v, 1, 0, 3, 2, 5, 4, 7, 6);
#elif LANES == 4
    v += SHUFFLE(v, 2, 3, 0, 1);
    v += SHUFFLE(v, 1, 0, 3, 2);
#else
    v += SHUFFLE(v, 1, 0);
#endif
    return v[0];
}

/* The same for each of four vectors at once, to the same bits. */
INLINE void NAME(sum_lanes_of_four)(const vec *v, REAL *sums)
{
#if LANES >= 4
    vec pair[2];
    UNROLL for (int i = 0; i < 2; i++)
        pair[i] = LOW(v[2 * i], v[2 * i + 1], LANES / 2) + HIGH(v[2 * i], v[2 * i + 1], LANES / 2);
    vec all = LOW(pair[0], pair[1], LANES / 4) + HIGH(pair[0], pair[1], LANES / 4);
#if LANES >= 16
    all += SHUFFLE(all, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    all += SHUFFLE(all, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif LANES == 8
    all += SHUFFLE(all, 1, 0, 3, 2, 5, 4, 7, 6);
#endif
    UNROLL for (int i = 0; i < 4; i++) sums[i] = all[i % 2 * (LANES / 2) + i / 2 * (LANES / 4)];
#else
    UNROLL for (int i = 0; i < 4; i++) sums[i] = NAME(sum_lanes)(v[i]);
#endif
}

#undef TRANSPOSE_STAGE
#undef HIGH
#undef LOW
#undef EACH_LANE
