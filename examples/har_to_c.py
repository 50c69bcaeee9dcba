"""Six activities from a phone's motion sensors, from arrays to C that fits a microcontroller.

    python examples/har_to_c.py --out har

trains `HadamRNNClassifier` on UCI HAR (looked for in HADAMRNN_DATA, else downloaded), turns it into integers
that read 16-bit sensor codes, writes C and runs the C's self-test. It prints

    float      89.72% of 2,947 test windows, nine new people
    integer    89.79%
    weights    2,345 bytes of 4-bit weights, signs and biases
    self-test  passed: the compiled C gives the same bits as Python

Size and noise were chosen among three settings by the accuracy on four of the training people.
har/model.int.safetensors is the integer network, har/c the C, and har/recording.npz a minute of one person of
the test set for `stream_serial.py`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hadamrnn import HadamRNNClassifier, HarPart, InputError, read_har

ACTIVITIES = np.array(["walking", "upstairs", "downstairs", "sitting", "standing", "laying"])
RAW_UNIT = 2.0**-12  # g or rad/s of one code: an int16 sensor of +-8
PERSON, HALVES = 2, 8  # of the recording: half a window is 64 samples, 1.28 s


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Motion sensors to C.")
    parser.add_argument("--out", type=Path, default=Path("har"), help="a new folder (default har)")
    parser.add_argument("--data-dir", help="where UCI HAR is looked for (default HADAMRNN_DATA)")
    parser.add_argument("--short", action="store_true", help="a small network, barely trained, for a test")
    args = parser.parse_args(argv)
    if args.out.exists():
        raise InputError(f"--out must be a new folder, got {args.out}.")

    train, test = read_har(args.data_dir)
    hidden_size, steps = (32, 60) if args.short else (256, 1500)
    # No held-out rows: neighbouring windows share half of their samples, so a score on them would say little.
    classifier = HadamRNNClassifier(
        hidden_size,
        max_steps=steps,
        batch_size=64,
        input_noise=0.5,
        early_stopping=False,
        random_state=0,
    )
    classifier.fit(train.x, ACTIVITIES[train.activity - 1])
    labels = ACTIVITIES[test.activity - 1]
    model = classifier.quantize(raw_unit=RAW_UNIT)
    print(
        f"float      {classifier.score(test.x, labels):.2%} of {len(labels):,} test windows, nine new people"
    )
    print(f"integer    {np.mean(classifier.predict_integer(test.x, model) == labels):.2%}")

    folder = classifier.to_c(args.out / "c", "har", model=model)
    size = model.save(args.out / "model.int.safetensors")
    write_recording(test, args.out / "recording.npz")
    print(f"weights    {size.payload:,} bytes of {model.weight_bits}-bit weights, signs and biases")
    print(f"self-test  {self_test(folder)}")
    return 0


def write_recording(test: HarPart, path: Path) -> None:
    """Write ten seconds of each activity as a sensor gives them: `codes`, `(time, 9)` int16, and `activity`.

    Windows overlap by half: first halves, one after the other, are what was recorded.
    """
    mine = test.subject == PERSON
    rows = np.concatenate([np.flatnonzero(mine & (test.activity == k))[:HALVES] for k in range(1, 7)])
    half = test.x.shape[1] // 2
    samples = test.x[rows, :half].reshape(-1, test.x.shape[2])
    codes = np.clip(np.rint(samples / RAW_UNIT), -(2**15), 2**15 - 1).astype(np.int16)
    np.savez(path, codes=codes, activity=np.repeat(ACTIVITIES[test.activity[rows] - 1], half))


def self_test(folder: Path) -> str:
    """Compile the exported folder and replay its golden vectors."""
    if shutil.which("make") is None or shutil.which("cc") is None:
        return "not run, no make or no C compiler (Debian: make gcc)"
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The self-test of {folder} failed: {done.stdout[-300:]}{done.stderr[-300:]}")
    return "passed: the compiled C gives the same bits as Python"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        print(f"{Path(__file__).name}: {error}", file=sys.stderr)
        sys.exit(2)
