"""The packed file: the paper's size, the same integers, and no trust in its content."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import numpy as safetensors_numpy

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, IntegerModel, file_size, load, save
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.fixedpoint.file import _checksum, from_bytes, to_bytes
from tests.family_models import family_codes, family_model
from tests.integer_models import integer_model, with_layer

Strategy = Callable[..., st.SearchStrategy[Any]]


def paper_model(hidden: int, inputs: int, outputs: int, weight_bits: int, kind: Any) -> IntegerModel:
    rng = np.random.default_rng(0)
    half = 1 << weight_bits - 1
    return integer_model(
        hidden_size=hidden,
        block_size=hidden,
        input_size=inputs,
        output_size=outputs,
        weight_bits=weight_bits,
        activation_bits=12,
        input_bits=2 if kind == "one_hot" else 9,
        recurrence="linear",
        every_output=kind == "one_hot",
        input_kind=kind,
        signs=rng.choice([-1, 1], hidden),
        input_weight_int=rng.integers(-half, half, (hidden, inputs), np.int8),
        input_bias_int=rng.integers(-2048, 2048, hidden, np.int16),
        output_weight_int=rng.integers(-half, half, (outputs, hidden), np.int8),
        output_bias_int=rng.integers(-2048, 2048, outputs, np.int16),
        hidden_shift=1,
        accumulator_frac_bits=11,
        input_bias_shift=0,
        output_bias_shift=3,
        input_scale=2.0,
        logit_scale=0.001,
        metadata={"task": "copy", "accuracy": 0.25},
    )


@pytest.mark.parametrize(
    ("hidden", "inputs", "outputs", "kind", "printed"),
    [(128, 10, 9, "one_hot", "1.40"), (512, 1, 10, "dense", "3.58")],
)
def test_payload_of_the_file_is_the_papers_formula(
    tmp_path: Path, hidden: int, inputs: int, outputs: int, kind: str, printed: str
) -> None:
    size = save(paper_model(hidden, inputs, outputs, 4, kind), tmp_path / "m")

    bits = hidden + 4 * hidden * (inputs + outputs) + 12 * (hidden + outputs)
    tensors = safetensors_numpy.load((tmp_path / "m").read_bytes())
    assert size.payload == sum(tensor.nbytes for tensor in tensors.values()) == (bits + 7) // 8
    assert f"{size.payload / 1024:.2f}" == printed
    assert size.extra == 0
    assert size.total == (tmp_path / "m").stat().st_size


def test_a_network_without_an_input_bias_stores_none() -> None:
    biased = paper_model(512, 1, 10, 4, "dense")
    unbiased = with_layer(biased, network={"input_bias": False}, input_bias_int=None)

    data = to_bytes(unbiased)
    size = file_size(unbiased, len(data))
    assert "input_bias_int" not in safetensors_numpy.load(data)
    assert size.payload == file_size(biased, 10_000).payload - 512 * 12 // 8
    assert size.payload == -(-network_size(unbiased.network).bits // 8)
    assert from_bytes(data) == unbiased


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_loading_gives_the_integers_that_were_saved(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    codes = data.draw(code_batches(model))

    again = from_bytes(to_bytes(model))

    assert again == model
    assert to_bytes(again) == to_bytes(model)
    assert np.array_equal(Engine(again).run(codes).logits, Engine(model).run(codes).logits)


STACK: dict[str, Any] = {
    "layer_sizes": (8, 24),
    "num_blocks": 2,
    "input_size": 8,
    "input_kind": "dense",
    "leak": (1, 3),
    "readouts": ("mean", "max"),
    "thresholds": 1,
    "skip": True,
    "normalize": True,
    "stride": 2,
    "activation_bits": 12,
    "weight_bits": 4,
    "vocabulary_size": None,
    "every_output": False,
}


def test_loading_gives_every_network_of_the_family_and_the_size_that_cost_counts() -> None:
    rng = np.random.default_rng(4)
    for _ in range(150):
        model = family_model(rng)
        data = to_bytes(model)
        again = from_bytes(data)
        codes = family_codes(rng, model, batch=2, time=3)

        assert again == model
        assert to_bytes(again) == data
        assert np.array_equal(Engine(again).run(codes).logits, Engine(model).run(codes).logits)
        tensors = safetensors_numpy.load(data)
        size, bits = file_size(model, len(data)), network_size(model.network).bits
        # Each tensor is rounded up to whole bytes.
        assert bits <= 8 * size.payload < bits + 8 * len(tensors)
        assert size.total == len(data)


def test_the_payload_of_a_stack_is_its_cost_to_the_byte() -> None:
    model = family_model(np.random.default_rng(1), **(STACK | {"layer_sizes": (16, 24, 8), "output_size": 2}))

    assert 8 * file_size(model, 10_000).payload == network_size(model.network).bits


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header of a file without its checksum, and the tensors."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["hadamrnn"])
    del header["sha256"]
    return header, safetensors_numpy.load(data)


def forged(header: dict[str, Any], tensors: dict[str, Any]) -> bytes:
    """Return a file with this header, these tensors and a valid checksum."""
    text = json.dumps({**header, "sha256": _checksum(header, tensors)})
    data: bytes = safetensors_numpy.save(tensors, metadata={"hadamrnn": text})
    return data


def test_a_stack_whose_leaks_contradict_its_network_is_refused() -> None:
    header, tensors = opened(to_bytes(family_model(np.random.default_rng(1), **STACK)))
    tensors["leak"] = tensors["leak"] ^ 1

    with pytest.raises(InputError, match="leaks"):
        from_bytes(forged(header, tensors))


def test_a_name_of_a_tensor_cannot_break_the_line_of_the_error() -> None:
    header, tensors = opened(to_bytes(paper_model(16, 3, 2, 4, "dense")))

    with pytest.raises(InputError, match=r"it holds the tensors .*\\n\\x1b") as refused:
        from_bytes(forged(header, {**tensors, "a\n\x1b[2J": tensors["signs"]}))
    assert str(refused.value).isprintable()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, cut, repeat or insert bytes; half of the time in the header, where it matters most."""
    copy = bytearray(data)
    header = 8 + struct.unpack("<Q", data[:8])[0]
    for _ in range(rng.choice([1, 1, 1, 2, 8, 64])):
        at = rng.randrange(rng.choice([min(8, len(copy)), min(header, len(copy)), len(copy)]) or 1)
        match rng.randrange(6):
            case 0:
                copy[at : at + 1] = bytes([copy[at] ^ 1 << rng.randrange(8)]) if copy else b""
            case 1:
                copy[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                del copy[at : at + rng.randrange(1, 40)]
            case 3:
                copy[at:at] = rng.randbytes(rng.randrange(1, 40))
            case 4:
                copy[at : at + 8] = rng.choice(
                    [b"\xff" * 8, b"\0" * 8, b"99999999", b'[[[[{"":', b"1e999999"]
                )
            case _:
                del copy[at:]
        if not copy:
            break
    return bytes(copy)


@pytest.mark.slow
def test_ten_thousand_damaged_files_load_or_fail_with_one_clear_error() -> None:
    rng = random.Random(5)
    models = [paper_model(16, 3, 2, bits, "dense") for bits in (2, 4)]
    models.append(family_model(np.random.default_rng(1), **STACK))
    originals = [to_bytes(model) for model in models]
    loaded = 0
    tracemalloc.start()
    for round_ in range(10_000):
        data = damaged(originals[round_ % 3], rng)
        try:
            assert from_bytes(data) == models[round_ % 3]  # the damage only affected white space
            loaded += 1
        except InputError as error:
            assert str(error)
            assert "\n" not in str(error)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert loaded < 1_000


@pytest.mark.slow
@pytest.mark.parametrize("stacked", [False, True])
def test_forged_fields_with_a_good_checksum_fail_clearly(stacked: bool) -> None:
    """A checksum only protects against accidents: every field is checked all the same."""
    rng = random.Random(6)
    stack = family_model(np.random.default_rng(1), **STACK)
    header, tensors = opened(to_bytes(stack if stacked else paper_model(16, 3, 2, 4, "dense")))
    values: list[Any] = [
        None,
        -1,
        0,
        1,
        2**15,
        2**31,
        2**70,
        1e300,
        0.5,
        "",
        "ternary",
        "relu",
        True,
        [],
        {},
        [[1]],
    ]
    for _ in range(2_000):
        changed = json.loads(json.dumps(header))
        field = rng.choice(list(changed["model"]))
        changed["model"][field] = rng.choice(values)
        parts = dict(tensors)
        name = rng.choice(list(parts))
        match rng.randrange(4):
            case 0:
                del parts[name]
            case 1:
                parts[name] = parts[name][:-1]
            case 2:
                parts[name] = parts[name].astype(np.float32)
            case _:
                parts["other"] = parts[name]
        for chosen in (tensors, parts):
            try:
                from_bytes(forged(changed if chosen is tensors else header, chosen))
            except InputError as error:
                assert "\n" not in str(error)
            else:
                # A forged scalar, or a missing b_i, may give a valid model; other bad tensors never do.
                assert chosen is tensors or tensors.keys() - chosen.keys() == {"input_bias_int"}


def test_what_is_no_model_says_so(tmp_path: Path) -> None:
    other = safetensors_numpy.save({"weight": np.zeros(3, np.float32)})
    (tmp_path / "other").write_bytes(other)

    with pytest.raises(InputError, match=r"other: .* must be a hadamrnn-integer-model of version 3"):
        load(tmp_path / "other")
    with pytest.raises(InputError, match="shorter than its header"):
        from_bytes(b"")


def test_a_newer_version_is_refused() -> None:
    data = to_bytes(paper_model(16, 3, 2, 4, "dense"))

    with pytest.raises(InputError, match=r"of version 3, got .* version 4"):
        from_bytes(data.replace(b'version\\": 3', b'version\\": 4'))


def test_an_embedding_is_counted_apart() -> None:
    plain = paper_model(16, 3, 2, 4, "dense")
    table = np.zeros((5, 3), np.int16)
    words = {"input_kind": "embedded", "vocabulary_size": 5}
    embedded = with_layer(plain, network=words, embedding_int=table)

    assert file_size(embedded, 1000).payload == file_size(plain, 1000).payload
    assert file_size(embedded, 1000).extra == -(-15 * plain.input_bits // 8)
