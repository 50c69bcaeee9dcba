"""The paper's tasks with their recipes, as the entry points of this package name them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hadamrnn.data.files import DataFile
from hadamrnn.data.task import Loader, Task
from hadamrnn_paper.data import dsa, glue, imdb, mnist
from hadamrnn_paper.data.dsa import load_dsa19
from hadamrnn_paper.data.glue import load_qqp, load_sst2
from hadamrnn_paper.data.imdb import load_imdb
from hadamrnn_paper.data.mnist import load_pmnist, load_smnist

SOURCE = Path(__file__).with_name("presets.yaml")
_RECIPES: dict[str, Any] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))


def _task(loader: Loader, help: str, files: Mapping[str, DataFile]) -> Task:
    name = loader.__name__.removeprefix("load_")
    recipes = {preset: _RECIPES[preset][name] for preset in ("paper", "quick", "best")}
    return Task(loader, recipes, help, files)


SMNIST = _task(load_smnist, "handwritten digits, 784 pixels one by one", mnist.FILES)
PMNIST = _task(load_pmnist, "the same, pixels in a fixed random order", mnist.FILES)
IMDB = _task(load_imdb, "film reviews as word ids: positive?", imdb.FILES)
SST2 = _task(load_sst2, "GLUE's sentences as word pieces: positive?", {**glue.SST2, **glue.BERT})
QQP = _task(load_qqp, "GLUE's pairs of questions: the same?", {**glue.QQP, **glue.BERT})
DSA19 = _task(load_dsa19, "body-worn sensors, nineteen activities", dsa.FILES)
