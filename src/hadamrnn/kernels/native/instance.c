/* Every kernel for one instruction set, in float and in double.
 *
 * The build compiles this file once per instruction set, with that set's flags, ISA as the suffix of the
 * names and VECTOR_BYTES as the width of a vector; `dispatch.c` chooses between them when it is asked.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hadamrnn.h"
#include "template.h"

#define MAX_STEPS 16 /* of a block of the scan */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define SHUFFLE(v, ...) __builtin_shuffle(v, (INTEGER __attribute__((vector_size(sizeof(v))))){__VA_ARGS__})
#endif
#define NAME(name) JOIN(name, REAL, ISA)
#define vec NAME(vector)
#define mem NAME(memory_vector)
#define bits NAME(bit_vector)
#define load NAME(load_vector)
#define store NAME(store_vector)

/* The fast transform's two moves. Stage `s` inside a vector: lane i becomes v[i ^ s] + v[i], or v[i ^ s] - v[i]
 * where bit s of i is set; and the same between two vectors of an array `v`. */
#define LANE_STAGE(v, signs, ...) ((v) * (vec)signs + SHUFFLE(v, __VA_ARGS__))
#define LIST(...) {__VA_ARGS__}
#define BUTTERFLY(i, j)                    \
    do {                                   \
        vec difference = v[i] - v[j];      \
        v[i] += v[j];                      \
        v[j] = difference;                 \
    } while (0)

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
