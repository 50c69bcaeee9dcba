"""The paper's tasks with their recipes, as the entry points of this package name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hadamrnn.data.tasks import Loader, Task
from hadamrnn_paper.data.dsa import load_dsa19
from hadamrnn_paper.data.glue import load_qqp, load_sst2
from hadamrnn_paper.data.imdb import load_imdb
from hadamrnn_paper.data.mnist import load_pmnist, load_smnist

SOURCE = Path(__file__).with_name("presets.yaml")
_RECIPES: dict[str, Any] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))


def _task(loader: Loader) -> Task:
    name = loader.__name__.removeprefix("load_")
    return Task(loader, {preset: _RECIPES[preset][name] for preset in ("paper", "quick", "best")})


SMNIST, PMNIST, IMDB = _task(load_smnist), _task(load_pmnist), _task(load_imdb)
SST2, QQP, DSA19 = _task(load_sst2), _task(load_qqp), _task(load_dsa19)
