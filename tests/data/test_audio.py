"""Sound files: every sample width gives the same int16, and files that do not match are refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from hadamrnn.data.audio import Sound, read_wav, resampled
from hadamrnn.data.recordings import read_like
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.training.config import resolve_config

RATE = 8000
VALUES = np.array([0, 1, -1, 1000, -32768, 32767, 12345], np.int16)


def wav_format(bits: int, channels: int = 1, rate: int = RATE, coding: int = 1) -> bytes:
    block = channels * bits // 8
    return struct.pack("<HHIIHH", coding, channels, rate, rate * block, block, bits)


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    """Return a chunk, which may lie about its size."""
    return (
        name + struct.pack("<I", len(content) if size is None else size) + content + bytes(len(content) % 2)
    )


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    content = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(content) if size is None else size) + content


def write_pcm(path: Path, content: bytes, bits: int, channels: int = 1, rate: int = RATE) -> Path:
    """Write a plain PCM file of any width."""
    path.write_bytes(riff(chunk(b"fmt ", wav_format(bits, channels, rate)), chunk(b"data", content)))
    return path


def test_sixteen_bits_are_read_as_they_are(tmp_path: Path) -> None:
    sound = read_wav(write_pcm(tmp_path / "a.wav", VALUES.tobytes(), 16))
    assert sound.samples.dtype == np.int16
    assert sound.samples.tolist() == VALUES.tolist()
    assert sound.rate == RATE


@pytest.mark.parametrize("bits", [24, 32])
def test_wider_samples_are_rounded(bits: int, tmp_path: Path) -> None:
    unit = 1 << (bits - 16)
    wide = VALUES.astype(np.int64) * unit + np.array([0, unit // 2, -1, unit // 2 - 1, 0, unit - 1, 0])
    content = b"".join(int(value).to_bytes(bits // 8, "little", signed=True) for value in wide)
    samples = read_wav(write_pcm(tmp_path / "a.wav", content, bits)).samples
    assert samples.tolist() == [0, 2, -1, 1000, -32768, 32767, 12345]


def test_eight_bits_span_the_same_range(tmp_path: Path) -> None:
    samples = read_wav(write_pcm(tmp_path / "a.wav", bytes([0, 128, 255]), 8)).samples
    assert samples.tolist() == [-32768, 0, 127 * 256]


def test_the_first_of_several_channels_is_read_and_said_so(tmp_path: Path) -> None:
    both = np.stack((VALUES, VALUES[::-1]), 1)
    sound = read_wav(write_pcm(tmp_path / "a.wav", both.tobytes(), 16, channels=2))
    assert sound.samples.tolist() == VALUES.tolist()
    assert "first of 2 channels" in sound.remarks[0]


def test_silence_and_clipping_are_reported(tmp_path: Path) -> None:
    silent = read_wav(write_pcm(tmp_path / "a.wav", bytes(200), 16))
    assert silent.remarks == ("silent: every sample is 0",)
    flat = read_wav(write_pcm(tmp_path / "c.wav", np.full(100, -7, np.int16).tobytes(), 16))
    assert flat.remarks == ("silent: every sample is -7",)
    clipped = np.where(np.arange(400) % 100 < 2, 32767, 50).astype(np.int16)
    loud = read_wav(write_pcm(tmp_path / "b.wav", clipped.tobytes(), 16))
    assert any("2.0%" in remark for remark in loud.remarks)
    few = np.where(np.arange(2000) < 2, 32767, np.arange(2000)).astype(np.int16)  # one in a thousand
    assert read_wav(write_pcm(tmp_path / "d.wav", few.tobytes(), 16)).remarks == ()


PCM16 = chunk(b"fmt ", wav_format(16))
DATA = chunk(b"data", VALUES.tobytes())
EXTENSION = struct.pack("<HHI", 22, 16, 4)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is no RIFF WAV file"),
        (b"RIFF", "is no RIFF WAV file"),
        (b"hello, world" * 9, "is no RIFF WAV file"),
        (riff(PCM16), "data chunk is missing"),
        (riff(PCM16)[:30], "data chunk is missing"),
        (riff(DATA), "its format is missing"),
        (riff(DATA, PCM16), "its format is missing"),
        (riff(chunk(b"fmt ", wav_format(16)[:15]), DATA), "its format is missing"),
        (riff(chunk(b"fmt ", wav_format(16, channels=0)), DATA), "0 channels in 0 bytes"),
        (
            riff(chunk(b"fmt ", wav_format(16)[:12] + struct.pack("<HH", 3, 16)), DATA),
            "1 channels in 3 bytes",
        ),
        (riff(chunk(b"fmt ", wav_format(0)), DATA), "got integers of 0 bits"),
        (riff(chunk(b"fmt ", wav_format(12)), DATA), "got integers of 12 bits"),
        (riff(chunk(b"fmt ", wav_format(8, coding=3)), DATA), "got floats of 8 bits"),
        (riff(chunk(b"fmt ", wav_format(4, coding=2)), DATA), "got ADPCM of 4 bits"),
        (riff(chunk(b"fmt ", wav_format(8, coding=7)), DATA), "got mu-law of 8 bits"),
        (riff(chunk(b"fmt ", wav_format(8, coding=99)), DATA), "got coding 99 of 8 bits"),
        (riff(PCM16, chunk(b"data", b"")), "must hold samples, got none"),
        (riff(PCM16, chunk(b"data", b"x")), "must hold samples, got none"),
        (riff(PCM16, chunk(b"data", b"", 1000)), "must hold samples, got none"),
        (riff(PCM16, chunk(b"data", b""), chunk(b"LIST", b"INFO")), "must hold samples, got none"),
        (riff(chunk(b"fmt ", wav_format(16, rate=0)), DATA), "rate in Hz must lie in .* got 0"),
    ],
)
def test_a_damaged_file_is_refused_by_its_name_and_the_reason(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.wav.*{reason}") as caught:
        read_wav(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        riff(PCM16, chunk(b"data", VALUES.tobytes(), 0xFFFFFFFF), size=0xFFFFFFFF),
        riff(PCM16, chunk(b"data", VALUES.tobytes(), 0), size=0),
        riff(PCM16, chunk(b"data", VALUES.tobytes(), 0), size=36),
        riff(chunk(b"junk", b"odd"), PCM16, chunk(b"bext", bytes(9)), DATA, chunk(b"id3 ", b"tag")),
        riff(chunk(b"fmt ", wav_format(16, coding=0xFFFE) + EXTENSION + struct.pack("<H14x", 1)), DATA),
    ],
    ids=["pipe of ffmpeg", "pipe", "stopped recorder", "other chunks", "extensible"],
)
def test_files_of_recorders_and_editors_are_read_whole(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    sound = read_wav(path)
    assert (sound.samples.tolist(), sound.rate) == (VALUES.tolist(), RATE)
    assert not any("cut short" in remark for remark in sound.remarks)


def test_any_damage_to_a_header_is_refused_or_read(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "a.wav"
    whole = np.frombuffer(riff(PCM16, DATA, chunk(b"LIST", b"INFO")), np.uint8)
    read = 0
    for _ in range(500):
        damaged = whole.copy()
        damaged[rng.integers(0, 44, 2)] = rng.choice([0, 1, 255, 128, 17], 2)
        path.write_bytes(damaged[: rng.integers(20, len(whole) + 1)].tobytes())
        try:
            read += len(read_wav(path).samples) > 0
        except InputError as error:
            assert "a.wav" in str(error) and "\n" not in str(error)
    assert 0 < read < 500


def test_a_file_that_is_cut_short_is_read_as_far_as_it_goes_and_said_so(tmp_path: Path) -> None:
    path = write_pcm(tmp_path / "a.wav", VALUES.tobytes(), 16)
    path.write_bytes(path.read_bytes()[:-4])
    sound = read_wav(path)
    assert sound.samples.tolist() == VALUES[:-2].tolist()
    assert "cut short" in sound.remarks[0]


def test_floating_point_files_span_one_and_must_be_finite(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", RATE, np.array([0, 0.5, -1, 1, 2], np.float32))
    assert read_wav(tmp_path / "a.wav").samples.tolist() == [0, 16384, -32768, 32767, 32767]
    wavfile.write(tmp_path / "b.wav", RATE, np.array([0, np.nan], np.float32))
    with pytest.raises(InputError, match=r"b\.wav must hold finite samples"):
        read_wav(tmp_path / "b.wav")


def test_a_remark_on_many_files_is_said_once(folder: Path) -> None:
    for path in (folder / "fan").glob("*.wav"):
        wavfile.write(path, RATE, np.zeros(3 * RATE, np.int16))
    first = load_task("recordings", path=str(folder)).assumptions[0]
    assert first.count("silent") == 1 and "fan/0.wav, fan/1.wav, fan/2.wav, fan/3.wav: silent" in first


def test_a_file_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.wav"):
        read_wav(write_pcm(tmp_path / "a.wav", b"", 16))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of four short recordings."""
    rng = np.random.default_rng(0)
    for name in ("fan", "pump"):
        for part in range(4):
            (tmp_path / name).mkdir(exist_ok=True)
            samples = rng.normal(0, 1000, 3 * RATE).astype(np.int16)
            wavfile.write(tmp_path / name / f"{part}.wav", RATE, samples)
    return tmp_path


def test_a_folder_of_sounds_becomes_frames_of_mel_bands(folder: Path) -> None:
    splits = load_task("recordings", path=str(folder))
    assert splits.class_names == ("fan", "pump")
    assert splits.front_end is not None
    assert (splits.front_end.kind, splits.front_end.rate) == ("mel", RATE)
    assert splits.train.x.shape[1:] == (98, 32)
    assert any("features" in line and "8000 Hz" in line for line in splits.assumptions)


def test_features_none_reads_raw_samples(folder: Path) -> None:
    splits = load_task("recordings", path=str(folder), features="none", window=100)
    assert splits.front_end is None
    assert splits.train.x.shape[1:] == (100, 1)


def test_a_table_with_a_rate_has_the_codes_of_the_sound(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tables = tmp_path_factory.mktemp("tables")
    for path in folder.glob("*/*.wav"):
        target = tables / path.parent.name / f"{path.stem}.csv"
        target.parent.mkdir(parents=True, exist_ok=True)
        _, samples = wavfile.read(path)
        target.write_text("\n".join(["x", *map(str, samples.tolist())]) + "\n")
    shared = {"features": "bands", "window": 4096}
    sound = load_task("recordings", path=str(folder), **shared)
    table = load_task("recordings", path=str(tables), rate=RATE, **shared)
    assert table.front_end == sound.front_end
    assert np.array_equal(table.train.x, sound.train.x)


def test_sound_is_trained_with_random_levels_and_hidden_bands_unless_they_are_set(folder: Path) -> None:
    Recipe = tuple[float | None, int, float]

    def recipe(features: str | None, bands: int | None = None, **given: object) -> Recipe:
        chosen = {"path": str(folder), "features": features, "bands": bands}
        options = {name: value for name, value in chosen.items() if value is not None}
        config = resolve_config("recordings", overrides={"task_options": options, **given})
        return config.channel_offset, config.channel_mask, config.class_mixing

    assert recipe(None) == (0.5, 0, 0)
    assert recipe("bands") == (None, 16, 1)
    assert recipe("none") == (0.0, 0, 0)
    assert recipe("bands", 12) == (None, 6, 1)
    assert recipe("bands", channel_offset=0.1, channel_mask=0, class_mixing=0.5) == (0.1, 0, 0.5)
    for path in folder.rglob("*.wav"):
        path.rename(path.with_suffix(".WAV"))
    assert recipe(None) == (0.5, 0, 0)


def test_short_clips_begin_with_silence(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name in ("yes", "no"):
        for part in range(4):
            (tmp_path / name).mkdir(exist_ok=True)
            samples = rng.normal(0, 900, RATE - 1000 * (part % 2)).astype(np.int16)
            wavfile.write(tmp_path / name / f"{part}.wav", RATE, samples)
    splits = load_task("recordings", path=str(tmp_path))
    parts = (splits.train, splits.validation, splits.test)
    assert sum(map(len, parts)) == 8  # one window per clip


@pytest.mark.parametrize("features", ["none", "mel"])
def test_sound_of_another_rate_than_in_training_is_refused(features: str, folder: Path) -> None:
    splits = load_task("recordings", path=str(folder), features=features, window=2000)
    assert splits.options["rate"] == RATE
    other = folder / "other.wav"
    wavfile.write(other, 2 * RATE, np.ones(6000, np.int16))
    with pytest.raises(InputError, match=r"8000 Hz, .*other\.wav has 16000 Hz"):
        read_like(other, splits.options, labelled=False)


@pytest.mark.parametrize("features", ["none", "mel"])
def test_mixed_rates_are_refused_with_both(features: str, folder: Path) -> None:
    wavfile.write(folder / "fan" / "9.wav", 16000, np.ones(48000, np.int16))
    with pytest.raises(InputError, match=r"8000 Hz .*16000 Hz"):
        load_task("recordings", path=str(folder), features=features)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": 16000}, "16000"),
        ({"unit": 0.0}, "unit"),
        ({"unit": 0.01}, "16 bits"),
        ({"columns": ("left",)}, "left"),
        ({"window": 100}, "--window 100"),
        ({"hop": 33}, "33"),
        ({"frame": 100, "frame_hop": 200}, "200"),
        ({"bands": 7}, "7"),
        ({"features": "mfcc"}, "mfcc"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_their_value(
    options: dict[str, object], said: str, folder: Path
) -> None:
    with pytest.raises(InputError, match=said):
        load_task("recordings", path=str(folder), **options)


def test_a_table_without_a_rate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n" + "1,a\n2,a\n" * 500)
    with pytest.raises(InputError, match="--rate"):
        load_task("recordings", path=str(tmp_path / "a.csv"), features="bands")


def test_files_of_any_rate_are_resampled_on_request_and_so_are_those_of_a_prediction(folder: Path) -> None:
    rng = np.random.default_rng(2)
    wavfile.write(folder / "fan" / "9.wav", 11025, rng.normal(0, 1000, 4 * 11025).astype(np.int16))
    splits = load_task("recordings", path=str(folder), resample=4000, window=2000)
    assert splits.front_end is not None and splits.front_end.rate == 4000
    assert "resampled from 11025 to 4000 Hz" in splits.assumptions[0]

    found = read_like(folder / "fan" / "9.wav", splits.options, labelled=False)
    assert found.x.shape[1:] == splits.train.x.shape[1:] and len(found.x) > 10


def test_a_resampled_tone_is_the_tone_at_the_new_rate() -> None:
    def tone(rate: int) -> Sound:
        return Sound(np.rint(9000 * np.sin(2 * np.pi * 300 * np.arange(rate) / rate)).astype(np.int16), rate)

    found = resampled(tone(11025), 8000)
    assert (found.rate, len(found.samples)) == (8000, 8000)
    assert np.abs(found.samples[400:-400].astype(int) - tone(8000).samples[400:-400]).max() <= 20


def test_a_table_is_not_resampled(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n" + "1,a\n2,a\n" * 500)
    with pytest.raises(InputError, match=r"--resample is for WAV files, got .*a\.csv"):
        load_task("recordings", path=str(tmp_path / "a.csv"), resample=8000)
