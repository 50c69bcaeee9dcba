/* The library's entry points: its instruction sets, and the kernels of each.
 *
 * The caller chooses once: `hadamrnn_isa(index)` names the sets that this library was built for
 * and this machine can run, best first, and `hadamrnn_kernel(isa, name)` returns a kernel's address.
 */
#include <stddef.h>
#include <string.h>

#include "arguments.h"

#define EXPORT __attribute__((visibility("default")))

typedef void (*Kernel)(void);
typedef struct {
    const char *name;
    Kernel kernel;
} Entry;

#define DECLARE(real, isa)                                                                               \
    int scan_forward_##real##_##isa(const ScanArgs *, int64_t);                                          \
    int scan_backward_##real##_##isa(const ScanArgs *, int64_t);                                         \
    int pool_forward_##real##_##isa(const ScanArgs *, int64_t);                                          \
    int pool_backward_##real##_##isa(const ScanArgs *, int64_t);                                         \
    int tile_rows_##real##_##isa(void);                                                                  \
    int norm_moments_##real##_##isa(const NormArgs *, int64_t);                                          \
    int norm_forward_##real##_##isa(const NormArgs *, int64_t);                                          \
    int norm_sums_##real##_##isa(const NormArgs *, int64_t);                                             \
    int norm_backward_##real##_##isa(const NormArgs *, int64_t);                                         \
    int product_##real##_##isa(const ProductArgs *, int64_t);                                            \
    int product_terms_##real##_##isa(const ProductArgs *, int64_t);                                      \
    int loss_##real##_##isa(const LossArgs *, int64_t);                                                  \
    int reduce_##real##_##isa(int64_t, int64_t, int64_t, int64_t, const real *, real *);
#define ENTRIES(real, isa)                                                                               \
    {"scan_forward_" #real, (Kernel)scan_forward_##real##_##isa},                                        \
    {"scan_backward_" #real, (Kernel)scan_backward_##real##_##isa},                                      \
    {"pool_forward_" #real, (Kernel)pool_forward_##real##_##isa},                                        \
    {"pool_backward_" #real, (Kernel)pool_backward_##real##_##isa},                                      \
    {"tile_rows_" #real, (Kernel)tile_rows_##real##_##isa},                                              \
    {"norm_moments_" #real, (Kernel)norm_moments_##real##_##isa},                                        \
    {"norm_forward_" #real, (Kernel)norm_forward_##real##_##isa},                                        \
    {"norm_sums_" #real, (Kernel)norm_sums_##real##_##isa},                                              \
    {"norm_backward_" #real, (Kernel)norm_backward_##real##_##isa},                                      \
    {"product_" #real, (Kernel)product_##real##_##isa},                                                  \
    {"product_terms_" #real, (Kernel)product_terms_##real##_##isa},                                      \
    {"loss_" #real, (Kernel)loss_##real##_##isa},                                                        \
    {"reduce_" #real, (Kernel)reduce_##real##_##isa},
#define INSTANCE(isa)                                                                                    \
    DECLARE(float, isa)                                                                                  \
    DECLARE(double, isa)                                                                                 \
    int integers_##isa(const IntegerArgs *, int64_t);                                                    \
    int integer_rows_##isa(void);                                                                        \
    int front_end_##isa(const FrontEndArgs *, int64_t);                                                  \
    int reservoir_##isa(const ReservoirArgs *, int64_t);                                                 \
    static const Entry isa##_kernels[] = {ENTRIES(float, isa) ENTRIES(double, isa)                       \
                                          {"integers", (Kernel)integers_##isa},                          \
                                          {"integer_rows", (Kernel)integer_rows_##isa},                  \
                                          {"front_end", (Kernel)front_end_##isa},                        \
                                          {"reservoir", (Kernel)reservoir_##isa},                        \
                                          {NULL, NULL}};

#ifdef HADAMRNN_X86
INSTANCE(avx2)
INSTANCE(avx512)
#endif
INSTANCE(baseline)

static const Entry *kernels_of(const char *isa)
{
#ifdef HADAMRNN_X86
    if (strcmp(isa, "avx512") == 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
        return avx512_kernels;
    if (strcmp(isa, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return avx2_kernels;
#endif
    return strcmp(isa, "baseline") == 0 ? baseline_kernels : NULL;
}

/* The SHA-256 of arguments.h, which the loader reads too: it refuses a library that was compiled with another version. */
EXPORT const char *hadamrnn_interface(void) { return HADAMRNN_INTERFACE; }

/* The index-th best instruction set of this library on this machine, or NULL past the last. */
EXPORT const char *hadamrnn_isa(int index)
{
    static const char *const best_first[] = {"avx512", "avx2", "baseline"};
    for (size_t i = 0; i < sizeof best_first / sizeof *best_first; i++)
        if (kernels_of(best_first[i]) && index-- == 0) return best_first[i];
    return NULL;
}

/* The kernel `name` (such as "scan_forward_float") for `isa`, or NULL if there is none. */
EXPORT Kernel hadamrnn_kernel(const char *isa, const char *name)
{
    const Entry *entry = kernels_of(isa);
    while (entry && entry->name && strcmp(entry->name, name) != 0) entry++;
    return entry ? entry->kernel : NULL;
}
