"""The live pages in a real browser compute the engine's bits after any interaction."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from hadamrnn.data.har import SLOW, STILL, with_fine
from hadamrnn.export.page import Stored, export_page
from hadamrnn.fixedpoint import Engine, IntegerModel, encode_raw, encode_values, load
from hadamrnn.models import find
from hadamrnn.reservoir import IntegerReservoir, feature_counts, feature_steps
from hadamrnn_paper.data.keywords import WORDS
from hadamrnn_paper.data.mnist import pixel_permutation
from tests.pages.browser import DESK, PHONE, faults, open_page, part, serious_violations, wait

pytestmark = pytest.mark.pages
ROOT = Path(__file__).parents[2]
MOTION = "motion-6kb"
KEYWORDS = "keywords-16kb"
STROKE = [(-60, -60), (60, -60), (0, 90)]  # a seven, from the middle of the pad


def opened(browser: Chrome, page: Path) -> None:
    assert faults(browser, page, width=DESK) == []
    Select(part(browser, "speed")).select_by_value("full")


def draw(browser: Chrome) -> None:
    """Draw a seven with synthetic pointer events."""
    pen = ActionChains(browser, duration=20).move_to_element_with_offset(part(browser, "pad"), *STROKE[0])
    pen = pen.click_and_hold()
    for (x0, y0), (x1, y1) in pairwise(STROKE):
        pen = pen.move_by_offset(x1 - x0, y1 - y0)
    pen.release().perform()


def engine_logits(model: IntegerModel, codes: Any) -> list[int]:
    array: NDArray[Any] = np.array(codes)
    logits: list[int] = Engine(model).run(array[None]).logits[0].tolist()
    return logits


def seen(browser: Chrome) -> tuple[list[list[int]], list[int]]:
    """Return the codes that the first network has read, and its logits."""
    script = "return [live[0].sequence.map(codes => [...codes]), [...live[0].logits]]"
    codes, logits = browser.execute_script(script)
    return codes, logits


@pytest.fixture(scope="module")
def digits(pages: dict[str, Path]) -> IntegerModel:
    return load(pages["demo"].parent / "run" / "model.int.safetensors")


def test_a_drawn_digit_is_answered_as_python_does(
    pages: dict[str, Path], digits: IntegerModel, browser: Chrome
) -> None:
    opened(browser, pages["demo"])
    draw(browser)
    wait(browser, "live[0].done && live[0].labels === null && live[0].sequence.length")
    codes, logits = seen(browser)

    levels = browser.execute_script("return live[0].pad.levels")
    assert codes == [[level] for level in levels]  # a digit's level is its code
    assert sum(map(bool, levels)) > 8 and max(levels) == 16
    assert logits == engine_logits(digits, codes)
    assert f"The network says: {int(np.argmax(logits))}, " in part(browser, "answer").text


def test_a_digit_drawn_with_the_keyboard_is_read(
    pages: dict[str, Path], digits: IntegerModel, browser: Chrome
) -> None:
    opened(browser, pages["demo"])
    part(browser, "clear").click()
    keys = [Keys.ARROW_UP, *[Keys.SPACE, Keys.ARROW_DOWN] * 3, Keys.ENTER]
    browser.switch_to.active_element.send_keys("".join(keys))
    wait(browser, "live[0].done && live[0].sequence.length")
    codes, logits = seen(browser)

    assert np.sum(codes) == 3 * 16
    assert logits == engine_logits(digits, codes)
    assert part(browser, "answer").get_attribute("role") == "status"


# Read the first stored sequences of a network; return the codes and the logits of each.
REPLAY = """
  const [network, count] = arguments, widget = live[network];
  return Array.from({length: count}, (_, index) => {
    widget.readStored(index);
    while (!widget.done) widget.advance();
    return [widget.sequence.map(codes => [...codes]), [...widget.logits]];
  });
"""


def test_a_hundred_stored_digits_give_the_logits_of_python(
    pages: dict[str, Path], digits: IntegerModel, browser: Chrome
) -> None:
    opened(browser, pages["page"])
    rows = browser.execute_script(REPLAY, 0, 100)

    expected = Engine(digits).run(np.array([codes for codes, _ in rows])).logits
    assert [logits for _, logits in rows] == expected.tolist()
    assert len({str(codes) for codes, _ in rows}) == 100


def test_fewer_bits_and_flipped_signs_are_what_python_makes_of_them(
    pages: dict[str, Path], digits: IntegerModel, browser: Chrome
) -> None:
    opened(browser, pages["demo"])
    wait(browser, "live[0].counting.done")
    Select(part(browser, "bits")).select_by_value("2")
    part(browser, "unit").clear()
    part(browser, "unit").send_keys("5")
    part(browser, "flip").click()
    wait(browser, "live[0].done && live[0].counting.done")
    codes, logits = seen(browser)

    def coarse(weights: NDArray[np.int8]) -> NDArray[np.int8]:
        return (4 * np.clip(np.floor(weights / 4 + 0.5), -2, 1)).astype(np.int8)

    layer = digits.layers[0]
    signs = layer.signs.copy()
    signs[5] *= -1
    changed = replace(
        digits,
        layers=(replace(layer, signs=signs, input_weight_int=coarse(layer.input_weight_int)),),
        output_weight_int=coarse(digits.output_weight_int),
    )
    stored, labels = browser.execute_script(
        "return [live[0].stored.map(row => row.inputs.map(codes => [...codes])),"
        " live[0].stored.map(row => row.labels[0])]"
    )
    answers = Engine(changed).run(np.array(stored)).logits.argmax(axis=1)
    assert logits == engine_logits(changed, codes)
    assert browser.execute_script("return live[0].counting.right") == int((answers == labels).sum())
    assert part(browser, "flipped").text == "1 flipped" and "as trained" in part(browser, "accuracy").text
    trained = int(np.argmax(engine_logits(digits, codes)))
    assert part(browser, "answer").text.endswith(f"As trained: {trained}.")
    part(browser, "restore").click()
    wait(browser, "live[0].done")
    assert seen(browser)[1] == engine_logits(digits, codes)


def test_a_click_on_a_sign_flips_it(pages: dict[str, Path], digits: IntegerModel, browser: Chrome) -> None:
    opened(browser, pages["demo"])
    ActionChains(browser).move_to_element(part(browser, "signs")).click().perform()
    ((layer, unit),) = browser.execute_script("return live[0].flips")

    assert (
        layer == 0
        and browser.execute_script(f"return live[0].signs[{unit}]") == -digits.layers[0].signs[unit]
    )
    ActionChains(browser).move_to_element(part(browser, "signs")).click().perform()
    assert browser.execute_script("return live[0].flips") == []


def test_a_typed_word_comes_back_after_a_thousand_steps(pages: dict[str, Path], browser: Chrome) -> None:
    model = find("copy-1kb").load()
    opened(browser, pages["playground"])
    Select(part(browser, "speed", "copy")).select_by_value("full")
    for word in ("zebra", "ox"):
        field = part(browser, "word", "copy")
        field.clear()
        field.send_keys(word, Keys.ENTER)
        wait(browser, "live[2].done")
        assert part(browser, "answer", "copy").text == f"The network says: {word}."
        assert part(browser, "says", "copy").text == part(browser, "reads", "copy").text == word
        assert part(browser, "waited", "copy").text == "1,000 of 1,000 steps"
        ids, logits = browser.execute_script("return [live[2].sequence, [...live[2].logits]]")
        assert len(ids) == 1020 and not any(ids[10:1010])
        assert logits == Engine(model).run(np.array([ids])).logits[0, -1].tolist()


def test_the_button_for_mistakes_shows_what_is_answered_wrongly(
    pages: dict[str, Path], digits: IntegerModel, browser: Chrome
) -> None:
    opened(browser, pages["demo"])
    wait(browser, "live[0].counting.done && live[0].done")
    codes, logits = seen(browser)
    (label,) = browser.execute_script("return live[0].labels")
    assert np.argmax(logits) == label  # starts with a correct one
    for _ in range(3):
        part(browser, "mistake").click()
        wait(browser, "live[0].done")
        codes, logits = seen(browser)
        (label,) = browser.execute_script("return live[0].labels")
        assert logits == engine_logits(digits, codes)
        assert np.argmax(logits) != label


def test_an_empty_pad_has_nothing_to_read(pages: dict[str, Path], browser: Chrome) -> None:
    opened(browser, pages["demo"])
    for button in ("clear", "step", "play", "flip"):
        part(browser, button).click()

    assert part(browser, "progress").text == "step 0 of 0" and part(browser, "answer").text == ""
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_networks_that_read_together_are_paused_and_stepped_together(
    pages: dict[str, Path], browser: Chrome
) -> None:
    opened(browser, pages["playground"])
    Select(part(browser, "speed", "pmnist")).select_by_value("slow")
    part(browser, "next", "pmnist").click()
    part(browser, "play", "pmnist").click()
    browser.execute_script("live[0].step = live[1].step")  # the frames of both need not be aligned
    part(browser, "step", "pmnist").click()

    playing, shown, steps, speeds = browser.execute_script(
        "const two = live.slice(0, 2); return [two.map(w => w.playing), two.map(w => w.shown),"
        " two.map(w => w.step), two.map(w => w.part.speed.value)]"
    )
    assert playing == [False, False] and shown == [1, 1] and speeds == ["slow", "slow"]
    assert steps[0] == steps[1] < 784


def test_every_stored_clip_of_a_keyword_gives_the_logits_of_python(
    pages: dict[str, Path], browser: Chrome
) -> None:
    model = find(KEYWORDS).load()
    with np.load(ROOT / "docs" / "scripts" / "playground.npz") as arrays:
        readings, labels = arrays["keywords"].astype(np.int32), arrays["keyword_labels"]
    expected, _ = encode_raw(model, readings)
    opened(browser, pages["playground"])
    rows = browser.execute_script(REPLAY, 4, len(readings))

    assert np.bincount(labels).tolist() == [3] * len(WORDS)
    assert np.array_equal([codes for codes, _ in rows], expected)
    logits = Engine(model).run(expected).logits
    assert np.array_equal([found for _, found in rows], logits)
    wait(browser, "live[4].counting.done")
    assert browser.execute_script("return live[4].counting.right") == (logits.argmax(1) == labels).sum()


def test_the_decision_on_a_keyword_is_named_as_it_runs(pages: dict[str, Path], browser: Chrome) -> None:
    model = find(KEYWORDS).load()
    opened(browser, pages["playground"])
    part(browser, "play", "keywords").click()
    browser.execute_script("live[4].goTo(7); live[4].pause(true)")
    for _ in range(60):
        browser.execute_script("live[4].stepOnce()")
    codes = browser.execute_script("return live[4].sequence.slice(0, 60).map(codes => [...codes])")
    said = WORDS[int(np.argmax(engine_logits(model, codes)))]

    assert part(browser, "progress", "keywords").text == f"step 60 of 98, so far: {said}"
    best = "return document.querySelector('[data-live=keywords] .best').firstChild.textContent"
    assert browser.execute_script(best) == said
    Select(part(browser, "speed", "keywords")).select_by_value("full")
    part(browser, "play", "keywords").click()
    wait(browser, "live[4].done")
    assert part(browser, "answer", "keywords").text.endswith(f": {WORDS[9]}.")


def test_every_layer_shows_its_own_units_and_signs(pages: dict[str, Path], browser: Chrome) -> None:
    model = find(KEYWORDS).load()
    opened(browser, pages["playground"])
    for layer in (0, 1, 2):
        Select(part(browser, "layer", "keywords")).select_by_value(str(layer))
        last = str(model.layers[layer].hidden_size - 1)
        assert part(browser, "unit", "keywords").get_attribute("max") == last
        assert browser.execute_script("return [...live[4].signs]") == model.layers[layer].signs.tolist()


# The events of a phone: the values of a recording, in the browser's units, 60 per second.
SENSOR = """
  const [rows] = arguments, g = 9.80665, degrees = 180 / Math.PI;
  const xyz = ([x, y, z], unit) => ({x: x * unit, y: y * unit, z: z * unit});
  rows.forEach((row, t) => {
    const [alpha, beta, gamma] = row.slice(3, 6).map(each => each * degrees);
    const event = new DeviceMotionEvent("devicemotion", {
      acceleration: xyz(row.slice(0, 3), g), rotationRate: {alpha, beta, gamma},
      accelerationIncludingGravity: xyz(row.slice(6), g), interval: 1000 / 60,
    });
    Object.defineProperty(event, "timeStamp", {value: 1000 + t * 1000 / 60});
    dispatchEvent(event);
  });
  return [live[3].sequence.map(codes => [...codes]), [...live[3].logits], live[3].step];
"""


def test_a_phones_sensor_takes_the_place_of_the_recording(pages: dict[str, Path], browser: Chrome) -> None:
    model = find(MOTION).load()
    touch = {"features": [{"name": "pointer", "value": "coarse"}]}
    values = np.random.default_rng(0).normal(0, 0.3, (154, 9))
    assert faults(browser, pages["playground"]) == []
    assert not part(browser, "sensor", "motion").is_displayed()  # a desktop has no motion sensor
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", touch)
    open_page(browser, pages["playground"])
    try:
        part(browser, "sensor", "motion").click()
        codes, logits, steps = browser.execute_script(SENSOR, values.tolist())
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})

    kept = values[[t for t in range(154) if t % 6 != 1]]  # 50 of 60 readings
    every = with_fine(torch.from_numpy(kept)[None], STILL, SLOW)[0].numpy()
    expected, _ = encode_values(model, every)
    assert steps == len(codes) == 128
    assert codes == expected.tolist()
    assert logits == engine_logits(model, codes)
    assert "The network says: " in part(browser, "answer", "motion").text


def test_two_networks_read_one_drawing_each_in_its_own_order(pages: dict[str, Path], browser: Chrome) -> None:
    opened(browser, pages["playground"])
    Select(part(browser, "speed", "pmnist")).select_by_value("full")
    draw(browser)
    wait(browser, "live[0].done && live[1].done && live[1].labels === null && live[1].sequence.length")
    script = "return live.slice(0, 2).map(w => [w.sequence.map(codes => codes[0]), [...w.logits]])"
    (rows, row_logits), (permuted, permuted_logits) = browser.execute_script(script)

    assert permuted == np.array(rows)[pixel_permutation()].tolist()
    for name, codes, logits in (
        ("digits-4kb", rows, row_logits),
        ("permuted-digits-4kb", permuted, permuted_logits),
    ):
        model = find(name).load()
        assert logits == engine_logits(model, np.array(codes)[:, None])
        assert int(np.argmax(logits)) == 7


SHARES = "return [...live[0].network.shares(live[0].state)]"


def test_a_reservoirs_page_gives_the_logits_and_shares_of_python(
    pages: dict[str, Path], browser: Chrome
) -> None:
    model = IntegerReservoir.load(pages["reservoir"].parents[1] / "reservoir.safetensors")
    opened(browser, pages["reservoir"])
    rows = browser.execute_script(REPLAY, 0, 40)
    codes = np.array([codes for codes, _ in rows])

    assert [logits for _, logits in rows] == model.run(codes).logits.tolist()
    counts = feature_counts(model.units, model.features, codes[-1:])
    steps = feature_steps(model.network, model.features, np.array([codes.shape[1]]))
    shares = np.array(browser.execute_script(SHARES))
    assert (np.abs(shares - (counts / steps)[0]) <= 2.0 ** (model.exponents - 15.0)).all()
    wait(browser, "live[0].counting.done")
    assert browser.execute_script("return live[0].counting.right") > 80


def test_a_reservoirs_flipped_sign_and_fewer_bits_are_what_python_makes_of_them(
    pages: dict[str, Path], browser: Chrome
) -> None:
    model = IntegerReservoir.load(pages["reservoir"].parents[1] / "reservoir.safetensors")
    opened(browser, pages["reservoir"])
    group = len(model.network.groups) - 1
    Select(part(browser, "layer")).select_by_value(str(group))
    part(browser, "unit").clear()
    part(browser, "unit").send_keys("3")
    part(browser, "flip").click()
    Select(part(browser, "bits")).select_by_value("2")
    wait(browser, "live[0].done")
    codes, logits = seen(browser)

    signs = model.units.signs.copy()
    signs[model.network.unit_slices[group].start + 3] *= -1
    unit = 2 ** (model.network.weight_bits - 2)
    coarse = (unit * np.clip(np.floor(model.output_weight_int / unit + 0.5), -2, 1)).astype(np.int8)
    changed = replace(model, units=replace(model.units, signs=signs), output_weight_int=coarse)
    assert logits == changed.run(np.array([codes])).logits[0].tolist()
    assert part(browser, "flipped").text == "1 flipped"


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_a_reservoirs_page_fits_every_screen(
    width: int, dark: bool, pages: dict[str, Path], browser: Chrome
) -> None:
    assert faults(browser, pages["reservoir"], width=width, dark=dark) == []


@pytest.mark.parametrize("name", ["demo", "page", "playground", "reservoir"])
def test_no_request_leaves_a_live_page(name: str, pages: dict[str, Path], browser: Chrome) -> None:
    opened(browser, pages[name])
    wait(browser, "live[live.length - 1].counting.done")
    loaded = "return performance.getEntriesByType('resource').map(entry => entry.name)"

    assert browser.execute_script(loaded) == []
    assert "default-src 'none'" in pages[name].read_text()
    assert pages[name].stat().st_size < 550_000


# Read a stored sequence to its end; return its milliseconds, those that each frame works, and the logits.
TIMED = """
  const [speed, done] = arguments, widget = live[0], start = performance.now(), work = [];
  const frame = widget.frame.bind(widget);
  widget.part.speed.value = speed;
  widget.frame = now => {
    const before = performance.now();
    frame(now);
    document.body.getBoundingClientRect();  // the layout too
    work.push(performance.now() - before);
    if (widget.done) {
      delete widget.frame;
      done([performance.now() - start, work, [...widget.logits]]);
    }
  };
  widget.readStored(1);
"""


def test_an_image_of_784_pixels_is_read_by_512_units_in_two_seconds_at_thirty_frames_a_second(
    browser: Chrome, tmp_path: Path
) -> None:
    model = find("digits-4kb").load()
    codes = np.random.default_rng(0).integers(0, 256, (2, 784, 1))
    page = export_page(model, tmp_path / "page", "net", Stored(codes, np.zeros(2, np.int64))) / "net.html"
    opened(browser, page)
    wait(browser, "live[0].counting.done")
    full, _, logits = browser.execute_async_script(TIMED, "full")
    _, work, slower = browser.execute_async_script(TIMED, "watch")

    assert full < 2000
    assert len(work) > 30 and np.median(work) < 1000 / 30
    assert logits == slower == engine_logits(model, codes[1])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["demo", "page", "playground", "report", "reservoir", "results"])
def test_axe_finds_no_serious_fault(name: str, dark: bool, pages: dict[str, Path], browser: Chrome) -> None:
    assert faults(browser, pages[name], width=PHONE, dark=dark) == []
    assert serious_violations(browser) == []
