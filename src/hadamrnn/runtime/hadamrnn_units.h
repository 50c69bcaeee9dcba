/* hadamrnn_units.h: from the readings of sensors to input codes, and from logits to the values of a regressor.
 *
 * Part of hadamrnn.h, which includes it. Products have 64 bits.
 */
#ifndef HADAMRNN_UNITS_H
#define HADAMRNN_UNITS_H

/* |raw| as octaves, 1 + |raw| / 2^knee, in units of 2^-16 and with the sign of raw; raw itself without a knee. */
HADAMRNN_INLINE int32_t hadamrnn_compress(int32_t raw, uint_fast8_t knee)
{
    int32_t octaves = raw;
    if (knee != 0u) {
        const uint32_t size = (raw < 0) ? (0u - (uint32_t)raw) : (uint32_t)raw;
        const uint32_t above = size + ((uint32_t)1 << knee);
        uint_fast8_t octave = knee;
        while ((above >> octave) > 1u) {
            octave++;
        }
        const uint32_t rest = above - ((uint32_t)1 << octave);
        const uint32_t part = (octave > 16u) ? (rest >> (octave - 16u)) : (rest << (16u - octave));
        const uint32_t whole = (uint32_t)octave - (uint32_t)knee;
        const uint32_t spanned = (whole << 16) + part;
        octaves = (raw < 0) ? -(int32_t)spanned : (int32_t)spanned;
    }
    return octaves;
}

/* Turn raw sensor codes into input codes: x = saturate(round((raw - offset) * multiplier / 2^shift)). Return the number of
 * clipped codes. */
HADAMRNN_API uint16_t hadamrnn_encode(const hadamrnn_model *model, const int32_t *raw, int16_t *x)
{
    uint16_t clipped = 0;
    for (uint_fast16_t j = 0; j < model->input_size; j++) {
        int64_t code = raw[j];
        if (model->raw_offset != NULL) {
            const uint_fast8_t shift = hadamrnn_byte(model->raw_shift + j);
            if (model->raw_knee != NULL) {
                code = hadamrnn_compress(raw[j], hadamrnn_byte(model->raw_knee + j));
            }
            code = (code - hadamrnn_long(model->raw_offset + (4u * j))) * hadamrnn_long(model->raw_multiplier + (4u * j));
            if (shift != 0u) {
                code = ((code >> (shift - 1u)) + 1) >> 1;
            }
        }
        x[j] = (int16_t)hadamrnn_fitted(code, model->input_bits);
        if (x[j] != code) {
            clipped++;
        }
    }
    return clipped;
}

#define HADAMRNN_VALUE_TOP (INT32_C(1) << 20) /* limit on the upper 32 of the 53 bits of a value */

/* The values of a regressor: value = saturate(round(logit multiplier / 2^shift) + offset) for every target, to 53 bits. */
HADAMRNN_API void hadamrnn_values(const hadamrnn_model *model, const int32_t *logits, int64_t *values)
{
    const int64_t limit = HADAMRNN_VALUE_TOP * (INT64_C(1) << 32);
    for (uint_fast16_t k = 0; k < model->output_size; k++) {
        values[k] = logits[k];
        if (model->value_multiplier != NULL) {
            const uint_fast8_t shift = hadamrnn_byte(model->value_shift + k);
            const int64_t product = (int64_t)logits[k] * hadamrnn_long(model->value_multiplier + (4u * k));
            const int64_t rounded = (product + (INT64_C(1) << (shift - 1u))) >> shift;
            const uint8_t *const offset = model->value_offset + (8u * k);
            const int64_t top = hadamrnn_long(offset + 4) * (INT64_C(1) << 32);
            const int64_t value = rounded + top + (uint32_t)hadamrnn_long(offset);
            values[k] = (value >= limit) ? (limit - 1) : ((value < -limit) ? -limit : value);
        }
    }
}

#endif
