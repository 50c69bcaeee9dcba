"""Wheel and sdist install into a clean environment and work there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path) -> str:
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_clean_environment_takes_the_package(
    kind: str, distributions: dict[str, Path], tmp_path: Path
) -> None:
    """Dependencies are borrowed from this environment by a path file; the package itself is not."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", distributions[kind])
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    assert (site / "hadamrnn" / "py.typed").exists()
    for data in ("export/runtime/model.c.j2", "export/runtime/counter.h", "runtime/hadamrnn.h"):
        assert (site / "hadamrnn" / data).exists()
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    facts = json.loads(run(python, "-I", "-m", "hadamrnn", "doctor", "--json"))
    assert facts["torch"]
    assert facts["backend"] == ("native" if shutil.which("cc") else "torch")
    where = run(python, "-I", "-c", "import hadamrnn; print(hadamrnn.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    code = "import torch, hadamrnn; print(tuple(hadamrnn.HadamRNN(3, 12)(torch.zeros(5, 2, 3))[0].shape))"
    assert run(python, "-I", "-c", code).strip() == "(5, 2, 12)"
