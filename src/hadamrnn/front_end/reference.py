"""Specify the arithmetic of the front end in numpy; C and JavaScript give the same bits.

`compute_bands` runs `runtime/hadamrnn_front_end.h` in the native library if available, else this module.

For every frame x of int16 samples, all integers, `round` with ties towards +infinity, `bits` of the largest
v, or -1 - v if v is negative:

    y[n] = x[n] - x[n-1] + round(x[n-1] / 32), x[-1] = x[0]        mel
    y[n] = x[n] - trunc(sum x / frame)                             bands
    z[n] = round(y[n] window[n] / 2^(b + 1)), b = bits of y        |z| is at most 2^14, the scale 2^(b - 14)
    Z    = FFT of z[2n] + i z[2n + 1], radix 2, in 16 bits: each stage divides by 2^max(b - 13, 0),
           b = bits of the values before it, so |Z| stays below 19780 and the scale grows
    X[k] = the spectrum of the real frame, from Z[k] and Z[fft_size / 2 - k]; |X[k]|^2 is below 2^32
    E[j] = sum_k weight[j, k] |X[k]|^2                             below 2^49
    code = 64 log2 E[j] + 128 scale - 64 (8 + log2 fft_size), at least 0

so code / 64 is log2 of the band's energy sum_k w |X|^2 / fft_size, w at most 1, in units of a sample's last
bit. The optional noise floor n of a band, in 1/256, falls by (n - 256 code) / 8 and rises by
(256 code - n) / 2^noise_shift; then the result is code - n / 256, at least 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.front_end import (
    CODES_PER_OCTAVE,
    COSINE_BITS,
    WEIGHT_BITS,
    WINDOW_BITS,
    FrontEnd,
    Integers,
    front_end_bytes,
    front_end_numbers,
    log_table,
)
from hadamrnn.kernels.library import FrontEndArgs, Library, load_library, run_slices_on

FREE_BITS = 13  # values of this many bits need no division before a stage, whose gain is at most 1 + sqrt(2)
FALL_SHIFT = 3  # decay of the noise floor
CHUNK = 1 << 12  # frames processed at once


def reference_bands(front_end: FrontEnd, samples: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return the codes `(frames, bands)` of samples with at least one frame."""
    count = front_end.num_frames(len(samples))
    frames = np.lib.stride_tricks.sliding_window_view(samples, front_end.frame)[:: front_end.hop]
    codes = np.concatenate(
        [frame_codes(front_end, frames[start : start + CHUNK]) for start in range(0, count, CHUNK)]
    )
    return subtract_noise(codes, front_end.noise_shift).astype(np.int16)


def frame_codes(front_end: FrontEnd, frames: NDArray[np.int16]) -> Integers:
    """Return the codes `(frames, bands)` of frames `(frames, frame)`, the noise floor included."""
    real, imaginary, scale = load_frames(front_end, frames.astype(np.int64))
    real, imaginary, scale = transform(front_end, real, imaginary, scale)
    energies = band_energies(front_end, power_spectrum(front_end, real, imaginary))
    offset = CODES_PER_OCTAVE * (WEIGHT_BITS + front_end.fft_size.bit_length() - 1)
    codes = log_codes(energies) + 2 * CODES_PER_OCTAVE * scale[:, None] - offset
    return np.where(energies > 0, np.maximum(codes, 0), 0)


def load_frames(front_end: FrontEnd, x: Integers) -> tuple[Integers, Integers, Integers]:
    """Return windowed frames as complex values in bit-reversed order, and their scale."""
    if front_end.is_mel:
        before = np.concatenate((x[:, :1], x[:, :-1]), 1)
        y = x - before + round_shift(before, 5)
    else:
        total = x.sum(1, keepdims=True)
        y = x - np.sign(total) * (abs(total) // front_end.frame)
    bits = bit_length(magnitude(y).max(1))
    half = front_end.window
    window = np.concatenate((half, half[: front_end.frame // 2][::-1]))
    z = np.zeros((len(x), front_end.fft_size), np.int64)
    z[:, : front_end.frame] = round_shift(y * window, bits[:, None] + 1)
    order = bit_reversed(front_end.fft_size // 2)
    return z[:, 0::2][:, order], z[:, 1::2][:, order], bits - (WINDOW_BITS - 1)


def transform(
    front_end: FrontEnd, real: Integers, imaginary: Integers, scale: Integers
) -> tuple[Integers, Integers, Integers]:
    """Apply the radix-2 stages to values in bit-reversed order; return the spectrum and its scale."""
    points = real.shape[1]
    half = 1
    while half < points:
        largest = np.maximum(magnitude(real).max(1), magnitude(imaginary).max(1))
        shift = np.maximum(bit_length(largest) - FREE_BITS, 0)
        cosine, sine = twiddles(front_end, np.arange(half) * (front_end.fft_size // (2 * half)))
        a_real, b_real = np.moveaxis(real.reshape(len(real), -1, 2, half), 2, 0)
        a_imaginary, b_imaginary = np.moveaxis(imaginary.reshape(len(real), -1, 2, half), 2, 0)
        turned_real = b_real * cosine + b_imaginary * sine
        turned_imaginary = b_imaginary * cosine - b_real * sine
        by = COSINE_BITS + shift[:, None, None]
        real, imaginary = (
            np.stack(
                (
                    round_shift((a << COSINE_BITS) + turned, by),
                    round_shift((a << COSINE_BITS) - turned, by),
                ),
                2,
            ).reshape(len(real), points)
            for a, turned in ((a_real, turned_real), (a_imaginary, turned_imaginary))
        )
        scale = scale + shift
        half *= 2
    return real, imaginary, scale


def power_spectrum(front_end: FrontEnd, real: Integers, imaginary: Integers) -> Integers:
    """Return |X[k]|^2 of the spectrum of the real frame, for k = 1 .. fft_size / 2 - 1."""
    cosine, sine = twiddles(front_end, np.arange(1, real.shape[1]))
    forward_real, backward_real = real[:, 1:], real[:, :0:-1]
    forward_imaginary, backward_imaginary = imaginary[:, 1:], imaginary[:, :0:-1]
    even_real, odd_real = forward_real + backward_real, forward_real - backward_real
    odd_imaginary, even_imaginary = (
        forward_imaginary + backward_imaginary,
        forward_imaginary - backward_imaginary,
    )
    turned_real = cosine * odd_imaginary - sine * odd_real
    turned_imaginary = cosine * odd_real + sine * odd_imaginary
    x_real = round_shift((even_real << COSINE_BITS) + turned_real, COSINE_BITS + 1)
    x_imaginary = round_shift((even_imaginary << COSINE_BITS) - turned_imaginary, COSINE_BITS + 1)
    return x_real**2 + x_imaginary**2


def band_energies(front_end: FrontEnd, power: Integers) -> Integers:
    """Return the energy of each band, times 256."""
    one = 1 << WEIGHT_BITS
    edges = front_end.edges
    if not front_end.is_mel:
        return np.add.reduceat(power[:, : edges[-1] - 1], edges[:-1] - 1, 1) * one
    power = np.concatenate((np.zeros((len(power), 1), np.int64), power), 1)[:, edges[0] : edges[-1]]
    starts = edges[:-1] - edges[0]
    rising = np.add.reduceat(power * front_end.weights, starts, 1)
    falling = np.add.reduceat(power * (one - front_end.weights), starts, 1)
    return rising[:, :-1] + falling[:, 1:]


def log_codes(energies: Integers) -> Integers:
    """Return 64 log2 of energies, from a table with linear interpolation; 0 gives the least code."""
    table = log_table()
    octave = bit_length(energies) - 1
    mantissa = np.where(
        octave >= 15, energies >> np.maximum(octave - 15, 0), energies << np.maximum(15 - octave, 0)
    )
    place, rest = (mantissa >> 10) & 31, mantissa & 1023
    value = (table[place] << 10) + (table[place + 1] - table[place]) * rest
    return CODES_PER_OCTAVE * octave + round_shift(value, 14)


def subtract_noise(codes: Integers, shift: int) -> Integers:
    """Subtract the noise floor of each band, which starts at the first frame."""
    if not shift:
        return codes
    floor, result = codes[0] << 8, np.empty_like(codes)
    for place, code in enumerate(codes):
        difference = (code << 8) - floor
        floor = floor + np.where(difference < 0, difference >> FALL_SHIFT, difference >> shift)
        result[place] = np.maximum(code - (floor >> 8), 0)
    return result


def twiddles(front_end: FrontEnd, steps: Integers) -> tuple[Integers, Integers]:
    """Return cosine and sine of 2 pi steps / fft_size in Q14, for steps up to half a turn."""
    quarter, table = front_end.fft_size // 4, front_end.cosines
    first = steps <= quarter
    cosine = np.where(
        first, table[np.minimum(steps, quarter)], -table[np.minimum(2 * quarter - steps, quarter)]
    )
    return cosine, table[abs(quarter - steps)]


def bit_reversed(points: int) -> Integers:
    """Return the bit-reversed order of `points`, a power of two.

    >>> bit_reversed(8).tolist()
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    order = np.zeros(1, np.int64)
    while len(order) < points:
        order = np.concatenate((2 * order, 2 * order + 1))
    return order


def bit_length(values: Integers) -> Integers:
    """Return the exact number of bits of values from 0 up to 2^52.

    >>> bit_length(np.array([0, 1, 255, 256])).tolist()
    [0, 1, 8, 9]
    """
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def magnitude(values: Integers) -> Integers:
    """Return v, or -1 - v if v is negative.

    >>> magnitude(np.array([5, -5, -1, 0])).tolist()
    [5, 4, 0, 0]
    """
    return values ^ (values >> 63)


def round_shift(values: Integers, shift: int | Integers) -> Integers:
    """Return values / 2^shift, ties towards +infinity; shift is at least 1."""
    return (values + (np.int64(1) << (shift - 1))) >> shift


def compute_bands(front_end: FrontEnd, samples: NDArray[np.integer]) -> NDArray[np.int16]:
    """Return the codes `(frames, bands)` of one recording; samples after its last frame are ignored."""
    if samples.ndim != 1 or samples.dtype != np.int16:
        raise InputError(
            f"A front end reads one channel of int16 samples, got {samples.dtype} of shape {samples.shape}."
        )
    if not front_end.num_frames(len(samples)):
        return np.zeros((0, front_end.bands), np.int16)
    read, library = np.ascontiguousarray(samples, np.int16), load_library()
    if library is None:
        return reference_bands(front_end, read)
    return _native(front_end, read, library)


def _native(front_end: FrontEnd, samples: NDArray[np.int16], library: Library) -> NDArray[np.int16]:
    """Return the codes of contiguous samples from the native library."""
    codes = np.empty((front_end.num_frames(len(samples)), front_end.bands), np.int16)
    content, starts = front_end_bytes(front_end)
    tables = np.frombuffer(content, np.uint8)
    args = FrontEndArgs(
        count=len(samples),
        **front_end_numbers(front_end),
        **{name: tables.ctypes.data + start for name, start in starts.items()},
        samples=samples.ctypes.data,
        codes=codes.ctypes.data,
    )
    run_slices_on(1, library.kernel("front_end"), args, 1)
    return codes
