/* Every kernel for one instruction set, in float and in double.
 *
 * The build compiles this file once per instruction set, with that set's flags, ISA as the suffix of the
 * names and VECTOR_BYTES as the width of a vector; `dispatch.c` looks kernels up by set.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "template.h"

#define MAX_STEPS 16 /* limit on the steps of a block of the scan */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#define SHUFFLE_TWO(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(v, ...) __builtin_shuffle(v, (INTEGER __attribute__((vector_size(sizeof(v))))){__VA_ARGS__})
#define SHUFFLE_TWO(a, b, ...) __builtin_shuffle(a, b, (INTEGER __attribute__((vector_size(sizeof(a))))){__VA_ARGS__})
#endif
/* A list with an entry for each lane: pick(0, s), pick(1, s), ... */
#define LIST_2(pick, s) pick(0, s), pick(1, s)
#define LIST_4(pick, s) LIST_2(pick, s), pick(2, s), pick(3, s)
#define LIST_8(pick, s) LIST_4(pick, s), pick(4, s), pick(5, s), pick(6, s), pick(7, s)
#define LIST_16(pick, s) \
    LIST_8(pick, s), pick(8, s), pick(9, s), pick(10, s), pick(11, s), pick(12, s), pick(13, s), pick(14, s), pick(15, s)
/* Indices of lane i in the pair of vectors (a, b). If bit s of i is set: b[i - s] (low) or b[i] (high); else a[i] or
 * a[i + s]. */
#define LOW_OF_TWO(i, s) ((i) & (s) ? LANES + ((i) ^ (s)) : (i))
#define HIGH_OF_TWO(i, s) ((i) & (s) ? LANES + (i) : (i) ^ (s))
#define NAME(name) JOIN(name, REAL, ISA)
#define vec NAME(vector)
#define mem NAME(memory_vector)
#define bits NAME(bit_vector)
#define load NAME(load_vector)
#define store NAME(store_vector)

/* The fast transform's two moves. Stage `s` inside a vector: lane i becomes v[i ^ s] + v[i], or v[i ^ s] - v[i]
 * if bit s of i is set; and the same between two vectors of an array `v`. */
#define LANE_STAGE(v, signs, ...) ((v) * (vec)signs + SHUFFLE(v, __VA_ARGS__))
#define LIST(...) {__VA_ARGS__}
#define BUTTERFLY(i, j)                    \
    do {                                   \
        vec difference = v[i] - v[j];      \
        v[i] += v[j];                      \
        v[j] = difference;                 \
    } while (0)

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define ROUNDS_ONCE 1 /* a product and a sum are one instruction */
#else
#define ROUNDS_ONCE 0
#endif
/* v * factor (1 + rest) + add, where `rest` has the digits that a REAL factor lacks: otherwise W would not preserve the
 * norm of a state over a million steps. Both sums are needed, even of 0: each is a multiply-add, which rounds once. */
#define SCALED(v, factor, rest, add) ((v) * (factor) + ((v) * ((factor) * (rest)) + (add)))

#define REAL float
#define REAL_IS_DOUBLE 0
#define INTEGER int32_t
#define LANES (VECTOR_BYTES / 4)
#include "kernels.h"
#undef LANES
#undef INTEGER
#undef REAL_IS_DOUBLE
#undef REAL

#define REAL double
#define REAL_IS_DOUBLE 1
#define INTEGER int64_t
#define LANES (VECTOR_BYTES / 8)
#include "kernels.h"
