"""Front ends of recordings: rates, frames, units and windows that follow from the given options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hadamrnn.data.audio import FULL_SCALE, choose_front_end, sample_unit, to_samples
from hadamrnn.data.options import HeldOutFiles, RecordingOptions
from hadamrnn.data.signals import adapt_recipe, common_rate, decide_features, pad_clip, segment_codes
from hadamrnn.data.tables import Recording
from hadamrnn.errors import InputError
from hadamrnn.front_end import MAX_FRAME, MIN_FRAME, MIN_HOP, FrontEnd
from hadamrnn.front_end.reference import compute_bands


def recording(
    samples: int, rate: int | None = 1000, largest: float = 100.0, name: str = "a.wav"
) -> Recording:
    values = np.arange(samples) % 7.0
    values[0] = -largest
    return Recording(Path(name), pd.DataFrame({"x": values}), rate=rate)


def options(**given: Any) -> RecordingOptions:
    return RecordingOptions(**{"features": "bands", "columns": ("x",), **given})


@pytest.mark.parametrize("kind", ["mel", "bands"])
@pytest.mark.parametrize("rate", [1000, 4000, 8000, 12_000, 16_000, 44_100, 96_000])
def test_frames_follow_from_the_rate_within_their_limits(kind: str, rate: int) -> None:
    found = choose_front_end(kind, rate)

    assert MIN_FRAME <= found.frame <= MAX_FRAME and MIN_HOP <= found.hop <= found.frame
    if kind == "mel":
        assert found.frame == min(max(round(0.025 * rate), MIN_FRAME), MAX_FRAME)
        assert found.hop == max(round(0.010 * rate), MIN_HOP)
    else:
        assert (
            found.hop
            == found.frame
            == max(n for n in (1 << k for k in range(6, 10)) if n <= max(rate / 32, 64))
        )
    short = choose_front_end(kind, rate, frame=MIN_FRAME)
    assert short.frame == MIN_FRAME and short.hop <= MIN_FRAME
    assert choose_front_end(kind, rate, bands=20, hop=None).bands == 20


def test_a_given_rate_is_that_of_the_files_and_whole() -> None:
    sound, table = recording(50), recording(50, None, name="b.csv")
    assert common_rate(options(), [sound, table]) == 1000
    assert common_rate(options(rate=1000), [sound]) == 1000
    assert common_rate(options(rate=2000), [table]) == 2000
    for given, tables, said in (
        (options(), [sound, recording(50, 2000)], "--resample"),
        (options(rate=2000), [sound], "2000"),
        (options(), [table], "--rate"),
        (options(rate=1000.5), [table], "1000.5"),
    ):
        with pytest.raises(InputError, match=said):
            common_rate(given, tables)


def test_windows_hold_frames_and_begin_with_one() -> None:
    table = recording(5000, None)

    def decided(**given: Any) -> RecordingOptions:
        return decide_features(options(rate=2048, **given), [table])  # frames of 64 samples

    plain = decided()
    assert (plain.frame, plain.frame_hop, plain.bands, plain.rate) == (64, 64, 32, 2048)
    assert (plain.window, plain.hop) == (2048, 1024)  # a second, and half of it
    assert [decided(window=window).hop for window in (64, 128, 320)] == [64, 64, 128]
    assert decided(window=256, hop=192).hop == 192
    with pytest.raises(InputError, match="63"):
        decided(window=63)
    for hop, nearest in ((180, 192), (20, 64), (140, 128)):
        with pytest.raises(InputError, match=f"got {hop}.*{nearest}"):
            decided(hop=hop)
    with pytest.raises(InputError, match="--columns"):
        decided(columns=("x", "y"))


def test_the_window_of_clips_is_the_longest_and_otherwise_a_second() -> None:
    """In whole frames of 64 samples; a clip takes at most two seconds."""

    def window(*tables: Recording) -> int | None:
        return decide_features(options(rate=2000), list(tables)).window

    def sound(samples: int) -> Recording:
        return recording(samples, 2000)

    assert window(sound(100), sound(3990)) == window(sound(100), sound(4000)) == 62 * 64
    assert window(sound(100), sound(4001)) == window(sound(100), recording(3990, None)) == 31 * 64
    assert window(sound(20)) == 64


def test_the_unit_leaves_half_of_the_range_free_above_the_largest_value() -> None:
    for largest in (0.3, 1.0, 7.5, 1e-6, 3e7):
        unit = sample_unit(largest, whole=False)
        assert 1 / 4 <= largest / unit / (FULL_SCALE + 1) <= 1 / 2 and np.frexp(unit)[0] == 0.5
    assert sample_unit(2.0**15, whole=True) == 1.0 < sample_unit(2.0**15 + 1, whole=True)
    assert sample_unit(0.0, whole=False) == sample_unit(1.0, whole=False)
    half = Recording(Path("a.csv"), pd.DataFrame({"x": [0.5] + [0.0] * 3000}))
    whole = recording(3000, None)
    assert decide_features(options(rate=1000), [whole]).unit == 1.0
    assert decide_features(options(rate=1000), [whole, half]).unit == sample_unit(100.0, whole=False)
    assert decide_features(options(rate=1000, unit=0.25), [whole]).unit == 0.25


def test_samples_are_rounded_and_those_beyond_sixteen_bits_refused() -> None:
    values = np.array([0.24, 0.25, -0.25, -0.26, FULL_SCALE / 2, -(FULL_SCALE + 1) / 2])
    assert to_samples(values, 0.5).tolist() == [0, 1, 0, -1, FULL_SCALE, -FULL_SCALE - 1]
    for value in ((FULL_SCALE + 1) / 2, -(FULL_SCALE + 2) / 2):
        with pytest.raises(InputError, match="--unit"):
            to_samples(np.array([0.0, value]), 0.5)
    assert to_samples(np.zeros(0), 0.5).tolist() == []


def test_the_codes_of_a_segment_are_those_of_its_samples_in_units() -> None:
    front_end = FrontEnd(kind="bands", rate=2000, frame=64, hop=64, unit=0.5)
    values = np.random.default_rng(0).normal(size=(192, 1)) * 1000
    codes = segment_codes(front_end, values)
    assert (
        codes.tolist()
        == compute_bands(front_end, np.floor(values[:, 0] / 0.5 + 0.5).astype(np.int16)).tolist()
    )
    assert codes.shape == (3, front_end.bands)


def test_clips_begin_with_the_silence_that_a_window_lacks() -> None:
    clip = recording(30)
    padded = pad_clip(clip, 50)
    assert len(padded) == 50 and padded.names == ["x"] and padded.rate == clip.rate
    assert padded.frame.x.tolist() == [0.0] * 20 + clip.frame.x.tolist()
    assert pad_clip(clip, 30) is clip and pad_clip(clip, 29) is clip
    table = recording(30, None)
    assert pad_clip(table, 50) is table


def test_a_recipe_masks_half_of_the_bands_of_vibration_and_moves_the_levels_of_sound(tmp_path: Path) -> None:
    assert adapt_recipe({"path": "a.csv", "features": "bands", "bands": 20})["channel_mask"] == 10
    assert adapt_recipe({"path": "a.csv", "features": "bands", "target": "load"})["class_mixing"] == 0
    sound = {"channel_offset": 0.5, "keep": "last"}
    assert adapt_recipe({"path": "a.wav"}) == adapt_recipe({"path": "a.WAV", "features": "mel"}) == sound
    assert adapt_recipe({"path": "a.csv", "features": "mel"}) == sound
    assert adapt_recipe({"path": "a.wav", "features": "none"}) == {}
    (tmp_path / "up").mkdir()
    assert adapt_recipe({"path": str(tmp_path)}) == {}
    (tmp_path / "up" / "a.wav").touch()
    assert adapt_recipe({"path": str(tmp_path)}) == sound


def test_windows_and_files_that_are_not_given_have_their_defaults() -> None:
    assert RecordingOptions(window=1).window_and_hop == (1, 1)
    assert RecordingOptions(window=5, hop=3).window_and_hop == (5, 3)
    assert RecordingOptions(hop=3).window_and_hop == (128, 3)
    assert RecordingOptions().front_end is None is RecordingOptions(features="none").front_end
    given = RecordingOptions(features="mel", rate=8000, frame=200, frame_hop=80, bands=16)
    assert given.front_end == FrontEnd(kind="mel", rate=8000, frame=200, hop=80, bands=16, unit=1.0)
    assert given.given() == {"features": "mel", "rate": 8000, "frame": 200, "frame_hop": 80, "bands": 16}
    assert RecordingOptions(columns=("a", "b")).given() == {"columns": ["a", "b"]}

    test = HeldOutFiles(test=Path("b"))
    assert (test.paths, test.parts, test.shares) == ((Path("b"),), (2,), (0.15, 0.0))
    both = HeldOutFiles(test=Path("b"), validation=Path("a"))
    assert (both.paths, both.parts, both.shares) == ((Path("a"), Path("b")), (1, 2), (0.0, 0.0))
    assert both.given_files() == {"validation": str(Path("a").resolve()), "test": str(Path("b").resolve())}
    assert HeldOutFiles().parts == () and HeldOutFiles().shares == (0.15, 0.15)
