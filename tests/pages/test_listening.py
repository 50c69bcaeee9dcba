"""The listening page: samples pushed in the browser give Python's bits, and each error gives one line."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import wavfile
from selenium.webdriver import Chrome

from hadamrnn.export.page import Clip, Stored, live_network, live_part
from hadamrnn.fixedpoint import Engine, IntegerModel, encode_raw
from hadamrnn.front_end import FrontEnd
from hadamrnn.front_end.reference import compute_bands
from hadamrnn.models import find
from hadamrnn.pages.document import Document, to_html
from hadamrnn_paper.data.keywords import WORDS, expand
from tests.export.random_models import random_model
from tests.pages.browser import open_browser, open_page, part, wait

pytestmark = pytest.mark.pages
ROOT = Path(__file__).parents[2]
FAKE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
FRONT_END = FrontEnd("mel", rate=8000, frame=200, hop=80, bands=16)
NAMES = ("silence", "low", "high")
STEPS, BLOCK = 98, 1024
TONE = 1500.0  # frequency of the fake microphone


def noise(seconds: float, seed: int) -> NDArray[np.int16]:
    rng = np.random.default_rng(seed)
    count = int(seconds * FRONT_END.rate)
    loudness = np.exp2(rng.uniform(3, 13, count // 400 + 1)).repeat(400)[:count]
    return np.rint(rng.normal(0, 0.2, count) * loudness).astype(np.int16)


@pytest.fixture(scope="module")
def model() -> IntegerModel:
    """A network of random weights behind a front end."""
    sizes = {"input_size": 16, "hidden_size": 32, "block_size": 4, "output_size": 3, "weight_bits": 4}
    kinds = {"input_kind": "dense", "every_output": False, "raw": False, "recurrence": "linear"}
    drawn = random_model(
        np.random.default_rng(4), **sizes, **kinds, input_bits=12, activation_bits=12, reads=True
    )
    return replace(
        drawn,
        network=replace(drawn.network, front_end=FRONT_END),
        metadata={"class_names": json.dumps(NAMES)},
    )


@pytest.fixture(scope="module")
def page(model: IntegerModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sounds = [noise(1, seed) for seed in range(3)]
    stored = Stored(np.stack([compute_bands(FRONT_END, sound) for sound in sounds]), np.arange(3), raw=True)
    live = live_network(model, "net", "A sound", stored, clips=[Clip(sounds[1], 1)])
    path = tmp_path_factory.mktemp("listening") / "net.html"
    path.write_text(to_html(Document("Listening", (), live=live_part(live))), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser whose microphone hears a tone."""
    path = tmp_path_factory.mktemp("sound") / "tone.wav"
    tone = 8000 * np.sin(2 * np.pi * TONE * np.arange(3 * 16_000) / 16_000)
    wavfile.write(path, 16_000, tone.astype(np.int16))
    with open_browser(*FAKE, f"--use-file-for-fake-audio-capture={path}") as opened:
        yield opened


def answers(model: IntegerModel, codes: NDArray[np.int32]) -> list[list[int]]:
    logits: list[list[int]] = Engine(model).run(codes).logits.tolist()
    return logits


def test_a_recording_is_read_as_python_reads_it(page: Path, model: IntegerModel, browser: Chrome) -> None:
    open_page(browser, page)
    browser.find_element("css selector", "[data-clip='0']").click()
    wait(browser, "live[0].part.stored.textContent === 'a recording' && live[0].done")
    codes, logits = browser.execute_script(
        "return [live[0].sequence.map(each => [...each]), [...live[0].logits]]"
    )

    expected, _ = encode_raw(model, compute_bands(FRONT_END, noise(1, 1)).astype(np.int32))
    assert codes == expected.tolist() and len(codes) == STEPS
    assert logits == answers(model, expected[None])[0]
    assert part(browser, "answer").text.endswith(": low.")
    assert part(browser, "notice").text == ""


# Push samples in blocks; return the logits after each block that produces new ones.
PUSH = """
  const [samples, block] = arguments, {listening} = live[0], found = [];
  listening.begin();
  for (let at = 0; at < samples.length; at += block) {
    const before = listening.hearing.logits;
    listening.hearing.push(samples.slice(at, at + block));
    if (listening.hearing.logits !== before) found.push([...listening.hearing.logits]);
  }
  const {size, hop} = listening.hearing;
  listening.stop();
  return [found, size, hop];
"""


def test_each_window_of_pushed_samples_has_the_logits_of_python(
    page: Path, model: IntegerModel, browser: Chrome
) -> None:
    samples = noise(3, 7)
    open_page(browser, page)
    found, size, hop = browser.execute_script(PUSH, samples.tolist(), FRONT_END.hop)

    codes, _ = encode_raw(model, compute_bands(FRONT_END, samples).astype(np.int32))
    ends = range(size, len(codes) + 1, hop)
    windows = np.stack([codes[end - size : end] for end in ends])
    assert (size, hop) == (100, 10)
    assert found == answers(model, windows) and len(found) == len(windows) > 10


def test_the_microphone_is_heard_and_shown_and_no_request_leaves(page: Path, browser: Chrome) -> None:
    open_page(browser, page)
    part(browser, "listen").click()
    wait(browser, "live[0].listening.hearing && live[0].listening.hearing.answers.length > 3")
    frame = browser.execute_script("return [...live[0].listening.hearing.inputs.at(-1)]")
    shown = (
        "const c = live[0].part.sequence;"
        " return c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
    )

    edges = FRONT_END.edges * FRONT_END.rate / FRONT_END.fft_size
    assert edges[np.argmax(frame)] < TONE < edges[np.argmax(frame) + 2]
    assert len(set(browser.execute_script(shown)[3::4])) > 2
    assert part(browser, "listen").text == "Stop listening"
    assert part(browser, "progress").text.startswith("now: ")
    assert not part(browser, "play").is_enabled()
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    part(browser, "listen").click()
    assert part(browser, "listen").text == "Listen with the microphone" and part(browser, "play").is_enabled()
    part(browser, "play").click()
    wait(browser, "live[0].sequence.length && live[0].labels[0] !== undefined")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_flipped_sign_is_heard_at_once(page: Path, browser: Chrome) -> None:
    open_page(browser, page)
    part(browser, "listen").click()
    wait(browser, "live[0].listening.hearing")
    part(browser, "flip").click()
    used = "live[0].listening.hearing.network === live[0].network"

    assert browser.execute_script(f"return {used} && live[0].flips.length === 1")
    assert part(browser, "listen").text == "Stop listening"
    browser.execute_script("live[0].listening.stop()")


REFUSED = "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', '{}'))"
SERVE = 'run "python -m http.server" in the page\'s folder and open http://localhost:8000/net.html'


@pytest.mark.parametrize(
    ("obstacle", "line"),
    [
        (REFUSED.format("NotAllowedError"), "not allowed"),
        (REFUSED.format("NotFoundError"), "No microphone was found"),
        (REFUSED.format("NotReadableError"), "cannot be read"),
        (REFUSED.format("AbortError"), "cannot be started"),
        ("Object.defineProperty(navigator, 'mediaDevices', {value: undefined})", SERVE),
        ("delete window.AudioWorkletNode", SERVE),
        ("AudioWorklet.prototype.addModule = () => Promise.reject(new Error())", SERVE),
        ("AudioContext.prototype.resume = function () { this.suspend() }", "paused"),
    ],
)
def test_each_obstacle_gets_one_line(obstacle: str, line: str, page: Path, browser: Chrome) -> None:
    open_page(browser, page)
    browser.execute_script(obstacle)
    part(browser, "listen").click()
    wait(browser, "live[0].part.notice.textContent")

    said = part(browser, "notice").text
    assert line in said and "\n" not in said
    assert part(browser, "listen").text == "Listen with the microphone"
    assert browser.execute_script("return live[0].listening.microphone.isOn") is False


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ("context.suspend()", "paused"),
        ("stream.getAudioTracks()[0].dispatchEvent(new Event('ended'))", "was disconnected"),
    ],
)
def test_sound_that_ends_is_said(event: str, line: str, page: Path, browser: Chrome) -> None:
    open_page(browser, page)
    part(browser, "listen").click()
    wait(browser, "live[0].listening.hearing")
    browser.execute_script(f"live[0].listening.microphone.{event}")
    wait(browser, "live[0].part.notice.textContent")

    assert line in part(browser, "notice").text
    assert part(browser, "listen").text == "Listen with the microphone"


MUTED = """
  AudioContext.prototype.createMediaStreamSource = function () {
    const source = this.createConstantSource();
    source.offset.value = 0;
    source.start();
    return source;
  };
"""


def test_a_muted_microphone_is_noticed(page: Path, browser: Chrome) -> None:
    open_page(browser, page)
    browser.execute_script(MUTED)
    part(browser, "listen").click()
    wait(browser, "live[0].part.notice.textContent")

    assert "Is it muted?" in part(browser, "notice").text
    assert part(browser, "listen").text == "Stop listening"
    browser.execute_script("live[0].listening.stop()")


def test_a_stopped_microphone_does_not_start_late(page: Path, browser: Chrome) -> None:
    open_page(browser, page)
    browser.execute_script("live[0].listening.start(); live[0].listening.stop()")
    browser.execute_async_script("setTimeout(arguments[0], 500)")

    on = "live[0].listening.microphone.isOn || live[0].listening.hearing !== null"
    assert browser.execute_script(f"return {on}") is False


@pytest.fixture(scope="module")
def keywords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The playground's network of keywords on a page of its own."""
    playground = runpy.run_path(str(ROOT / "docs" / "scripts" / "playground.py"))
    path = tmp_path_factory.mktemp("keywords") / "keywords.html"
    document = Document("Keywords", (), live=live_part(playground["keywords"]()))
    path.write_text(to_html(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def recordings() -> list[NDArray[np.int16]]:
    """The words yes, no and stop of the playground."""
    with np.load(ROOT / "docs" / "scripts" / "playground.npz") as arrays:
        return [expand(codes) for codes in arrays["recordings"]]


def test_the_playgrounds_recordings_are_read_as_python_reads_them(
    keywords: Path, recordings: list[NDArray[np.int16]], browser: Chrome
) -> None:
    model = find("keywords-16kb").load()
    assert model.network.front_end is not None
    open_page(browser, keywords)
    for index, samples in enumerate(recordings):
        browser.execute_script("live[0].part.speed.value = 'full'; live[0].part.stored.textContent = ''")
        browser.find_element("css selector", f"[data-clip='{index}']").click()
        wait(browser, "live[0].part.stored.textContent === 'a recording' && live[0].done")
        codes, logits = browser.execute_script(
            "return [live[0].sequence.map(each => [...each]), [...live[0].logits]]"
        )
        bands = compute_bands(model.network.front_end, samples).astype(np.int32)
        expected, _ = encode_raw(model, bands)
        assert codes == expected.tolist() and len(codes) == STEPS
        assert logits == answers(model, expected[None])[0]
        word = ("yes", "no", "stop")[index]
        assert WORDS[int(np.argmax(logits))] == word
        assert part(browser, "answer").text.endswith(f": {word}.")


def test_words_from_the_microphone_are_recognised(
    keywords: Path, recordings: list[NDArray[np.int16]], tmp_path: Path
) -> None:
    faint = np.random.default_rng(0).normal(0, 3, 8000).round().astype(np.int16)
    sound = np.concatenate([faint, *(piece for word in recordings for piece in (faint, word))])
    wavfile.write(tmp_path / "words.wav", 16_000, sound)
    with open_browser(*FAKE, f"--use-file-for-fake-audio-capture={tmp_path / 'words.wav'}") as browser:
        open_page(browser, keywords)
        part(browser, "listen").click()
        wait(browser, "live[0].listening.heard.length >= 3")
        heard = browser.execute_script("return live[0].listening.heard")
        requests = browser.execute_script("return performance.getEntriesByType('resource').length")

    assert heard[::-1][:3] == ["yes", "no", "stop"]
    assert requests == 0
