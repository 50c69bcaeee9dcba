/* hadamrnn_shared.c: the functions of hadamrnn_shared.h.
 *
 * A blob, numbers little endian: "HRNN", format version (2 bytes), zeros (2), size of the blob (4), CRC-32 of what follows
 * (4); the fields of the network, then those of every layer, in the order in which hadamrnn_read_model and
 * hadamrnn_read_layer take them; and the arrays. A field that names an array holds its place in the blob, a multiple of
 * 4, or 0 where there is none. All that follows from other fields is computed here and stands in no blob.
 *
 * The bounds are those of fixedpoint/overflow.py in the Python library, where they are explained: the magnitudes of the
 * terms of every sum, added up, stay below 2^31. Start reading at hadamrnn_open.
 */
#include "hadamrnn_shared.h"

#define HADAMRNN_SHARED
#include "hadamrnn.h"

#define HADAMRNN_HEADER 16u
#define HADAMRNN_LIMIT (INT64_C(1) << 31)
#define HADAMRNN_MAX_UNITS 32768u
#define HADAMRNN_MAX_LEAK 15u
#define HADAMRNN_MAX_SHIFT 30u

typedef struct {
    const uint8_t *blob;
    uint32_t size;
    uint32_t at; /* of the next field */
    bool is_good; /* so far */
} hadamrnn_reader;

static void hadamrnn_require(hadamrnn_reader *reader, bool holds)
{
    reader->is_good = reader->is_good && holds;
}

/* A number of 1 to 4 bytes. */
static uint32_t hadamrnn_number(const uint8_t *p, uint8_t bytes)
{
    uint32_t number = 0;
    for (uint8_t i = 0; i < bytes; i++) {
        const uint32_t byte = hadamrnn_byte(p + i);
        number |= byte << (8u * (uint32_t)i);
    }
    return number;
}

/* The next field, of 1 to 4 bytes. */
static uint32_t hadamrnn_take(hadamrnn_reader *reader, uint8_t bytes)
{
    uint32_t number = 0;
    hadamrnn_require(reader, (reader->size - reader->at) >= bytes);
    if (reader->is_good) {
        number = hadamrnn_number(reader->blob + reader->at, bytes);
        reader->at += bytes;
    }
    return number;
}

/* The next field, of a byte within low..high. */
static uint8_t hadamrnn_take8(hadamrnn_reader *reader, uint8_t low, uint8_t high)
{
    const uint8_t number = (uint8_t)hadamrnn_take(reader, 1u);
    hadamrnn_require(reader, (number >= low) && (number <= high));
    return number;
}

/* The next field, of two bytes within low..high. */
static uint16_t hadamrnn_take16(hadamrnn_reader *reader, uint16_t low, uint16_t high)
{
    const uint16_t number = (uint16_t)hadamrnn_take(reader, 2u);
    hadamrnn_require(reader, (number >= low) && (number <= high));
    return number;
}

/* The next field, a shift to the left, or a negative one to the right. */
static int8_t hadamrnn_take_shift(hadamrnn_reader *reader)
{
    const int8_t shift = (int8_t)hadamrnn_take(reader, 1u);
    hadamrnn_require(reader, (shift >= -(int8_t)HADAMRNN_MAX_SHIFT) && (shift <= (int8_t)HADAMRNN_MAX_SHIFT));
    return shift;
}

/* The next field, the place of an array of so many bytes; NULL where there is none. */
static const uint8_t *hadamrnn_take_array(hadamrnn_reader *reader, uint64_t bytes)
{
    const uint32_t place = hadamrnn_take(reader, 4u);
    const bool fits = ((place & 3u) == 0u) && (place <= reader->size) && (bytes <= (reader->size - place));
    hadamrnn_require(reader, (place == 0u) || fits);
    return (reader->is_good && (place != 0u)) ? (reader->blob + place) : NULL;
}

static int64_t hadamrnn_magnitude(int32_t value)
{
    return (value < 0) ? -(int64_t)value : (int64_t)value;
}

/* The largest |shift(x, shift)| if |x| <= bound. */
static int64_t hadamrnn_shifted_bound(int64_t bound, int8_t shift)
{
    return (shift >= 0) ? (bound * (INT64_C(1) << shift)) : ((bound + ((INT64_C(1) << -shift) >> 1)) >> -shift);
}

static uint32_t hadamrnn_groups_of(uint32_t units)
{
    return (units + (HADAMRNN_GROUP - 1u)) / HADAMRNN_GROUP;
}

/* Bits that a sum of `stride` codes takes beyond those of one. */
static uint8_t hadamrnn_grown_bits(uint16_t stride)
{
    uint8_t bits = 0;
    while (((uint32_t)1 << bits) < stride) {
        bits++;
    }
    return bits;
}

/* k of a row, or of the one for all. */
static uint8_t hadamrnn_leak_of(const hadamrnn_layer *layer, uint32_t row)
{
    const uint32_t at = (layer->leak_bytes == 1u) ? (row / HADAMRNN_GROUP) : row;
    return (layer->leaks == NULL) ? layer->leak : hadamrnn_byte(layer->leaks + at);
}

/* ---- Reading. What is read is checked for sizes and ranges at once, so that later loops stay within the blob. */

/* The factors of a block, and its stages. */
static void hadamrnn_read_transform(hadamrnn_reader *reader, hadamrnn_layer *layer)
{
    uint32_t left = layer->block;
    uint8_t last = 0; /* 1 behind the last factor */
    for (uint8_t f = 0; f < HADAMRNN_FACTORS; f++) {
        hadamrnn_factor *const factor = &layer->factors[f];
        factor->order = hadamrnn_take16(reader, 0u, UINT16_MAX);
        const uint32_t order = factor->order;
        const uint32_t row_bytes = (order + 7u) / 8u;
        factor->signs = hadamrnn_take_array(reader, (uint64_t)order * row_bytes);
        if (order == 0u) {
            last = 1;
        } else {
            hadamrnn_require(reader, (last == 0u) && ((order % 4u) == 0u) && ((left % order) == 0u));
            hadamrnn_require(reader, factor->signs != NULL);
            left /= order;
            factor->stride = (uint16_t)left;
        }
    }
    layer->stages = 0;
    while ((((uint32_t)2 << layer->stages) <= left) && (layer->stages < 15u)) {
        layer->stages++;
    }
    hadamrnn_require(reader, left == ((uint32_t)1 << layer->stages));
}

/* One layer. */
static void hadamrnn_read_layer(hadamrnn_reader *reader, const hadamrnn_model *model, hadamrnn_layer *layer)
{
    layer->units = hadamrnn_take16(reader, 1u, HADAMRNN_MAX_UNITS);
    layer->inputs = hadamrnn_take16(reader, 1u, HADAMRNN_MAX_UNITS);
    layer->block = hadamrnn_take16(reader, 1u, HADAMRNN_MAX_UNITS);
    layer->in_place = hadamrnn_take8(reader, 0u, 14u);
    layer->state_shift = hadamrnn_take8(reader, 0u, HADAMRNN_MAX_SHIFT);
    layer->input_shift = hadamrnn_take_shift(reader);
    layer->bias_shift = hadamrnn_take8(reader, 0u, HADAMRNN_MAX_SHIFT);
    layer->multiplier = hadamrnn_take16(reader, 1u, UINT16_MAX);
    layer->round_shift = hadamrnn_take8(reader, 0u, 54u);
    layer->leak = hadamrnn_take8(reader, 0u, HADAMRNN_MAX_LEAK);
    layer->leak_bytes = hadamrnn_take8(reader, 0u, HADAMRNN_GROUP);
    layer->output_bits = hadamrnn_take8(reader, 2u, 16u);
    layer->gain_shift = hadamrnn_take8(reader, 0u, HADAMRNN_MAX_SHIFT);
    layer->offset_shift = hadamrnn_take8(reader, 0u, HADAMRNN_MAX_SHIFT);
    layer->has_skip = hadamrnn_take8(reader, 0u, 1u);
    layer->skip_shift = hadamrnn_take_shift(reader);
    if (reader->is_good) {
        hadamrnn_require(reader, (layer->units % layer->block) == 0u);
        hadamrnn_read_transform(reader, layer);
    }
    const uint32_t groups = hadamrnn_groups_of(layer->units);
    const uint32_t rows = groups * HADAMRNN_GROUP;
    const uint32_t numbers = (uint32_t)layer->units * model->value_bytes;
    layer->signs = hadamrnn_take_array(reader, groups);
    layer->weight = hadamrnn_take_array(reader, (uint64_t)groups * layer->inputs * model->code_bits);
    layer->bias = hadamrnn_take_array(reader, (uint64_t)rows * model->value_bytes);
    layer->leaks = hadamrnn_take_array(reader, (layer->leak_bytes == 1u) ? groups : rows);
    layer->gain = hadamrnn_take_array(reader, numbers);
    layer->offset = hadamrnn_take_array(reader, numbers);
    hadamrnn_require(reader, layer->signs != NULL);
    hadamrnn_require(reader, (layer->leaks == NULL) || (layer->leak_bytes == 1u) || (layer->leak_bytes == 8u));
    hadamrnn_require(reader, (layer->gain == NULL) == (layer->offset == NULL));
    const uint8_t outer = (layer->stages > 2u) ? (uint8_t)(layer->stages - 2u) : 0u;
    hadamrnn_require(reader, (layer->in_place <= outer) && ((layer->in_place & 1u) == 0u));
    hadamrnn_require(reader, (layer->in_place == 0u) || (layer->factors[0].order == 0u));
    hadamrnn_require(reader, (model->activation_bits + layer->in_place) <= 16u);
    hadamrnn_require(reader, (layer->multiplier == 1u) ? (layer->round_shift <= HADAMRNN_MAX_SHIFT)
                                                       : (layer->round_shift >= 16u));
}

/* The fields of the network. */
static void hadamrnn_read_model(hadamrnn_reader *reader, hadamrnn_model *model)
{
    model->input_kind = hadamrnn_take8(reader, HADAMRNN_DENSE, HADAMRNN_EMBEDDED);
    model->input_bits = hadamrnn_take8(reader, 2u, 16u);
    model->activation_bits = hadamrnn_take8(reader, 2u, 16u);
    model->code_bits = hadamrnn_take8(reader, 2u, 8u);
    model->is_relu = hadamrnn_take8(reader, 0u, 1u);
    model->num_layers = hadamrnn_take8(reader, 1u, UINT8_MAX);
    model->num_readouts = hadamrnn_take8(reader, 1u, HADAMRNN_READOUTS);
    model->thresholds = hadamrnn_take8(reader, 1u, 64u);
    model->feature_bits = hadamrnn_take8(reader, 0u, 16u);
    model->output_bias_shift = hadamrnn_take8(reader, 0u, HADAMRNN_MAX_SHIFT);
    model->stride = hadamrnn_take16(reader, 1u, UINT16_MAX);
    model->input_size = hadamrnn_take16(reader, 1u, HADAMRNN_MAX_UNITS);
    model->output_size = hadamrnn_take16(reader, 1u, HADAMRNN_MAX_UNITS);
    model->longest = hadamrnn_take16(reader, 0u, UINT16_MAX);
    model->vocabulary = hadamrnn_take(reader, 4u);
    for (uint8_t r = 0; r < HADAMRNN_READOUTS; r++) {
        model->readouts[r] = hadamrnn_take8(reader, HADAMRNN_LAST, HADAMRNN_MAX);
    }
    for (uint8_t r = 0; r < HADAMRNN_READOUTS; r++) {
        model->multipliers[r] = hadamrnn_take16(reader, 0u, UINT16_MAX);
    }
    model->value_bytes = (model->activation_bits <= 8u) ? 1u : 2u;
    model->embedding_bytes = (model->input_bits <= 8u) ? 1u : 2u;
    uint8_t seen = 0;
    for (uint8_t r = 0; (r < model->num_readouts) && reader->is_good; r++) {
        const uint8_t bit = (uint8_t)(1u << (model->readouts[r] & 7u));
        hadamrnn_require(reader, (seen & bit) == 0u);
        seen |= bit;
    }
}

/* The arrays of the network, once its layers are known; their sizes follow from these. */
static void hadamrnn_read_arrays(hadamrnn_reader *reader, hadamrnn_model *model)
{
    const uint32_t rows = HADAMRNN_GROUP * hadamrnn_groups_of(model->layers[model->num_layers - 1u].units);
    const uint32_t channels = model->input_size;
    uint32_t features = 0;
    for (uint8_t r = 0; r < model->num_readouts; r++) {
        const bool counted = (model->readouts[r] == HADAMRNN_MEAN) || (model->readouts[r] == HADAMRNN_POSITIVE);
        features += counted ? (rows * model->thresholds) : rows;
    }
    const uint32_t pitch = (features / HADAMRNN_GROUP) * model->code_bits;
    model->output_weight = hadamrnn_take_array(reader, (uint64_t)pitch * model->output_size);
    model->output_bias = hadamrnn_take_array(reader, (uint64_t)model->output_size * model->value_bytes);
    model->theta = hadamrnn_take_array(reader, (uint64_t)rows * model->thresholds * model->value_bytes);
    model->feature_shift = hadamrnn_take_array(reader, features);
    model->embedding = hadamrnn_take_array(reader, (uint64_t)model->vocabulary * channels * model->embedding_bytes);
    model->raw_offset = hadamrnn_take_array(reader, 4u * (uint64_t)channels);
    model->raw_multiplier = hadamrnn_take_array(reader, 4u * (uint64_t)channels);
    model->raw_shift = hadamrnn_take_array(reader, channels);
    model->raw_knee = hadamrnn_take_array(reader, channels);
    model->value_multiplier = hadamrnn_take_array(reader, 4u * (uint64_t)model->output_size);
    model->value_shift = hadamrnn_take_array(reader, model->output_size);
    model->value_offset = hadamrnn_take_array(reader, 4u * (uint64_t)model->output_size);
    hadamrnn_require(reader, (model->value_multiplier == NULL) == (model->value_shift == NULL));
    hadamrnn_require(reader, (model->value_multiplier == NULL) == (model->value_offset == NULL));
    hadamrnn_require(reader, (features <= UINT16_MAX) && (pitch <= UINT16_MAX) && (model->output_weight != NULL));
    hadamrnn_require(reader, (model->raw_offset == NULL) == (model->raw_multiplier == NULL));
    hadamrnn_require(reader, (model->raw_offset == NULL) == (model->raw_shift == NULL));
    hadamrnn_require(reader, (model->input_kind == HADAMRNN_DENSE) == (model->vocabulary == 0u));
    hadamrnn_require(reader, (model->input_kind != HADAMRNN_ONE_HOT) || (model->vocabulary == channels));
    hadamrnn_require(reader, (model->input_kind == HADAMRNN_EMBEDDED) == (model->embedding != NULL));
}

/* ---- Proving. */

/* No row of a step overflows. */
static bool hadamrnn_check_rows(const hadamrnn_model *model, const hadamrnn_layer *layer, bool is_one_hot, uint8_t input_bits)
{
    const uint32_t groups = hadamrnn_groups_of(layer->units);
    const uint32_t columns = (layer->weight == NULL) ? 0u : layer->inputs;
    const int64_t state = (int64_t)layer->block << (model->activation_bits - 1u + layer->state_shift);
    const int64_t half = (layer->input_shift < 0) ? ((INT64_C(1) << -layer->input_shift) >> 1) : 0;
    int64_t largest = 0;
    bool fits = true;
    for (uint32_t row = 0; row < (groups * HADAMRNN_GROUP); row++) {
        const uint32_t g = row / HADAMRNN_GROUP;
        const uint8_t i = (uint8_t)(row % HADAMRNN_GROUP);
        const uint8_t k = hadamrnn_leak_of(layer, row);
        int64_t product = 0;
        for (uint32_t j = 0; j < columns; j++) {
            const uint32_t group = is_one_hot ? ((j * groups) + g) : ((g * columns) + j);
            const int64_t code = hadamrnn_magnitude(
                hadamrnn_code(layer->weight + ((size_t)group * model->code_bits), model->code_bits, i));
            product = is_one_hot ? ((code > product) ? code : product) : (product + (code << (input_bits - 1u)));
        }
        fits = fits && ((product + half) < HADAMRNN_LIMIT) && (k <= HADAMRNN_MAX_LEAK);
        if (fits) {
            int64_t sum = state + ((INT64_C(1) << k) >> 1) + hadamrnn_shifted_bound(product, layer->input_shift);
            if (layer->bias != NULL) {
                sum += hadamrnn_magnitude(hadamrnn_value(layer->bias, model->value_bytes, (uint_fast16_t)row))
                       << layer->bias_shift;
            }
            largest = (sum > largest) ? sum : largest;
        }
    }
    return fits && (largest < HADAMRNN_LIMIT);
}

/* No code for the layer above overflows, nor a sum of `stride` of them. */
static bool hadamrnn_check_output(const hadamrnn_model *model, const hadamrnn_layer *layer, uint8_t input_bits)
{
    const int64_t half = (INT64_C(1) << layer->gain_shift) >> 1;
    const int64_t code = INT64_C(1) << (input_bits - 1u);
    bool fits = (layer->output_bits + hadamrnn_grown_bits(model->stride)) <= 16u;
    for (uint16_t i = 0; (layer->gain != NULL) && (i < layer->units); i++) {
        const int64_t gain = hadamrnn_magnitude(hadamrnn_value(layer->gain, model->value_bytes, i));
        const int64_t offset = hadamrnn_magnitude(hadamrnn_value(layer->offset, model->value_bytes, i));
        const int64_t sum = (gain << (model->activation_bits - 1u)) + (offset << layer->offset_shift) + half;
        fits = fits && (sum < HADAMRNN_LIMIT);
    }
    if (layer->has_skip != 0u) {
        const int64_t skipped = hadamrnn_shifted_bound(code, layer->skip_shift);
        fits = fits && (layer->inputs == layer->units) && ((skipped + (INT64_C(1) << 15)) < HADAMRNN_LIMIT);
        fits = fits && ((layer != model->layers) || (model->input_kind == HADAMRNN_DENSE));
        fits = fits && ((layer->skip_shift >= 0) || ((code + (INT64_C(1) << -layer->skip_shift)) < HADAMRNN_LIMIT));
    }
    return fits;
}

/* The largest value of a read-out before its rate; `at` counts over rows of thresholds and units. */
static int64_t hadamrnn_largest_value(const hadamrnn_model *model, uint8_t readout, uint32_t at)
{
    const int64_t top = (INT64_C(1) << (model->activation_bits - 1u)) - 1;
    int64_t value = top;
    if (readout == HADAMRNN_POSITIVE) {
        value = 1;
    } else if (readout == HADAMRNN_MAX) {
        value = top + 1;
    } else if ((readout == HADAMRNN_MEAN) && (model->theta != NULL)) {
        value = top - hadamrnn_value(model->theta, model->value_bytes, (uint_fast16_t)at);
        value = (value < 0) ? 0 : value;
    } else {
        /* The largest state. */
    }
    return value;
}

/* No logit overflows. */
static bool hadamrnn_check_logit(const hadamrnn_model *model, uint16_t output)
{
    uint32_t features = 0;
    for (uint8_t r = 0; r < model->num_readouts; r++) {
        features += HADAMRNN_GROUP * (uint32_t)hadamrnn_feature_groups(model, model->readouts[r]);
    }
    const uint8_t *v = model->output_weight + ((size_t)output * (features / HADAMRNN_GROUP) * model->code_bits);
    int64_t sum = 0;
    uint32_t feature = 0;
    bool fits = true;
    if (model->output_bias != NULL) {
        const int32_t bias = hadamrnn_value(model->output_bias, model->value_bytes, output);
        sum = hadamrnn_magnitude(bias) << model->output_bias_shift;
    }
    for (uint8_t r = 0; r < model->num_readouts; r++) {
        const uint8_t readout = model->readouts[r];
        const uint32_t count = HADAMRNN_GROUP * (uint32_t)hadamrnn_feature_groups(model, readout);
        for (uint32_t at = 0; at < count; at++) {
            int64_t code = hadamrnn_largest_value(model, readout, at);
            if (model->feature_shift != NULL) {
                const uint8_t shift = hadamrnn_byte(model->feature_shift + feature);
                const int64_t most = INT64_C(1) << (model->feature_bits - 1u);
                fits = fits && (shift >= 1u) && (shift <= 62u);
                if (fits) {
                    const int64_t rate = (int64_t)model->multipliers[r] << 15;
                    code = ((code * rate) + (INT64_C(1) << (shift - 1u))) >> shift;
                }
                code = (code > most) ? most : code;
            }
            const uint8_t i = (uint8_t)(feature % HADAMRNN_GROUP);
            sum += code * hadamrnn_magnitude(hadamrnn_code(v, model->code_bits, i));
            v += (i == 7u) ? model->code_bits : 0u;
            feature++;
        }
    }
    return fits && (sum < HADAMRNN_LIMIT);
}

/* The read-out: thresholds, sums over the longest sequence, and every logit. */
static bool hadamrnn_check_readout(const hadamrnn_model *model)
{
    const uint32_t rows = HADAMRNN_GROUP * hadamrnn_groups_of(model->layers[model->num_layers - 1u].units);
    const int32_t high = (INT32_C(1) << (model->activation_bits - 1u)) - 1;
    bool fits = true;
    for (uint32_t i = 0; (model->theta != NULL) && (i < (rows * model->thresholds)); i++) {
        const int32_t theta = hadamrnn_value(model->theta, model->value_bytes, (uint_fast16_t)i);
        fits = fits && (theta <= high) && (theta >= (-high - 1));
    }
    if (model->pool_wide != 0u) {
        fits = fits && (model->longest != 0u) &&
               (((int64_t)model->longest << model->activation_bits) < HADAMRNN_LIMIT);
    }
    if (model->feature_shift == NULL) {
        fits = fits && (model->num_readouts == 1u) && (model->readouts[0] == HADAMRNN_LAST);
    } else {
        fits = fits && (model->feature_bits >= 2u);
    }
    for (uint16_t k = 0; fits && (k < model->output_size); k++) {
        const uint8_t shift = (model->value_shift == NULL) ? 1u : hadamrnn_byte(model->value_shift + k);
        fits = hadamrnn_check_logit(model, k) && (shift >= 1u) && (shift <= 62u);
    }
    return fits;
}

/* Raw codes and embeddings. */
static bool hadamrnn_check_input(const hadamrnn_model *model)
{
    const int32_t high = (INT32_C(1) << (model->input_bits - 1u)) - 1;
    bool fits = true;
    for (uint16_t j = 0; (model->raw_offset != NULL) && (j < model->input_size); j++) {
        const int32_t multiplier = hadamrnn_long(model->raw_multiplier + (4u * (size_t)j));
        fits = fits && (multiplier >= -0xFFFF) && (multiplier <= 0xFFFF) && (hadamrnn_byte(model->raw_shift + j) <= 46u);
        fits = fits && ((model->raw_knee == NULL) || (hadamrnn_byte(model->raw_knee + j) <= 30u));
    }
    for (uint32_t id = 0; (model->embedding != NULL) && (id < model->vocabulary); id++) {
        const uint8_t *const row = model->embedding + ((size_t)id * model->input_size * model->embedding_bytes);
        for (uint16_t j = 0; j < model->input_size; j++) {
            const int32_t code = hadamrnn_value(row, model->embedding_bytes, j);
            fits = fits && (code <= high) && (code >= (-high - 1));
        }
    }
    return fits;
}

/* ---- Opening. */

/* Where everything lies in the memory of a stream: pools, states, sums between layers, phases. */
static void hadamrnn_lay_out(hadamrnn_model *model, hadamrnn_layer *layers)
{
    const uint32_t top = HADAMRNN_GROUP * hadamrnn_groups_of(layers[model->num_layers - 1u].units);
    const bool is_strided = model->stride > 1u;
    uint32_t codes = (model->input_kind == HADAMRNN_ONE_HOT) ? 1u : model->input_size;
    uint32_t work = 0;
    for (uint8_t r = 0; r < model->num_readouts; r++) {
        const uint8_t readout = model->readouts[r];
        const bool counted = (readout == HADAMRNN_MEAN) || (readout == HADAMRNN_POSITIVE);
        model->counts = (readout == HADAMRNN_MEAN) ? (top * model->thresholds) : model->counts;
        model->pool_wide += counted ? (top * model->thresholds) : 0u;
        model->pool_narrow += (readout == HADAMRNN_MAX) ? top : 0u;
    }
    model->narrow_cells = model->pool_narrow;
    for (uint8_t l = 0; l < model->num_layers; l++) {
        hadamrnn_layer *const layer = &layers[l];
        const uint32_t rows = HADAMRNN_GROUP * hadamrnn_groups_of(layer->units);
        const uint32_t buffered = (layer->stages > 2u) ? (layer->stages - 2u - layer->in_place) : 0u;
        const bool is_last = (l + 1u) == model->num_layers;
        const bool has_factors = layer->factors[0].order != 0u;
        uint32_t needed = has_factors ? rows : ((buffered == 0u) ? 0u : ((uint32_t)4 << buffered));
        layer->cells = model->narrow_cells;
        model->narrow_cells += rows;
        layer->sums = model->narrow_cells;
        model->narrow_cells += (is_strided && !is_last) ? rows : 0u;
        for (uint8_t f = 0; f < HADAMRNN_FACTORS; f++) {
            const uint32_t taken = has_factors ? (rows + (2u * (uint32_t)layer->factors[f].order)) : 0u;
            needed = (taken > needed) ? taken : needed;
        }
        work = (needed > work) ? needed : work;
        codes = (!is_strided && !is_last && (rows > codes)) ? rows : codes;
    }
    model->phases = model->narrow_cells;
    model->narrow_cells += is_strided ? (model->num_layers - 1u) : 0u;
    model->work_cells = work;
    model->code_cells = codes;
}

/* Read the layers, and check that each reads what the one below gives. */
static void hadamrnn_read_layers(hadamrnn_reader *reader, hadamrnn_network *network)
{
    const hadamrnn_model *const model = &network->model;
    uint16_t inputs = model->input_size;
    uint32_t input_bits = model->input_bits;
    for (uint8_t l = 0; (l < model->num_layers) && reader->is_good; l++) {
        hadamrnn_layer *const layer = &network->layers[l];
        const bool is_one_hot = (l == 0u) && (model->input_kind == HADAMRNN_ONE_HOT);
        hadamrnn_read_layer(reader, model, layer);
        hadamrnn_require(reader, (layer->inputs == inputs) && (input_bits <= 16u));
        if (reader->is_good) {
            hadamrnn_require(reader, hadamrnn_check_rows(model, layer, is_one_hot, (uint8_t)input_bits));
            if ((l + 1u) < model->num_layers) {
                hadamrnn_require(reader, hadamrnn_check_output(model, layer, (uint8_t)input_bits));
            }
        }
        inputs = layer->units;
        input_bits = (uint32_t)layer->output_bits + hadamrnn_grown_bits(model->stride);
    }
}

static uint32_t hadamrnn_crc32(const uint8_t *p, uint32_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < size; i++) {
        crc ^= hadamrnn_byte(p + i);
        for (uint8_t bit = 0; bit < 8u; bit++) {
            crc = (crc >> 1) ^ (((crc & 1u) != 0u) ? 0xEDB88320u : 0u);
        }
    }
    return ~crc;
}

uint8_t hadamrnn_open(const uint8_t *blob, uint32_t size, hadamrnn_network *network)
{
    hadamrnn_reader reader = {blob, size, HADAMRNN_HEADER, true};
    hadamrnn_model *const model = &network->model;
    (void)memset(network, 0, sizeof *network);
    if ((size < HADAMRNN_HEADER) || (((uintptr_t)blob & 3u) != 0u) || (hadamrnn_number(blob, 4u) != 0x4E4E5248u)) {
        return HADAMRNN_NOT_A_BLOB;
    }
    if (hadamrnn_number(blob + 4, 2u) != HADAMRNN_BLOB_VERSION) {
        return HADAMRNN_OTHER_VERSION;
    }
    if ((hadamrnn_number(blob + 8, 4u) != size) ||
        (hadamrnn_number(blob + 12, 4u) != hadamrnn_crc32(blob + HADAMRNN_HEADER, size - HADAMRNN_HEADER))) {
        return HADAMRNN_DAMAGED;
    }
    hadamrnn_read_model(&reader, model);
    if (reader.is_good && (model->num_layers > HADAMRNN_LAYERS)) {
        return HADAMRNN_TOO_MANY_LAYERS;
    }
    model->layers = network->layers;
    hadamrnn_read_layers(&reader, network);
    if (reader.is_good) {
        hadamrnn_read_arrays(&reader, model);
    }
    if (reader.is_good) {
        hadamrnn_lay_out(model, network->layers);
        hadamrnn_require(&reader, hadamrnn_check_readout(model) && hadamrnn_check_input(model));
    }
    return reader.is_good ? HADAMRNN_OK : HADAMRNN_INCONSISTENT;
}

bool hadamrnn_fits(const hadamrnn_model *model, uint32_t wide, uint32_t narrow, uint32_t work, uint32_t codes)
{
    return (model->pool_wide <= wide) && (model->narrow_cells <= narrow) && (model->work_cells <= work) &&
           (model->code_cells <= codes);
}

/* Memory i of a window: its own, then the slots, which are `pitch` bytes apart. */
static hadamrnn_memory hadamrnn_window_memory(const hadamrnn_memory *own, const hadamrnn_memory *slots, size_t pitch,
                                              uint16_t i)
{
    hadamrnn_memory memory = (i == 0u) ? *own : *slots;
    const size_t slot = (i == 0u) ? 0u : (size_t)i - 1u;
    const size_t distance = slot * pitch;
    memory.counters = (hadamrnn_counters *)(void *)((char *)(void *)memory.counters + distance);
    memory.wide = (hadamrnn_wide *)(void *)((char *)(void *)memory.wide + distance);
    memory.narrow = (hadamrnn_narrow *)(void *)((char *)(void *)memory.narrow + distance);
    return memory;
}

uint8_t hadamrnn_window_push(const hadamrnn_model *model, hadamrnn_window *window, const hadamrnn_memory *own,
                             const hadamrnn_memory *slots, size_t pitch, const int32_t *raw, uint32_t id, int32_t *logits)
{
    const uint16_t states = hadamrnn_window_states(window);
    uint8_t status = HADAMRNN_BAD_WINDOW;
    for (uint16_t i = 0; i < states; i++) {
        const hadamrnn_memory memory = hadamrnn_window_memory(own, slots, pitch, i);
        if (model->input_kind == HADAMRNN_DENSE) {
            const uint16_t clipped = hadamrnn_encode(model, raw, memory.codes);
            window->clipped += (i == 0u) ? clipped : 0u;
            status = hadamrnn_advance_all(model, &memory, 0u);
        } else {
            status = hadamrnn_step_id(model, &memory, id);
        }
    }
    if ((status == HADAMRNN_OK) && hadamrnn_window_hop_ends(window)) {
        const hadamrnn_memory due = hadamrnn_window_memory(own, slots, pitch, hadamrnn_window_turn(window));
        if (hadamrnn_window_is_whole(window)) {
            const hadamrnn_view view = {due.counters, due.wide, due.narrow};
            hadamrnn_logits(model, &view, logits);
            status = HADAMRNN_READY;
        }
        hadamrnn_window_restart(model, window, &due);
    }
    return status;
}
