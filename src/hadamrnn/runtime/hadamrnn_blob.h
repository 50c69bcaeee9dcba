/* hadamrnn_blob.h: reads a network from a blob, for hadamrnn_shared.c and for the native library of Python.
 *
 * A blob has little-endian numbers: "HRNN", format version (2 bytes), zeros (2), size of the blob (4), CRC-32 of the rest
 * (4); the numbers of the network, its read-outs; for every layer its numbers, factors and arrays; the arrays of the
 * network, in the order of the lists of hadamrnn_model.h; and the content of the arrays. The field of an array is its offset
 * in the blob, a multiple of 4, or 0 if there is none. Values that follow from other fields are computed here.
 *
 * Sizes and ranges are checked as they are read, so that later loops stay within the blob. Include hadamrnn.h with its
 * functions before this file. Start reading at hadamrnn_read.
 */
#ifndef HADAMRNN_BLOB_H
#define HADAMRNN_BLOB_H

#define HADAMRNN_HEADER 16u
#define HADAMRNN_MAX_UNITS 32768
#define HADAMRNN_MAX_LEAK 15
#define HADAMRNN_MAX_SHIFT 30
#ifndef HADAMRNN_LANES_H
#define HADAMRNN_MAX_CODE_BITS 8u
#define HADAMRNN_SHORT_BYTES 1u /* for numbers of at most 8 bits; others take HADAMRNN_VALUE_BYTES */
#endif

typedef struct {
    const uint8_t *blob;
    uint32_t size;
    uint32_t at; /* offset of the next field */
    bool is_good; /* no error so far */
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
static uint32_t hadamrnn_next(hadamrnn_reader *reader, uint8_t bytes)
{
    uint32_t number = 0;
    hadamrnn_require(reader, (reader->size - reader->at) >= bytes);
    if (reader->is_good) {
        number = hadamrnn_number(reader->blob + reader->at, bytes);
        reader->at += bytes;
    }
    return number;
}

/* The next field, a number within low..high, of one byte if it may be negative. */
HADAMRNN_ONE_COPY int32_t hadamrnn_take(hadamrnn_reader *reader, uint8_t bytes, int32_t low, int32_t high)
{
    const uint32_t number = hadamrnn_next(reader, bytes);
    const int32_t value = (low < 0) ? (int32_t)(int8_t)number : (int32_t)number;
    hadamrnn_require(reader, (value >= low) && (value <= high));
    return value;
}

/* The next field, the offset of an array of this many bytes; NULL if there is none. */
static const uint8_t *hadamrnn_take_array(hadamrnn_reader *reader, uint64_t bytes)
{
    const uint32_t place = hadamrnn_next(reader, 4u);
    const bool fits = ((place & 3u) == 0u) && (place <= reader->size) && (bytes <= (reader->size - place));
    hadamrnn_require(reader, (place == 0u) || fits);
    return (reader->is_good && (place != 0u)) ? (reader->blob + place) : NULL;
}

/* Extra bits that a sum of `stride` codes takes, compared with one code. */
static uint8_t hadamrnn_grown_bits(uint16_t stride)
{
    uint8_t bits = 0;
    while (((uint32_t)1 << bits) < stride) {
        bits++;
    }
    return bits;
}

/* The factors of a block, and its stages. */
static void hadamrnn_read_transform(hadamrnn_reader *reader, hadamrnn_layer *layer)
{
    uint32_t left = layer->block;
    uint8_t last = 0; /* 1 after the last factor */
    for (uint8_t f = 0; f < HADAMRNN_FACTORS; f++) {
        hadamrnn_factor *const factor = &layer->factors[f];
        factor->order = (uint16_t)hadamrnn_take(reader, 2u, 0, UINT16_MAX);
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

/* Read the fields of a list of hadamrnn_model.h into the struct `to`. */
#define HADAMRNN_TAKE_NUMBER(type, name, low, high) \
    to->name = (type)hadamrnn_take(reader, sizeof(type), (int32_t)(low), (int32_t)(high));
#define HADAMRNN_TAKE_ARRAY(name, bytes) to->name = hadamrnn_take_array(reader, (bytes));

/* Read and check one layer. */
static void hadamrnn_read_layer(hadamrnn_reader *reader, const hadamrnn_model *model, hadamrnn_layer *layer)
{
    hadamrnn_layer *const to = layer;
    HADAMRNN_LAYER_NUMBERS(HADAMRNN_TAKE_NUMBER)
    if (reader->is_good) {
        hadamrnn_require(reader, (layer->units % layer->block) == 0u);
        hadamrnn_read_transform(reader, layer);
    }
    const uint64_t groups = hadamrnn_groups(layer->units);
    const uint64_t rows = groups * HADAMRNN_GROUP;
    HADAMRNN_LAYER_ARRAYS(HADAMRNN_TAKE_ARRAY)
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
    hadamrnn_model *const to = model;
    HADAMRNN_MODEL_NUMBERS(HADAMRNN_TAKE_NUMBER)
    for (uint8_t r = 0; r < HADAMRNN_READOUTS; r++) {
        model->readouts[r] = (uint8_t)hadamrnn_take(reader, 1u, (int32_t)HADAMRNN_LAST, (int32_t)HADAMRNN_MAX);
    }
    for (uint8_t r = 0; r < HADAMRNN_READOUTS; r++) {
        model->multipliers[r] = (uint16_t)hadamrnn_take(reader, 2u, 0, UINT16_MAX);
    }
    model->value_bytes = (model->activation_bits <= 8u) ? HADAMRNN_SHORT_BYTES : HADAMRNN_VALUE_BYTES;
    model->embedding_bytes = (model->input_bits <= 8u) ? 1u : 2u;
    uint8_t seen = 0;
    for (uint8_t r = 0; (r < model->num_readouts) && reader->is_good; r++) {
        const uint8_t bit = (uint8_t)(1u << (model->readouts[r] & 7u));
        hadamrnn_require(reader, (seen & bit) == 0u);
        seen |= bit;
    }
}

/* The arrays of the network, whose sizes follow from its layers. */
static void hadamrnn_read_arrays(hadamrnn_reader *reader, hadamrnn_model *model)
{
    hadamrnn_model *const to = model;
    const uint64_t rows = (uint64_t)HADAMRNN_GROUP * hadamrnn_groups(hadamrnn_top(model)->units);
    const uint64_t channels = model->input_size;
    const uint64_t outputs = model->output_size;
    const uint64_t pitch = hadamrnn_pitch(model);
    const uint64_t features = HADAMRNN_GROUP * (pitch / model->code_bits);
    HADAMRNN_MODEL_ARRAYS(HADAMRNN_TAKE_ARRAY)
    hadamrnn_require(reader, (model->value_multiplier == NULL) == (model->value_shift == NULL));
    hadamrnn_require(reader, (model->value_multiplier == NULL) == (model->value_offset == NULL));
    hadamrnn_require(reader, ((uint_fast16_t)features == features) && ((size_t)pitch == pitch));
    hadamrnn_require(reader, model->output_weight != NULL);
    hadamrnn_require(reader, (model->raw_offset == NULL) == (model->raw_multiplier == NULL));
    hadamrnn_require(reader, (model->raw_offset == NULL) == (model->raw_shift == NULL));
    hadamrnn_require(reader, (model->input_kind == HADAMRNN_DENSE) == (model->vocabulary == 0u));
    hadamrnn_require(reader, (model->input_kind != HADAMRNN_ONE_HOT) || (model->vocabulary == channels));
    hadamrnn_require(reader, (model->input_kind == HADAMRNN_EMBEDDED) == (model->embedding != NULL));
}

/* The layout of a stream's memory: pools, states, sums between layers, phases. */
static void hadamrnn_lay_out(hadamrnn_model *model, hadamrnn_layer *layers)
{
    const bool is_strided = model->stride > 1u;
    uint32_t codes = (model->input_kind == HADAMRNN_ONE_HOT) ? 1u : model->input_size;
    uint32_t work = 0;
    for (uint8_t r = 0; r < model->num_readouts; r++) {
        const uint8_t readout = model->readouts[r];
        const uint32_t features = HADAMRNN_GROUP * hadamrnn_feature_groups(model, readout);
        model->counts = (readout == HADAMRNN_MEAN) ? features : model->counts;
        model->pool_wide += hadamrnn_is_counted(readout) ? features : 0u;
        model->pool_narrow += (readout == HADAMRNN_MAX) ? features : 0u;
    }
    model->narrow_cells = model->pool_narrow;
    for (uint8_t l = 0; l < model->num_layers; l++) {
        hadamrnn_layer *const layer = &layers[l];
        const uint32_t rows = (uint32_t)HADAMRNN_GROUP * hadamrnn_groups(layer->units);
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

/* Read the network into `model` and `layers`, which has room for `most`. The result is valid only if reader->is_good. */
static void hadamrnn_read(hadamrnn_reader *reader, hadamrnn_model *model, hadamrnn_layer *layers, uint8_t most)
{
    hadamrnn_read_model(reader, model);
    hadamrnn_require(reader, model->num_layers <= most);
    model->layers = layers;
    uint32_t inputs = model->input_size;
    uint32_t input_bits = model->input_bits;
    for (uint8_t l = 0; (l < model->num_layers) && reader->is_good; l++) {
        hadamrnn_read_layer(reader, model, &layers[l]);
        hadamrnn_require(reader, (layers[l].inputs == inputs) && (input_bits <= 16u));
        inputs = layers[l].units;
        input_bits = (uint32_t)layers[l].output_bits + hadamrnn_grown_bits(model->stride);
    }
    if (reader->is_good) {
        hadamrnn_read_arrays(reader, model);
        hadamrnn_lay_out(model, layers);
    }
}

#endif
