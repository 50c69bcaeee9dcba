"""Keywords from a WAV file or a pipe of samples, by the integers of the exported C. No torch.

    hadamrnn models keywords-5kb --out models
    python examples/microphone.py models/keywords-5kb.int.safetensors speech.wav
    arecord -q -f S16_LE -r 16000 -t raw | python examples/microphone.py models/keywords-5kb.int.safetensors

prints a word for the last second of sound, about every half second:

      0.98 s  silence
      1.47 s  yes
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile

from hadamrnn import Engine, InputError, IntegerModel, SlidingWindow, compute_bands, encode_raw

WINDOW, HOP = 98, 49  # frames of a window, and from one window to the next

Samples = NDArray[np.int16]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the keywords in a WAV file or a pipe of samples.")
    parser.add_argument("model", type=Path, help="integer model with a front end")
    parser.add_argument("sound", type=Path, nargs="?", help="WAV file; by default int16 samples of a pipe")
    args = parser.parse_args(argv)
    model = IntegerModel.load(args.model)
    front_end = model.network.front_end
    if front_end is None:
        raise InputError(f"{args.model} must begin with a front end, it has none. Choose keywords-5kb.")
    if args.sound is not None:
        try:
            rate, samples = wavfile.read(args.sound)
        except (OSError, ValueError) as error:
            raise InputError(f"{args.sound} must be a WAV file, got: {error}.") from error
        if rate != front_end.rate or samples.dtype != np.int16 or samples.ndim != 1:
            raise InputError(f"{args.sound} must be mono, of 16 bits, at {front_end.rate} Hz.")
        source: BinaryIO = BytesIO(samples.astype("<i2").tobytes())
    else:
        source = sys.stdin.buffer
    stream = SlidingWindow(Engine(model), WINDOW, HOP)
    for number, frame in enumerate(frames(source, front_end.frame, front_end.hop), start=1):
        codes, _ = encode_raw(model, compute_bands(front_end, frame)[0].astype(np.int32))
        logits = stream.push(codes)
        if logits is not None:
            word = model.class_names[int(logits.argmax())]
            print(f"{number * front_end.hop / front_end.rate:6.2f} s  {word}", flush=True)
    return 0


def frames(source: BinaryIO, size: int, hop: int) -> Iterator[Samples]:
    """Yield frames of little-endian int16 samples as they come."""
    frame = source.read(2 * size)
    while len(frame) == 2 * size:
        yield np.frombuffer(frame, "<i2").astype(np.int16)
        frame = frame[2 * hop :] + source.read(2 * hop)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
