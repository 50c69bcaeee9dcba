"""Load two GLUE tasks as bert-base-uncased word pieces: SST-2 (sentiment) and QQP (duplicate questions).

    sst2   [PAD] ... [CLS] sentence [SEP]
    qqp    [PAD] ... [CLS] question [SEP] [SEP] question [SEP]

A row has 128 pieces. The longer of two questions is truncated first, rows are padded on the left with [PAD]
(id 0), and there are no `lengths`.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from hadamrnn.data.files import DataFile, fetch, present
from hadamrnn.data.splits import Split, Splits, in_parts
from hadamrnn.data.tasks import Task
from hadamrnn.errors import InputError
from hadamrnn.settings import Range
from hadamrnn_paper.data.imdb import PAPER_TEXT, WORDS, pad_left

EMBEDDING_SIZE = 256
SeqLength = Annotated[int, Range(6, 10_000)]  # in pieces, of which up to 4 are separators
SUBSET_NOTE = "a subset of {:,} question pairs in splits of its own: not comparable with GLUE's QQP"
ENCODE_AT_ONCE = 10_000  # each result of the tokenizer takes kilobytes until it is packed as ids

BERT = {
    "vocabulary": DataFile(
        paths=("bert_vocab/vocab.txt", "vocab.txt"),
        home="https://huggingface.co/google-bert/bert-base-uncased",
        url="https://huggingface.co/google-bert/bert-base-uncased/resolve/main/vocab.txt",
        sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    ),
}
VOCABULARY = BERT["vocabulary"]
SST2_FILES = {
    "original": DataFile(
        paths=("sst2/SST-2", "SST-2"),
        home="https://gluebenchmark.com/tasks",
        url="https://dl.fbaipublicfiles.com/glue/data/SST-2.zip",
        sha256="d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
    ),
    "train": DataFile(
        paths=("sst2/train.tsv.gz",),
        home="https://gluebenchmark.com/tasks",
        sha256="7d35c8190bf12e4b0ff3b42954bf65412256bc4ff7042608512e9e664ed64bc7",
        obtain="a compressed copy of GLUE's file; the archive is read if this file is missing",
    ),
    "dev": DataFile(
        paths=("sst2/dev.tsv.gz",),
        home="https://gluebenchmark.com/tasks",
        sha256="2b362b78d36eccad2d3304110e76d95a56654f860a5913f91fe4b12546d439b4",
        obtain="a compressed copy of GLUE's file; the archive is read if this file is missing",
    ),
    "test": DataFile(
        paths=("sst2/test.tsv.gz",),
        home="https://gluebenchmark.com/tasks",
        sha256="c7e3d4bf1a476e7fe34df190233299e2fc7c024ff7b60f415c9db98b15fd8c5d",
        obtain="a compressed copy of GLUE's file; the archive is read if this file is missing",
    ),
    "test_labels": DataFile(
        paths=("sst2/test_labels.tsv.gz",),
        home="https://nlp.stanford.edu/sentiment/",
        sha256="7279500119b8b7f0eda09b7295e8dfc1c26eede1751f70276c529c7dba1e632a",
        obtain="the treebank's public test labels in GLUE's order; without it the test part has no labels",
    ),
}
QQP_FILES = {
    "original": DataFile(
        paths=("qqp/QQP", "QQP"),
        home="https://gluebenchmark.com/tasks",
        url="https://dl.fbaipublicfiles.com/glue/data/QQP-clean.zip",
        sha256="40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
    ),
    "subset": DataFile(
        paths=("qqp_subset/qqp_subset.tsv.gz",),
        home="https://quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
        sha256="1486b9b2b1ddf58e630bb162061c92ffb0c734c09b8bfcd5eca96e0503cb5ace",
        obtain="a subset of GLUE's pairs; without it GLUE's archive is read",
    ),
    "more": DataFile(
        paths=("qqp_subset/qqp_train_extra.tsv.gz",),
        home="https://quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
        sha256="5ff5f4135fa98f43896e99cd645305939532b2e12a0563a2bc49c61f046ab399",
        obtain="a subset of GLUE's pairs; without it GLUE's archive is read",
    ),
}

LABELS = ("label", "is_duplicate")  # possible names of the label column
QUESTIONS = ("question1", "question2")
Table = dict[str, list[str]]  # by column


def load_sst2(data_dir: str | Path | None = None, *, seq_length: SeqLength = 128) -> Splits:
    """Return SST-2, with GLUE's dev file for validation. GLUE keeps the labels of its test file private.

    If the public treebank's labels are present (`sst2/test_labels.tsv.gz`), the test split has them; they are
    for reporting, never for selection. Otherwise `test.y` is None.
    """
    if present(SST2_FILES["train"], data_dir):
        paths = {part: fetch(SST2_FILES[part], data_dir) for part in ("train", "dev", "test")}
    else:
        paths = _files_of(fetch(SST2_FILES["original"], data_dir))
    tables = [read_columns(paths[part], ("sentence", "label")) for part in ("train", "dev")]
    test = read_columns(paths["test"], ("index", "sentence"))
    labels = present(SST2_FILES["test_labels"], data_dir)
    if labels:
        test["label"] = _labels_by_index(test["index"], labels)
    return _splits("sst2", [*tables, test], ("sentence",), data_dir, seq_length, ("negative", "positive"))


def load_qqp(data_dir: str | Path | None = None, *, seq_length: SeqLength = 128) -> Splits:
    """Return QQP: GLUE's files if present, else the subset of 48,110 pairs, else GLUE's after a download.

    The subset has different splits, as its `note` says, so its figures are not comparable with GLUE's. 9,043
    of its training pairs are in a separate, optional file.
    """
    subset = None if present(QQP_FILES["original"], data_dir) else present(QQP_FILES["subset"], data_dir)
    note = ""
    if subset:
        table = read_columns(subset, ("split", *QUESTIONS, "is_duplicate"))
        more = present(QQP_FILES["more"], data_dir)
        if more:
            added = read_columns(more, (*QUESTIONS, "is_duplicate"))
            added["split"] = ["train"] * len(added["is_duplicate"])
            table = {column: [*values, *added[column]] for column, values in table.items()}
        tables = [_rows_of(table, split) for split in ("train", "dev", "test")]
        note = SUBSET_NOTE.format(len(table["split"]))
    else:
        paths = _files_of(fetch(QQP_FILES["original"], data_dir))
        tables = [read_columns(paths[part], (*QUESTIONS, "is_duplicate")) for part in ("train", "dev")]
        tables.append(read_columns(paths["test"], QUESTIONS))
    return _splits("qqp", tables, QUESTIONS, data_dir, seq_length, ("different", "duplicate"), note)


def _splits(
    task: str,
    tables: list[Table],
    texts: tuple[str, ...],
    data_dir: str | Path | None,
    seq_length: int,
    class_names: tuple[str, str],
    note: str = "",
) -> Splits:
    encoder = Encoder(fetch(VOCABULARY, data_dir), seq_length)
    return in_parts(
        task,
        (Split(encoder.encode(tuple(table[name] for name in texts)), _labels(table)) for table in tables),
        input_size=EMBEDDING_SIZE,
        output_size=1,
        vocabulary_size=encoder.vocabulary_size,
        class_names=class_names,
        note=note,
    )


class Encoder:
    """Encode text as word piece ids of a fixed length, padded on the left."""

    def __init__(self, vocabulary: Path, seq_length: int) -> None:
        try:
            from tokenizers import BertWordPieceTokenizer
            from tokenizers.processors import TemplateProcessing
        except ImportError as error:
            raise InputError("Word pieces need tokenizers: pip install tokenizers.") from error

        self._tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
        self._tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] [SEP] $B [SEP]",
            special_tokens=[(mark, self._tokenizer.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")],
        )
        self._tokenizer.enable_truncation(seq_length)
        self.vocabulary_size: int = self._tokenizer.get_vocab_size()
        self._seq_length = seq_length

    def encode(self, texts: tuple[list[str], ...]) -> Tensor:
        """Return the ids `(n, seq_length)` of n texts, or of n pairs of texts given as two lists."""
        rows: Sequence[object] = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
        parts = []
        for start in range(0, len(rows), ENCODE_AT_ONCE):
            encodings = self._tokenizer.encode_batch(rows[start : start + ENCODE_AT_ONCE])
            ids = [encoding.ids for encoding in encodings]
            parts.append(pad_left(ids, self._seq_length, self.vocabulary_size))
        return torch.cat(parts)


def read_columns(path: Path, columns: Sequence[str]) -> Table:
    """Return the named columns of a tab-separated file with a header line, gzipped or not.

    Quotes are ordinary characters. Only a line feed ends a line, because sentences contain other separators.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    table: Table = {column: [] for column in columns}
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as stream:
            header = stream.readline().rstrip("\r\n").split("\t")
            for column in columns:
                if column not in header:
                    raise InputError(f"{path} must have a column {column}, got {', '.join(header)}.")
            for number, line in enumerate(stream, start=2):
                cells = line.rstrip("\r\n").split("\t")
                if len(cells) != len(header):
                    raise InputError(
                        f"{path}, line {number}: {len(header)} columns needed, got {len(cells)}."
                    )
                for column in columns:
                    table[column].append(cells[header.index(column)])
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8 text ({error}). Download it again.") from error
    if not table[columns[0]]:
        raise InputError(f"{path} must have rows after its header line, got none.")
    for label in set(LABELS).intersection(columns):
        wrong = [value for value in table[label] if value not in ("0", "1")]
        if wrong:
            raise InputError(f"A {label} is 0 or 1, got {wrong[0]!r} in {path}.")
    return table


def _files_of(folder: Path) -> dict[str, Path]:
    files = {part: folder / f"{part}.tsv" for part in ("train", "dev", "test")}
    for file in files.values():
        if not file.is_file():
            raise InputError(f"{folder} must hold train.tsv, dev.tsv and test.tsv; {file.name} is missing.")
    return files


def _rows_of(table: Table, split: str) -> Table:
    rows = [row for row, name in enumerate(table["split"]) if name == split]
    return {column: [cells[row] for row in rows] for column, cells in table.items()}


def _labels_by_index(index: list[str], labels: Path) -> list[str]:
    """Return the label of each test row; both files carry GLUE's index."""
    table = read_columns(labels, ("index", "label"))
    by_index = dict(zip(table["index"], table["label"], strict=True))
    if set(by_index) != set(index):
        raise InputError(f"{labels} must label every row of the test file and no other.")
    return [by_index[row] for row in index]


def _labels(table: Table) -> Tensor | None:
    """Return the labels 0 / 1 of a table, None if they are private."""
    for column in set(LABELS).intersection(table):
        return torch.tensor([int(value) for value in table[column]])
    return None


# The paper gives the number of epochs; batch size, learning rate, decay and balance come from the authors'
# code.
PAPER = {**PAPER_TEXT, "weight_bits": 2, "batch_size": 20, "balanced": True}
BEST = {**WORDS, "weight_bits": 2, "epochs": 2, "input_dropout": 0.4, "balanced": True}
SST2 = Task(
    load_sst2,
    {
        "paper": {**PAPER, "hidden_size": 128, "epochs": 60},
        "quick": {**BEST, "hidden_size": 128, "epochs": 1},
        "best": {**BEST, "hidden_size": 128},
    },
    "GLUE's sentences as word pieces: positive?",
    {**SST2_FILES, **BERT},
)
QQP = Task(
    load_qqp,
    {
        # Blocks of 128 as in the paper's text; its table prints q = 128.
        "paper": {**PAPER, "hidden_size": 512, "num_blocks": 4, "epochs": 50},
        "quick": {**BEST, "hidden_size": 128, "num_blocks": 4, "epochs": 1},
        "best": {**BEST, "hidden_size": 512, "num_blocks": 4},
    },
    "GLUE's pairs of questions: the same?",
    {**QQP_FILES, **BERT},
)
