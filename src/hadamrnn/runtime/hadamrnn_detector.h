/* hadamrnn_detector.h: the smoothed distance of samples from the network's predictions, in integers.
 *
 * The network's logits after a step predict the codes x of the next sample; those of the zero state predict the first.
 * `round` has ties towards +infinity:
 *
 *     r    = x - saturate16(round(logit multiplier / 2^prediction_shift))
 *     z[i] = saturate13(round(sum_(j <= i) whitening[i, j] r[j] / 2^shift[i]))
 *     sum  = sum - floor(sum / 2^smoothing) + sum_i z[i]^2        the squares of the first `warmup` samples count as 0
 *     level = floor(sum / 2^smoothing), an alarm if it is above the threshold
 *
 * With at most 32 channels and a smoothing of at most 15, |logit multiplier| is below 2^62, |r| below 2^17, a sum over
 * channels below 2^37, the sum of squares at most 2^29, and `sum` below 2^45.
 *
 * The caller owns all memory. No heap, no floating point, no division. Start reading at hadamrnn_detect.
 */
#ifndef HADAMRNN_DETECTOR_H
#define HADAMRNN_DETECTOR_H

#include "hadamrnn.h"

typedef struct {
    const uint8_t *whitening; /* rows of the lower triangle, 2 bytes per number */
    const uint8_t *shift; /* for each row, 1 to 62 */
    int32_t multiplier; /* not negative */
    uint8_t prediction_shift; /* 1 to 62 */
    uint8_t channels;
    uint8_t smoothing;
    int32_t threshold;
    uint16_t warmup; /* samples of a new stream */
} hadamrnn_detection;

/* The detector's state for a stream, in addition to the network's. */
typedef struct {
    uint64_t sum;
    uint16_t waiting; /* remaining samples of the warm-up */
} hadamrnn_smoothing;

#endif

#if defined(HADAMRNN_SPECIALISED) && !defined(HADAMRNN_DETECTOR_CODE)
#define HADAMRNN_DETECTOR_CODE

/* value / 2^shift, rounded and saturated to `bits` bits. */
HADAMRNN_INLINE int32_t hadamrnn_rounded_to(int64_t value, uint_fast8_t shift, uint_fast8_t bits)
{
    const int64_t rounded = (value + (INT64_C(1) << (shift - 1u))) >> shift;
    const int32_t high = (INT32_C(1) << (bits - 1u)) - 1;
    return (rounded > high) ? high : (rounded < (-high - 1)) ? (-high - 1) : (int32_t)rounded;
}

/* The squared distance of the codes x from their prediction by `logits`, in units of 2^-16; residuals replace the logits. */
HADAMRNN_INLINE uint32_t hadamrnn_distance(const hadamrnn_detection *detection, const int16_t *x, int32_t *logits)
{
    const uint8_t *row = detection->whitening;
    uint32_t distance = 0;
    for (uint_fast8_t i = 0; i < detection->channels; i++) {
        int64_t sum = 0;
        logits[i] = x[i] - hadamrnn_rounded_to((int64_t)logits[i] * detection->multiplier, detection->prediction_shift, 16u);
        for (uint_fast8_t j = 0; j <= i; j++) {
            sum += (int64_t)hadamrnn_word(row) * logits[j];
            row += 2;
        }
        const int32_t z = hadamrnn_rounded_to(sum, hadamrnn_byte(detection->shift + i), 13u);
        distance += (uint32_t)(z * z);
    }
    return distance;
}

/* The level after the last sample. */
HADAMRNN_INLINE int32_t hadamrnn_level(const hadamrnn_detection *detection, const hadamrnn_smoothing *stream)
{
    return (int32_t)(stream->sum >> detection->smoothing);
}

/* Add a sample to the smoothing sum; return whether the level raises an alarm. */
HADAMRNN_INLINE bool hadamrnn_detect(const hadamrnn_detection *detection, hadamrnn_smoothing *stream, const int16_t *x,
                                     int32_t *logits)
{
    stream->sum -= stream->sum >> detection->smoothing;
    if (stream->waiting > 0u) {
        stream->waiting--;
    } else {
        stream->sum += hadamrnn_distance(detection, x, logits);
    }
    return hadamrnn_level(detection, stream) > detection->threshold;
}
#endif
