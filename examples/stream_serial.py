"""Sensor codes over a serial port, decided step by step by the integer network. No torch.

    python examples/har_to_c.py --out har
    python examples/stream_serial.py har

plays har/recording.npz into one end of a pseudo terminal, as a sensor board would, and reads the other end as
a gateway would: a step of the integer engine for each frame, a decision every 1.28 s of signal. It prints

       2.56 s  walking     walking
       3.84 s  walking     walking
       ...
      33.28 s  standing    sitting
       ...
      61.44 s  laying      laying
    3,072 samples, 0 bytes skipped; clipped: 0 inputs, 0 states
    38 of 47 decisions are the activity of their last sample

Each line has the decision, then what the person did. This person sits in a way that
the network takes for standing.

With `--port /dev/ttyACM0` it reads a real board instead, until Ctrl-C. A frame is the byte 0xA5, the channels
as little-endian int16, and the sum of their bytes modulo 256; other bytes are skipped and counted.
"""

from __future__ import annotations

import argparse
import os
import pty
import struct
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hadamrnn import Engine, InputError, IntegerModel, SlidingWindow, encode_raw

START = 0xA5
WINDOW, HOP, RATE = 128, 64, 50  # samples, samples, Hz: what the network was trained on
BAUD_RATES = {9600: termios.B9600, 57600: termios.B57600, 115200: termios.B115200, 230400: termios.B230400}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Decide on sensor codes from a serial port, step by step.")
    parser.add_argument("folder", type=Path, help="what har_to_c.py wrote")
    parser.add_argument("--port", help="a real port, as /dev/ttyACM0; by default a recording is played")
    parser.add_argument("--baud", type=int, choices=sorted(BAUD_RATES), default=115200)
    parser.add_argument("--short", action="store_true", help="play ten seconds only, for a test")
    args = parser.parse_args(argv)
    path, recorded = args.folder / "model.int.safetensors", args.folder / "recording.npz"
    for needed in (path, recorded) if args.port is None else (path,):
        if not needed.is_file():
            raise InputError(f"{args.folder} must hold {needed.name}. Run first: har_to_c.py --out DIR")
    model = IntegerModel.load(path)
    if args.port is not None:
        listen(model, open_port(args.port, args.baud))
        return 0
    with np.load(recorded) as recording:
        codes, activity = recording["codes"], recording["activity"]
    if args.short:
        codes, activity = codes[: 8 * HOP], activity[: 8 * HOP]
    gateway, sensor = pty.openpty()  # this way round, what was sent can be read after the board hangs up
    tty.setraw(sensor)
    board = threading.Thread(target=play, args=(sensor, codes), daemon=True)
    board.start()
    listen(model, gateway, activity)
    board.join()
    return 0


@dataclass
class Frames:
    """Reads frames of `channels` codes from a file descriptor; iterating ends where the line does."""

    descriptor: int
    channels: int
    skipped: int = 0  # bytes that belong to no frame

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        size = 2 * self.channels + 2
        buffer = b""
        while chunk := _read(self.descriptor):
            buffer += chunk
            while len(buffer) >= size:
                payload = buffer[1 : size - 1]
                if buffer[0] == START and buffer[size - 1] == sum(payload) % 256:
                    yield np.array(struct.unpack(f"<{self.channels}h", payload))
                    buffer = buffer[size:]
                else:
                    self.skipped += 1
                    buffer = buffer[1:]
        self.skipped += len(buffer)


def frame(codes: NDArray[np.int16]) -> bytes:
    """Return the frame of one sample.

    >>> frame(np.array([1, -2], np.int16)).hex(" ")
    'a5 01 00 fe ff fe'
    """
    payload = struct.pack(f"<{len(codes)}h", *codes.tolist())
    return bytes([START]) + payload + bytes([sum(payload) % 256])


def play(descriptor: int, codes: NDArray[np.int16]) -> None:
    """Be the sensor board: send every sample, then hang up. The line's own buffer sets the pace."""
    with os.fdopen(descriptor, "wb") as line:
        for sample in codes:
            line.write(frame(sample))


def listen(model: IntegerModel, descriptor: int, activity: NDArray[np.str_] | None = None) -> list[str]:
    """Print and return the decisions on a stream, beside the true activity where it is given."""
    classes = model.class_names
    frames, stream = Frames(descriptor, model.input_size), SlidingWindow(Engine(model), WINDOW, HOP)
    decisions, right, steps, clipped = [], 0, 0, 0
    try:
        for steps, sample in enumerate(frames, start=1):
            codes, saturated = encode_raw(model, sample)
            clipped += saturated
            logits = stream.push(codes)
            if logits is not None:
                decisions.append(classes[int(logits.argmax())])
                truth = "" if activity is None else str(activity[steps - 1])
                right += decisions[-1] == truth
                print(f"{steps / RATE:7.2f} s  {decisions[-1]:<12}{truth}", flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        os.close(descriptor)
    print(
        f"{steps:,} samples, {frames.skipped} bytes skipped; "
        f"clipped: {clipped} inputs, {stream.saturations} states"
    )
    if activity is not None:
        print(f"{right} of {len(decisions)} decisions are the activity of their last sample")
    return decisions


def open_port(name: str, baud: int) -> int:
    """Open a serial port raw, 8 data bits, no parity, one stop bit."""
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(descriptor)
    except (OSError, termios.error) as error:
        raise InputError(f"--port must be a serial port, got {name} ({error}).") from error
    settings = termios.tcgetattr(descriptor)
    settings[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
    settings[4] = settings[5] = BAUD_RATES[baud]
    termios.tcsetattr(descriptor, termios.TCSANOW, settings)
    return descriptor


def _read(descriptor: int) -> bytes:
    """Return what has arrived; nothing once the other end has hung up."""
    try:
        return os.read(descriptor, 4096)
    except OSError:  # Linux says EIO once a pseudo terminal has lost its other end
        return b""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        print(f"{Path(__file__).name}: {error}", file=sys.stderr)
        sys.exit(2)
