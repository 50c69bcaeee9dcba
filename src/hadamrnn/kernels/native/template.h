/* Definitions for the files that are compiled once per instruction set: ISA names the set, VECTOR_BYTES is the
 * width of its vectors. Vectors are an extension of C by GCC and Clang, available on all of their targets. */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#ifndef ISA
#define ISA baseline
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#endif

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline)) /* so that the function's loops have all the registers */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define JOIN_(name, type, isa) name##_##type##_##isa
#define JOIN(name, type, isa) JOIN_(name, type, isa)

#endif
