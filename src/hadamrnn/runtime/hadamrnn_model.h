/* hadamrnn_model.h: a network as data: its numbers, and pointers to its constants.
 *
 * Part of hadamrnn.h, which includes it. Start reading at hadamrnn_layer; the equations beside its names are in hadamrnn.h.
 */
#ifndef HADAMRNN_MODEL_H
#define HADAMRNN_MODEL_H

/* Inputs: codes of every channel, the index of the one channel that is 1, or ids of an embedding. */
#define HADAMRNN_DENSE 0u
#define HADAMRNN_ONE_HOT 1u
#define HADAMRNN_EMBEDDED 2u

/* Read-outs. */
#define HADAMRNN_LAST 0u
#define HADAMRNN_MEAN 1u
#define HADAMRNN_POSITIVE 2u
#define HADAMRNN_MAX 3u
#define HADAMRNN_READOUTS 4u

#define HADAMRNN_FACTORS 4u /* limit on the factors of a block whose order is no power of two */
#define HADAMRNN_GROUP 8u /* rows finished together, because eight codes of p bits fill p bytes */

/* Constants are bytes in flash, numbers of several bytes little endian: rows come in groups of 8, the last one padded
 * with zeros. Codes of U and V have code_bits each, the first one in the lowest bits. Biases, gains, offsets and
 * thresholds are numbers of value_bytes. A NULL pointer marks an array that the network lacks. */
typedef struct {
    uint16_t order; /* 0: no factor */
    uint16_t stride; /* distance of the entries that it combines */
    const uint8_t *signs; /* row after row in whole bytes, a bit for each sign, 1 for -1 */
} hadamrnn_factor;

/* The numbers and arrays of a layer and of a network, in the order of a blob: the same lists declare them here and read them
 * in hadamrnn_blob.h, X(type, name, least value, largest value) or X(name, bytes). `groups` and `rows` are those of the
 * units, `features` and `pitch` those of V. */
#define HADAMRNN_LAYER_NUMBERS(X) \
    X(uint16_t, units, 1, HADAMRNN_MAX_UNITS) /* entries of h */ \
    X(uint16_t, inputs, 1, HADAMRNN_MAX_UNITS) /* entries of x */ \
    X(uint16_t, block, 1, HADAMRNN_MAX_UNITS) /* units of a block of H */ \
    X(uint8_t, in_place, 0, 14) /* stages computed in the cells of h, in 16 bits: an even number */ \
    X(uint8_t, state_shift, 0, HADAMRNN_MAX_SHIFT) \
    X(int8_t, input_shift, -HADAMRNN_MAX_SHIFT, HADAMRNN_MAX_SHIFT) /* negative: a rounded right shift */ \
    X(uint8_t, bias_shift, 0, HADAMRNN_MAX_SHIFT) \
    X(uint16_t, multiplier, 1, UINT16_MAX) /* 1, or 16 bits */ \
    X(uint8_t, round_shift, 0, 54) \
    X(uint8_t, leak, 0, HADAMRNN_MAX_LEAK) /* k of all units, if there are no `leaks` */ \
    X(uint8_t, leak_bytes, 0, HADAMRNN_GROUP) /* bytes per group: 1 if its rows share k, else 8 */ \
    X(uint8_t, output_bits, 2, 16) \
    X(uint8_t, gain_shift, 0, HADAMRNN_MAX_SHIFT) \
    X(uint8_t, offset_shift, 0, HADAMRNN_MAX_SHIFT) \
    X(uint8_t, has_skip, 0, 1) \
    X(int8_t, skip_shift, -HADAMRNN_MAX_SHIFT, HADAMRNN_MAX_SHIFT) /* negative: a rounded right shift */

#define HADAMRNN_LAYER_ARRAYS(X) \
    X(signs, groups * HADAMRNN_SIGN_BYTES) /* u, a bit each, 1 for -1 */ \
    X(weight, groups * layer->inputs * model->code_bits) /* U: (group, column, row), one-hot (column, group, row) */ \
    X(bias, rows * model->value_bytes) /* b_i */ \
    X(leaks, groups * layer->leak_bytes) /* k, a byte each */ \
    X(gain, (uint64_t)layer->units * model->value_bytes) \
    X(offset, (uint64_t)layer->units * model->value_bytes)

#define HADAMRNN_MODEL_NUMBERS(X) \
    X(uint8_t, input_kind, HADAMRNN_DENSE, HADAMRNN_EMBEDDED) \
    X(uint8_t, input_bits, 2, 16) /* bits of dense codes */ \
    X(uint8_t, activation_bits, 2, 16) /* bits of h */ \
    X(uint8_t, code_bits, 2, HADAMRNN_MAX_CODE_BITS) /* bits of U and V */ \
    X(uint8_t, is_relu, 0, 1) \
    X(uint8_t, num_layers, 1, UINT8_MAX) \
    X(uint8_t, num_readouts, 1, HADAMRNN_READOUTS) \
    X(uint8_t, thresholds, 1, 64) /* rows of theta; 1 without any */ \
    X(uint8_t, feature_bits, 0, 16) \
    X(uint8_t, output_bias_shift, 0, HADAMRNN_MAX_SHIFT) \
    X(uint16_t, stride, 1, UINT16_MAX) /* steps of a layer for one of the layer above */ \
    X(uint16_t, input_size, 1, HADAMRNN_MAX_UNITS) \
    X(uint16_t, output_size, 1, HADAMRNN_MAX_UNITS) \
    X(uint16_t, longest, 0, UINT16_MAX) /* limit on the steps in a sum; 0: no limit */ \
    X(uint32_t, vocabulary, 0, INT32_MAX) /* ids */

#define HADAMRNN_MODEL_ARRAYS(X) \
    X(output_weight, pitch * model->output_size) /* V: (output, read-out, row of thresholds, group, row) */ \
    X(output_bias, outputs * model->value_bytes) /* b_o */ \
    X(theta, rows * model->thresholds * model->value_bytes) /* (row of thresholds, row) */ \
    X(feature_shift, features) /* (read-out, row of thresholds, row); NULL: code = value */ \
    X(embedding, model->vocabulary * channels * model->embedding_bytes) /* (id, channel) */ \
    X(raw_offset, 4u * channels) \
    X(raw_multiplier, 4u * channels) \
    X(raw_shift, channels) \
    X(raw_knee, channels) \
    X(value_multiplier, 4u * outputs) /* of the targets of a regressor */ \
    X(value_shift, outputs) \
    X(value_offset, 8u * outputs)

#define HADAMRNN_NUMBER(type, name, low, high) type name;
#define HADAMRNN_ARRAY(name, bytes) const uint8_t *name;

typedef struct {
    HADAMRNN_LAYER_NUMBERS(HADAMRNN_NUMBER)
    uint8_t stages; /* stages of the transform: log2 of the power of two in `block` */
    uint32_t cells; /* offset of h in the narrow cells of the memory */
    uint32_t sums; /* offset of the sums of its outputs in the narrow cells, if the stride is above 1 */
    hadamrnn_factor factors[HADAMRNN_FACTORS];
    HADAMRNN_LAYER_ARRAYS(HADAMRNN_ARRAY)
} hadamrnn_layer;

typedef struct {
    HADAMRNN_MODEL_NUMBERS(HADAMRNN_NUMBER)
    uint8_t value_bytes; /* 1 or 2 */
    uint8_t embedding_bytes; /* 1 or 2 */
    uint8_t readouts[HADAMRNN_READOUTS];
    uint16_t multipliers[HADAMRNN_READOUTS]; /* M */
    uint32_t phases; /* offset of the stride counters in the narrow cells: steps of each layer since the next one's last */
    uint32_t counts; /* offset of the counters in the wide cells; sums and maxima begin at 0 */
    uint32_t pool_wide; /* cells of sums and counters, which are all wide cells of a state */
    uint32_t pool_narrow; /* cells of maxima */
    uint32_t narrow_cells; /* narrow cells of a state */
    uint32_t work_cells; /* cells of the buffer for a step */
    uint32_t code_cells;
    const hadamrnn_layer *layers; /* the lowest first */
    HADAMRNN_MODEL_ARRAYS(HADAMRNN_ARRAY)
} hadamrnn_model;

#endif
