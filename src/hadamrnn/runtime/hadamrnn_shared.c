/* hadamrnn_shared.c: the functions of hadamrnn_shared.h.
 *
 * The bounds are those of fixedpoint/overflow.py in the Python library, which explains them: for every sum, the magnitudes
 * of its terms add up to less than 2^31. Start reading at hadamrnn_open.
 */
#include "hadamrnn_shared.h"

#define HADAMRNN_SHARED
#include "hadamrnn_window.h"
#include "hadamrnn_blob.h"

#define HADAMRNN_LIMIT (INT64_C(1) << 31)

/* ---- Proof that no sum can overflow. */

static int64_t hadamrnn_magnitude(int32_t value)
{
    return (value < 0) ? -(int64_t)value : (int64_t)value;
}

/* The largest |shift(x, shift)| if |x| <= bound. */
static int64_t hadamrnn_shifted_bound(int64_t bound, int8_t shift)
{
    return (shift >= 0) ? (bound * (INT64_C(1) << shift)) : ((bound + ((INT64_C(1) << -shift) >> 1)) >> -shift);
}

/* The leak k of a row. */
static uint8_t hadamrnn_leak_of(const hadamrnn_layer *layer, uint32_t row)
{
    const uint32_t at = (layer->leak_bytes == 1u) ? (row / HADAMRNN_GROUP) : row;
    return (layer->leaks == NULL) ? layer->leak : hadamrnn_byte(layer->leaks + at);
}

/* Return whether no row of a step can overflow. */
static bool hadamrnn_check_rows(const hadamrnn_model *model, const hadamrnn_layer *layer, bool is_one_hot, uint8_t input_bits)
{
    const uint32_t groups = hadamrnn_groups(layer->units);
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

/* Return whether no code for the next layer, and no sum of `stride` of them, can overflow. */
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

/* Return whether no layer can overflow. */
static bool hadamrnn_check_layers(const hadamrnn_model *model)
{
    uint8_t input_bits = model->input_bits;
    bool fits = true;
    for (uint8_t l = 0; l < model->num_layers; l++) {
        const hadamrnn_layer *const layer = &model->layers[l];
        const bool is_one_hot = (l == 0u) && (model->input_kind == HADAMRNN_ONE_HOT);
        const bool is_last = (l + 1u) == model->num_layers;
        fits = fits && hadamrnn_check_rows(model, layer, is_one_hot, input_bits);
        fits = fits && (is_last || hadamrnn_check_output(model, layer, input_bits));
        input_bits = (uint8_t)(layer->output_bits + hadamrnn_grown_bits(model->stride));
    }
    return fits;
}

/* The largest value of a read-out before its rate; index `at` runs over rows of thresholds and units. */
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

/* Return whether no logit can overflow. */
static bool hadamrnn_check_logit(const hadamrnn_model *model, uint16_t output)
{
    const uint8_t *v = model->output_weight + ((size_t)output * hadamrnn_pitch(model));
    int64_t sum = 0;
    uint32_t feature = 0;
    bool fits = true;
    if (model->output_bias != NULL) {
        const int32_t bias = hadamrnn_value(model->output_bias, model->value_bytes, output);
        sum = hadamrnn_magnitude(bias) << model->output_bias_shift;
    }
    for (uint8_t r = 0; r < model->num_readouts; r++) {
        const uint8_t readout = model->readouts[r];
        const uint32_t count = HADAMRNN_GROUP * hadamrnn_feature_groups(model, readout);
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
    const uint32_t rows = HADAMRNN_GROUP * (uint32_t)hadamrnn_groups(hadamrnn_top(model)->units);
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
        const int32_t top = (model->value_offset == NULL) ? 0 : hadamrnn_long(model->value_offset + (8u * k) + 4u);
        fits = hadamrnn_check_logit(model, k) && (shift >= 1u) && (shift <= 62u) && (top < HADAMRNN_VALUE_TOP) &&
               (top >= -HADAMRNN_VALUE_TOP);
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
    hadamrnn_read(&reader, model, network->layers, HADAMRNN_LAYERS);
    if (model->num_layers > HADAMRNN_LAYERS) {
        return HADAMRNN_TOO_MANY_LAYERS;
    }
    if (reader.is_good) {
        reader.is_good = hadamrnn_check_layers(model) && hadamrnn_check_readout(model) && hadamrnn_check_input(model);
    }
    return reader.is_good ? HADAMRNN_OK : HADAMRNN_INCONSISTENT;
}

bool hadamrnn_fits(const hadamrnn_model *model, uint32_t wide, uint32_t narrow, uint32_t work, uint32_t codes)
{
    return (model->pool_wide <= wide) && (model->narrow_cells <= narrow) && (model->work_cells <= work) &&
           (model->code_cells <= codes);
}

uint8_t hadamrnn_window_push(const hadamrnn_model *model, hadamrnn_window *window, const hadamrnn_memory *states,
                             const int32_t *raw, uint32_t id, int32_t *logits)
{
    const hadamrnn_memory *const due = &states[window->turn];
    uint8_t status = HADAMRNN_BAD_WINDOW;
    for (uint16_t i = 0; i < window->begun; i++) {
        if (model->input_kind == HADAMRNN_DENSE) {
            const uint16_t clipped = hadamrnn_encode(model, raw, states[i].codes);
            window->clipped += (i == 0u) ? clipped : 0u;
            status = hadamrnn_advance_all(model, &states[i], 0u);
        } else {
            status = hadamrnn_step_id(model, &states[i], id);
        }
    }
    if ((status == HADAMRNN_OK) && hadamrnn_window_hop_ends(window)) {
        if (window->is_ready != 0u) {
            const hadamrnn_view view = {due->counters, due->wide, due->narrow};
            hadamrnn_logits(model, &view, logits);
            status = HADAMRNN_READY;
        }
        hadamrnn_window_restart(model, window, due);
    }
    return status;
}
