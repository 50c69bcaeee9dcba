/* The integer network for one instruction set, with its sums in 32-bit integers and in floats.
 *
 * The build compiles this file once per instruction set, as `instance.c`. Only a machine with a fused
 * multiply-add has the floats.
 */
#include <stdlib.h>
#include <string.h>

#include "hadamrnn.h"
#include "template.h"
#include "narrow.h"

#define NAME(name) JOIN(name, WIDE, ISA)

#define WIDE int32_t
#define WIDE_IS_FLOAT 0
#include "integers.h"
#undef WIDE_IS_FLOAT
#undef WIDE

#ifdef fused_multiply_add
#define WIDE float
#define WIDE_IS_FLOAT 1
#include "integers.h"
#endif
