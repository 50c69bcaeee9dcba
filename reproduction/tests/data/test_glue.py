from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn_paper.data import glue
from hadamrnn_paper.data.glue import Encoder, read_columns

MARKS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
WORDS = ["good", "bad", "film", "##s", "why", "?", '"']
VOCABULARY = [*MARKS, *WORDS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder with a small vocabulary, which has no published checksum."""
    monkeypatch.setattr(glue, "VOCABULARY", replace(glue.VOCABULARY, sha256=None))
    write(tmp_path / "vocab.txt", "\n".join(VOCABULARY) + "\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def ids(*pieces: str, length: int = 8) -> list[int]:
    return [0] * (length - len(pieces)) + [VOCABULARY.index(piece) for piece in pieces]


def write_sst2(folder: Path) -> None:
    write(folder / "SST-2/train.tsv", "sentence\tlabel\ngood films \t1\nBAD film\t0\n")
    write(folder / "SST-2/dev.tsv", 'sentence\tlabel\n"good\t1\n')
    write(folder / "SST-2/test.tsv", "index\tsentence\n0\tzzz film\n1\tgood\n")


def write_qqp(folder: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    write(folder / "QQP/train.tsv", header + "7\t1\t2\twhy?\tfilm\t0\n8\t3\t4\tgood\tgood\t1\n")
    write(folder / "QQP/dev.tsv", header + "9\t1\t2\tbad\tfilm\t1\n")
    write(folder / "QQP/test.tsv", "id\tquestion1\tquestion2\n0\twhy\tfilm\n")


def test_sst2_is_read_from_glues_folder(folder: Path) -> None:
    write_sst2(folder)

    splits = load_task("sst2", folder, seq_length=8)

    assert splits.train.x.tolist() == [
        ids("[CLS]", "good", "film", "##s", "[SEP]"),
        ids("[CLS]", "bad", "film", "[SEP]"),
    ]
    assert splits.train.y is not None and splits.train.y.tolist() == [1, 0]
    assert splits.validation.x.tolist() == [ids("[CLS]", '"', "good", "[SEP]")]
    assert splits.test.x.tolist() == [ids("[CLS]", "[UNK]", "film", "[SEP]"), ids("[CLS]", "good", "[SEP]")]
    assert splits.test.y is None and not splits.test.labelled and splits.train.labelled
    assert (splits.vocabulary_size, splits.seq_length, splits.note) == (len(VOCABULARY), 8, "")


def test_sst2_takes_public_test_labels_by_their_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(glue.SST2_FILES, "test_labels", replace(glue.SST2_FILES["test_labels"], sha256=None))
    write_sst2(folder)
    labels = folder / "sst2/test_labels.tsv.gz"
    labels.parent.mkdir()
    labels.write_bytes(gzip.compress(b"index\tlabel\n1\t1\n0\t0\n"))

    test = load_task("sst2", folder).test
    assert test.y is not None and test.y.tolist() == [0, 1]

    labels.write_bytes(gzip.compress(b"index\tlabel\n1\t1\n"))
    with pytest.raises(InputError, match="must label every row"):
        load_task("sst2", folder)


def test_qqp_joins_two_questions_with_two_separators(folder: Path) -> None:
    write_qqp(folder)

    splits = load_task("qqp", folder, seq_length=8)

    assert splits.train.x.tolist() == [
        ids("[CLS]", "why", "?", "[SEP]", "[SEP]", "film", "[SEP]"),
        ids("[CLS]", "good", "[SEP]", "[SEP]", "good", "[SEP]"),
    ]
    assert splits.train.y is not None and splits.train.y.tolist() == [0, 1]
    assert splits.test.y is None and splits.note == ""


def test_glues_qqp_is_preferred_to_the_subset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(glue.QQP_FILES, "subset", replace(glue.QQP_FILES["subset"], sha256=None))
    rows = "split\tquestion1\tquestion2\tis_duplicate\n" + "".join(
        f"{split}\twhy\tfilm\t1\n" for split in ("test", "train", "dev", "train")
    )
    (folder / "qqp_subset").mkdir()
    (folder / "qqp_subset/qqp_subset.tsv.gz").write_bytes(gzip.compress(rows.encode()))

    subset = load_task("qqp", folder)
    write_qqp(folder)

    assert [len(part) for part in (subset.train, subset.validation, subset.test)] == [2, 1, 1]
    assert "a subset of 4 question pairs" in subset.note
    assert load_task("qqp", folder).note == ""


def test_more_pairs_of_the_subset_are_trained_on_and_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = "why\tfilm\t1\n"
    for name, path, text in (
        (
            "subset",
            "qqp_subset.tsv.gz",
            "".join(f"{split}\t{pairs}" for split in ("train", "dev", "test")),
        ),
        ("more", "qqp_train_extra.tsv.gz", "7\tgood\tgood\t0\n"),
    ):
        monkeypatch.setitem(glue.QQP_FILES, name, replace(glue.QQP_FILES[name], sha256=None))
        first = "split" if name == "subset" else "id"
        rows = f"{first}\tquestion1\tquestion2\tis_duplicate\n{text}"
        (folder / "qqp_subset").mkdir(exist_ok=True)
        (folder / "qqp_subset" / path).write_bytes(gzip.compress(rows.encode()))
    splits = load_task("qqp", folder)

    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [2, 1, 1]
    assert splits.train.y is not None and splits.train.y.tolist() == [1, 0]
    assert "a subset of 4 question pairs" in splits.note


@given(st.integers(0, 20), st.integers(0, 20), st.integers(6, 24))
@settings(deadline=None, max_examples=60)
def test_a_long_pair_keeps_its_marks(first: int, second: int, length: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as scratch:
        write(Path(scratch, "vocab.txt"), "\n".join(VOCABULARY) + "\n")
        encoder = Encoder(Path(scratch, "vocab.txt"), length)
    row = encoder.encode((["good " * first], ["bad " * second]))[0].tolist()

    kept = min(first + second, length - 4)
    pieces = [VOCABULARY[piece] for piece in row if piece]
    assert len(row) == length and row == [0] * (length - 4 - kept) + row[length - 4 - kept :]
    goods, bads = pieces.count("good"), pieces.count("bad")
    assert goods + bads == kept
    assert pieces == ["[CLS]", *["good"] * goods, "[SEP]", "[SEP]", *["bad"] * bads, "[SEP]"]
    if first + second > kept:  # the longer one is truncated first
        assert abs(goods - bads) <= 1 or goods == first or bads == second


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentence\tlabel\ngood\n", "line 2: 2 columns needed, got 1"),
        ("text\tlabel\ngood\t1\n", "must have a column sentence, got text, label"),
        ("sentence\tlabel\n", "must have rows after its header line"),
        ("sentence\tlabel\ngood\t2\n", "A label is 0 or 1, got '2'"),
    ],
)
def test_a_malformed_table_is_refused(text: str, message: str, folder: Path) -> None:
    write_sst2(folder)
    write(folder / "SST-2/train.tsv", text)

    with pytest.raises(InputError, match=message):
        load_task("sst2", folder)


def test_a_table_must_be_utf8(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(b"sentence\tlabel\n\xff\t1\n")

    with pytest.raises(InputError, match="must be UTF-8"):
        read_columns(tmp_path / "train.tsv", ("sentence", "label"))


def test_a_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "sentence\tlabel\none\u2028line\x0b\t1\r\n")

    assert read_columns(tmp_path / "train.tsv", ("sentence",)) == {"sentence": ["one\u2028line\x0b"]}


def test_a_missing_part_is_named(folder: Path) -> None:
    write_sst2(folder)
    (folder / "SST-2/dev.tsv").unlink()

    with pytest.raises(InputError, match=r"dev\.tsv is missing"):
        load_task("sst2", folder)


def test_marks_need_room(folder: Path) -> None:
    write_sst2(folder)

    with pytest.raises(InputError, match=r"seq_length must lie in 6\.\..*, got 5"):
        load_task("sst2", folder, seq_length=5)


def test_sst2_has_its_counts(
    real_splits: Callable[[str], Splits], fingerprint: Callable[[Split], str]
) -> None:
    splits = real_splits("sst2")
    parts = [splits.train, splits.validation, splits.test]

    assert [tuple(part.x.shape) for part in parts] == [(67_349, 128), (872, 128), (1_821, 128)]
    balance = [part.y.bincount().tolist() for part in parts if part.y is not None]
    assert balance == [[29_780, 37_569], [428, 444], [912, 909]]
    assert splits.vocabulary_size == 30_522
    # "hide new secretions from the parental units", word by word in the vocabulary
    assert splits.train.x[0][-10:].tolist() == [101, 5342, 2047, 3595, 8496, 2013, 1996, 18643, 3197, 102]
    assert [fingerprint(part) for part in parts] == [
        "f951b522c816432b",
        "535aa6f75d872089",
        "2e0d2d621cb10503",
    ]


def test_the_qqp_subset_has_its_counts(
    real_splits: Callable[[str], Splits], fingerprint: Callable[[Split], str]
) -> None:
    splits = real_splits("qqp")
    if not splits.note:
        pytest.skip("the full QQP is at hand, not the subset")
    parts = [splits.train, splits.validation, splits.test]

    assert [tuple(part.x.shape) for part in parts] == [(28_265, 128), (9_917, 128), (9_928, 128)]
    balance = [part.y.bincount().tolist() for part in parts if part.y is not None]
    assert balance == [[17_883, 10_382], [4_944, 4_973], [4_948, 4_980]]
    assert ((parts[0].x == 102).sum(1) == 3).all()
    assert [fingerprint(part) for part in parts] == [
        "3c0e129c1f194330",
        "b73aa2236a2c646c",
        "6d59424362c4e457",
    ]


def test_without_tokenizers_one_line_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sst2(folder)
    monkeypatch.setitem(sys.modules, "tokenizers", None)

    with pytest.raises(InputError, match="pip install tokenizers"):
        load_task("sst2", folder)
