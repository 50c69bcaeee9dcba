/* hadamrnn_front_end.h: log energies of frequency bands from int16 samples, in integers.
 *
 * A frame x of `frame` samples every `hop` samples; all integers, `round` with ties towards +infinity, `bits` of the
 * largest v, or -1 - v if v is negative:
 *
 *     y[n] = x[n] - x[n-1] + round(x[n-1] / 32), x[-1] = x[0]       mel
 *     y[n] = x[n] - trunc(sum x / frame)                            bands
 *     z[n] = round(y[n] window[n] / 2^(b + 1)), b = bits of y       |z| is at most 2^14, the scale 2^(b - 14)
 *     Z    = FFT of z[2n] + i z[2n + 1], radix 2, in 16 bits
 *     X[k] = the spectrum of the real frame, from Z[k] and Z[fft_size / 2 - k]
 *     E[j] = sum_k weight[j, k] |X[k]|^2                            below 2^49
 *     code = 64 log2 E[j] + 128 scale - 64 (8 + log2 fft_size), at least 0
 *
 * Each stage of the transform divides its results by 2^max(b - 13, 0), b = bits of the values before it: a stage grows
 * values by 1 + sqrt(2) at most, so |Z| stays below 19780, all sums below 2^31 and |X|^2 below 2^32.
 *
 * The caller owns all memory. No heap, no floating point, no recursion; one division per frame (`bands` only).
 * Start reading at hadamrnn_push_sample.
 */
#ifndef HADAMRNN_FRONT_END_H
#define HADAMRNN_FRONT_END_H

#include "hadamrnn.h"

typedef struct {
    uint16_t frame; /* samples */
    uint16_t hop; /* samples, at most a frame */
    uint8_t log2_size; /* log2 of the transform's points (at least a frame): 6 to 10 */
    uint8_t bands;
    uint8_t is_mel; /* pre-emphasis and triangles; else mean removal and bands side by side */
    uint8_t noise_shift; /* 0: no noise floor is subtracted */
    const uint8_t *window; /* its first half, Q15, 2 bytes each */
    const uint8_t *cosines; /* cos(2 pi t / fft_size), t = 0 .. fft_size / 4, Q14, 2 bytes each */
    const uint8_t *edges; /* the bins where bands begin and the last one ends, 2 bytes each; triangles end an edge later */
    const uint8_t *weights; /* height of the rising triangle in 1/256, a byte for each bin from edge 0 on */
    const uint8_t *log2; /* 1024 log2(1 + i / 32), i = 0 .. 32, 2 bytes each */
} hadamrnn_front_end;

/* The memory of one stream, owned by the caller. */
typedef struct {
    int16_t *samples; /* frame */
    int16_t *work; /* fft_size, used within a call only */
    int32_t *noise; /* bands; NULL without a noise floor */
    uint16_t filled; /* samples of the next frame so far */
    uint16_t frames; /* 0 before the first frame, then 1 */
} hadamrnn_signal;

#endif

#if defined(HADAMRNN_SPECIALISED) && !defined(HADAMRNN_FRONT_END_CODE)
#define HADAMRNN_FRONT_END_CODE

/* v, or -1 - v if v is negative. */
HADAMRNN_INLINE uint32_t hadamrnn_magnitude(int32_t v)
{
    return (uint32_t)(v ^ (v >> 31));
}

HADAMRNN_INLINE uint_fast8_t hadamrnn_bits(uint32_t value)
{
    uint_fast8_t bits = 0u;
    while (value != 0u) {
        value >>= 1;
        bits++;
    }
    return bits;
}

/* Entry n of the frame after pre-emphasis, or without its mean. */
HADAMRNN_INLINE int32_t hadamrnn_sample(const hadamrnn_front_end *f, const int16_t *x, uint_fast16_t n, int32_t mean)
{
    if (f->is_mel == 0u) {
        return x[n] - mean;
    }
    const int32_t before = x[(n == 0u) ? 0u : (n - 1u)];
    return x[n] - before + ((before + 16) >> 5);
}

/* Entry n of the frame, windowed: z of the equations; 0 after the frame. */
HADAMRNN_INLINE int16_t hadamrnn_windowed(const hadamrnn_front_end *f, const int16_t *x, uint_fast16_t n, int32_t mean,
                                          uint_fast8_t shift)
{
    if (n >= f->frame) {
        return 0;
    }
    const uint_fast16_t mirrored = (uint_fast16_t)(f->frame - 1u - n);
    const int32_t weight = hadamrnn_word(f->window + (2u * ((n < mirrored) ? n : mirrored)));
    return (int16_t)(((hadamrnn_sample(f, x, n, mean) * weight) + (INT32_C(1) << (shift - 1u))) >> shift);
}

/* Fill `z` with the windowed frame, pairs in bit-reversed order; return the bits of y. */
HADAMRNN_ONE_COPY uint_fast8_t hadamrnn_load_frame(const hadamrnn_front_end *f, const int16_t *x, int16_t *z)
{
    const uint_fast16_t points = (uint_fast16_t)1u << (f->log2_size - 1u);
    int32_t mean = 0;
    if (f->is_mel == 0u) {
        for (uint_fast16_t n = 0u; n < f->frame; n++) {
            mean += x[n];
        }
        mean /= (int32_t)f->frame;
    }
    uint32_t magnitudes = 0u;
    for (uint_fast16_t n = 0u; n < f->frame; n++) {
        magnitudes |= hadamrnn_magnitude(hadamrnn_sample(f, x, n, mean));
    }
    const uint_fast8_t bits = hadamrnn_bits(magnitudes);
    uint_fast16_t reversed = 0u;
    for (uint_fast16_t n = 0u; n < points; n++) {
        z[2u * reversed] = hadamrnn_windowed(f, x, 2u * n, mean, (uint_fast8_t)(bits + 1u));
        z[(2u * reversed) + 1u] = hadamrnn_windowed(f, x, (2u * n) + 1u, mean, (uint_fast8_t)(bits + 1u));
        uint_fast16_t carry = points >> 1; /* count in bit-reversed order: the carry runs downwards */
        while ((reversed & carry) != 0u) {
            reversed ^= carry;
            carry >>= 1;
        }
        reversed |= carry;
    }
    return bits;
}

/* The cosine, and the sine, of 2 pi t / fft_size, t up to half of fft_size. */
HADAMRNN_INLINE int32_t hadamrnn_cosine(const hadamrnn_front_end *f, uint_fast16_t t)
{
    const uint_fast16_t quarter = (uint_fast16_t)1u << (f->log2_size - 2u);
    return (t <= quarter) ? hadamrnn_word(f->cosines + (2u * t))
                          : -hadamrnn_word(f->cosines + (2u * ((2u * quarter) - t)));
}

HADAMRNN_INLINE int32_t hadamrnn_sine(const hadamrnn_front_end *f, uint_fast16_t t)
{
    const uint_fast16_t quarter = (uint_fast16_t)1u << (f->log2_size - 2u);
    return hadamrnn_word(f->cosines + (2u * ((t <= quarter) ? (quarter - t) : (t - quarter))));
}

/* The Fourier transform of complex numbers in bit-reversed order, in place; return the bits that it divided by. */
HADAMRNN_ONE_COPY uint_fast8_t hadamrnn_fourier(const hadamrnn_front_end *f, int16_t *z)
{
    const uint_fast16_t points = (uint_fast16_t)1u << (f->log2_size - 1u);
    uint_fast8_t divided = 0u;
    uint32_t magnitudes = 0u;
    for (uint_fast16_t i = 0u; i < (2u * points); i++) {
        magnitudes |= hadamrnn_magnitude(z[i]);
    }
    for (uint_fast16_t half = 1u; half < points; half <<= 1) {
        const uint_fast8_t bits = hadamrnn_bits(magnitudes);
        const uint_fast8_t shift = (bits > 13u) ? (uint_fast8_t)(bits + 1u) : 14u; /* 14 for the cosines */
        const int32_t rounding = INT32_C(1) << (shift - 1u);
        divided = (uint_fast8_t)(divided + shift - 14u);
        magnitudes = 0u;
        for (uint_fast16_t j = 0u; j < half; j++) {
            const int32_t cosine = hadamrnn_cosine(f, j * (points / half));
            const int32_t sine = hadamrnn_sine(f, j * (points / half));
            for (uint_fast16_t i = j; i < points; i += 2u * half) {
                int16_t *const a = &z[2u * i];
                int16_t *const b = &z[2u * (i + half)];
                const int32_t real = (b[0] * cosine) + (b[1] * sine);
                const int32_t imaginary = (b[1] * cosine) - (b[0] * sine);
                const int32_t a_real = (a[0] * INT32_C(16384)) + rounding;
                const int32_t a_imaginary = (a[1] * INT32_C(16384)) + rounding;
                const int32_t sums[4] = {(a_real + real) >> shift, (a_imaginary + imaginary) >> shift,
                                         (a_real - real) >> shift, (a_imaginary - imaginary) >> shift};
                a[0] = (int16_t)sums[0];
                a[1] = (int16_t)sums[1];
                b[0] = (int16_t)sums[2];
                b[1] = (int16_t)sums[3];
                magnitudes |= hadamrnn_magnitude(sums[0]) | hadamrnn_magnitude(sums[1]) | hadamrnn_magnitude(sums[2]) |
                              hadamrnn_magnitude(sums[3]);
            }
        }
    }
    return divided;
}

/* |X[k]|^2 of the real frame, 0 < k < fft_size / 2. */
HADAMRNN_INLINE uint32_t hadamrnn_power(const hadamrnn_front_end *f, const int16_t *z, uint_fast16_t k)
{
    const int16_t *const forward = &z[2u * k];
    const int16_t *const backward = &z[2u * (((uint_fast16_t)1u << (f->log2_size - 1u)) - k)];
    const int32_t cosine = hadamrnn_cosine(f, k);
    const int32_t sine = hadamrnn_sine(f, k);
    const int32_t odd_real = forward[0] - backward[0];
    const int32_t odd_imaginary = forward[1] + backward[1];
    const int32_t real = ((forward[0] + backward[0]) * INT32_C(16384)) + (cosine * odd_imaginary) - (sine * odd_real);
    const int32_t imaginary =
        ((forward[1] - backward[1]) * INT32_C(16384)) - (cosine * odd_real) - (sine * odd_imaginary);
    const uint32_t x = (uint32_t)((real + 16384) >> 15);
    const uint32_t y = (uint32_t)((imaginary + 16384) >> 15);
    return (x * x) + (y * y); /* modulo 2^32; the sum is smaller */
}

/* The code of a band's energy; `offset` is 128 scale - 64 (8 + log2 fft_size). */
HADAMRNN_ONE_COPY int32_t hadamrnn_band_code(const hadamrnn_front_end *f, uint64_t energy, int32_t offset)
{
    if (energy == 0u) {
        return 0;
    }
    int32_t octave = 15;
    while (energy >= 65536u) {
        energy >>= 1;
        octave++;
    }
    while (energy < 32768u) {
        energy <<= 1;
        octave--;
    }
    const uint32_t mantissa = (uint32_t)energy;
    const uint8_t *const entry = f->log2 + (2u * ((mantissa >> 10) & 31u));
    const int32_t low = hadamrnn_word(entry);
    const int32_t value = (low * 1024) + ((hadamrnn_word(entry + 2) - low) * (int32_t)(mantissa & 1023u));
    const int32_t code = (64 * octave) + ((value + 8192) >> 14) + offset;
    return (code > 0) ? code : 0;
}

/* The codes of all bands of the transformed frame. */
HADAMRNN_ONE_COPY void hadamrnn_bands(const hadamrnn_front_end *f, const int16_t *z, int32_t offset, int32_t *codes)
{
    uint_fast16_t k = (uint_fast16_t)hadamrnn_word(f->edges);
    const uint8_t *weight = f->weights;
    uint64_t rising = 0u;
    for (uint_fast8_t edge = 1u; edge <= (f->bands + f->is_mel); edge++) {
        const uint_fast16_t end = (uint_fast16_t)hadamrnn_word(f->edges + (2u * edge));
        uint64_t falling = rising; /* the triangle with its peak at the previous edge */
        rising = 0u;
        for (; k < end; k++) {
            const uint32_t power = (k == 0u) ? 0u : hadamrnn_power(f, z, k);
            const uint32_t risen = (f->is_mel == 0u) ? 0u : hadamrnn_byte(weight++);
            rising += (uint64_t)power * risen;
            falling += (uint64_t)power * (256u - risen);
        }
        if (edge > f->is_mel) {
            codes[edge - 1u - f->is_mel] = hadamrnn_band_code(f, falling, offset);
        }
    }
}

/* Subtract each band's noise floor n, in 1/256: it falls by (n - 256 code) / 8 and rises by (256 code - n) / 2^noise_shift. */
HADAMRNN_INLINE void hadamrnn_subtract_noise(const hadamrnn_front_end *f, hadamrnn_signal *signal, int32_t *codes)
{
    for (uint_fast8_t band = 0u; band < f->bands; band++) {
        const int32_t code = codes[band] * 256;
        const int32_t floor = (signal->frames == 0u) ? code : signal->noise[band];
        const int32_t difference = code - floor;
        signal->noise[band] = floor + ((difference < 0) ? (difference >> 3) : (difference >> f->noise_shift));
        const int32_t above = codes[band] - (signal->noise[band] >> 8);
        codes[band] = (above > 0) ? above : 0;
    }
}

HADAMRNN_INLINE void hadamrnn_signal_init(hadamrnn_signal *signal)
{
    signal->filled = 0u;
    signal->frames = 0u;
}

/* Take one sample; at the end of a frame write its codes and return true. */
HADAMRNN_INLINE bool hadamrnn_push_sample(const hadamrnn_front_end *f, hadamrnn_signal *signal, int16_t sample, int32_t *codes)
{
    signal->samples[signal->filled] = sample;
    signal->filled++;
    if (signal->filled < f->frame) {
        return false;
    }
    const uint_fast8_t bits = hadamrnn_load_frame(f, signal->samples, signal->work);
    const int32_t scale = (int32_t)bits - 14 + (int32_t)hadamrnn_fourier(f, signal->work);
    hadamrnn_bands(f, signal->work, (128 * scale) - (64 * (8 + (int32_t)f->log2_size)), codes);
    if (f->noise_shift != 0u) {
        hadamrnn_subtract_noise(f, signal, codes);
    }
    signal->frames = 1u;
    signal->filled = (uint16_t)(f->frame - f->hop);
    (void)memmove(signal->samples, &signal->samples[f->hop], signal->filled * sizeof signal->samples[0]);
    return true;
}
#endif
