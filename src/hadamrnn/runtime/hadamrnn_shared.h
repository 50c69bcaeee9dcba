/* hadamrnn_shared.h: one program for any number of networks, each a blob of bytes that may come over the air.
 *
 * Compile hadamrnn_shared.c once. A blob is `NAME.bin` of an export, or its array in `NAME_blob.h`. Its address must be
 * a multiple of 4, and it must not move while its network is in use. hadamrnn_open trusts nothing: it verifies the
 * checksum, every size and range, and that no sum of this network can overflow for any input. An accepted blob runs
 * without undefined behaviour; anything else is refused.
 *
 *     static hadamrnn_network network;
 *     static hadamrnn_counters counters;
 *     static int32_t wide[WIDE], work[WORK], logits[OUTPUTS];
 *     static int16_t narrow[NARROW], codes[CODES], x[INPUTS];
 *     static const hadamrnn_memory memory = {&counters, wide, narrow, work, codes};
 *
 *     if ((hadamrnn_open(blob, size, &network) == HADAMRNN_OK) &&
 *         hadamrnn_fits(&network.model, WIDE, NARROW, WORK, CODES)) {
 *         hadamrnn_init(&network.model, &memory);
 *         (void)hadamrnn_encode(&network.model, raw, x);
 *         (void)hadamrnn_step(&network.model, &memory, x);
 *         hadamrnn_logits(&network.model, &view, logits); (view: the first three pointers of memory)
 *     }
 *
 * The names are those of hadamrnn.h, which has the equations: a file that includes a specialised NAME.c cannot include this
 * one as well. Both can be linked into one firmware.
 */
#ifndef HADAMRNN_SHARED_H
#define HADAMRNN_SHARED_H

#include "hadamrnn_window.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HADAMRNN_LAYERS
#define HADAMRNN_LAYERS 4u /* limit on the layers of a blob: define it before this file, the same everywhere */
#endif

/* The results of hadamrnn_open besides HADAMRNN_OK. */
#define HADAMRNN_NOT_A_BLOB 16u /* too short, another magic number, or not at a multiple of 4 */
#define HADAMRNN_OTHER_VERSION 17u /* another format version: use the runtime of its export */
#define HADAMRNN_DAMAGED 18u /* its size or its checksum is wrong */
#define HADAMRNN_INCONSISTENT 19u /* a size or a value is out of range, or a sum could overflow */
#define HADAMRNN_TOO_MANY_LAYERS 20u /* more than HADAMRNN_LAYERS */

#define HADAMRNN_BLOB_VERSION 2u

/* An opened network. It contains pointers to its own members: do not copy it. */
typedef struct {
    hadamrnn_model model;
    hadamrnn_layer layers[HADAMRNN_LAYERS];
} hadamrnn_network;

/* Read the blob of `size` bytes. Unless HADAMRNN_OK is returned the network must not be used. */
uint8_t hadamrnn_open(const uint8_t *blob, uint32_t size, hadamrnn_network *network);

/* Return whether arrays of this many cells are large enough for the members of hadamrnn_memory. */
bool hadamrnn_fits(const hadamrnn_model *model, uint32_t wide, uint32_t narrow, uint32_t work, uint32_t codes);

void hadamrnn_init(const hadamrnn_model *model, const hadamrnn_memory *memory);
uint16_t hadamrnn_encode(const hadamrnn_model *model, const int32_t *raw, int16_t *x);
uint8_t hadamrnn_step(const hadamrnn_model *model, const hadamrnn_memory *memory, const int16_t *x); /* dense inputs */
uint8_t hadamrnn_step_id(const hadamrnn_model *model, const hadamrnn_memory *memory, uint32_t id); /* the others */
void hadamrnn_logits(const hadamrnn_model *model, const hadamrnn_view *memory, int32_t *logits);
uint16_t hadamrnn_best(const hadamrnn_model *model, const int32_t *logits);
void hadamrnn_values(const hadamrnn_model *model, const int32_t *logits, int64_t *values); /* for a regressor */

/* Sliding windows, as in NAME_window.h. `states` are size / hop memories, which may share work and codes; first call
 * hadamrnn_init on the first of them. A dense network reads `raw`, any other network `id`. The logits are new when
 * HADAMRNN_READY is returned. */
uint8_t hadamrnn_window_init(const hadamrnn_model *model, hadamrnn_window *window, uint16_t size, uint16_t hop);
uint8_t hadamrnn_window_push(const hadamrnn_model *model, hadamrnn_window *window, const hadamrnn_memory *states,
                             const int32_t *raw, uint32_t id, int32_t *logits);

#ifdef __cplusplus
}
#endif

#endif
