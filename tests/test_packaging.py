"""The wheel built from the sdist works in a clean environment without the repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = Path(__file__).with_name("smoke.py")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    words = [str(part) for part in command]
    result = subprocess.run(words, capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def lend_dependencies(folder: Path) -> None:
    """Link the packages of this environment into `folder`, except for this repository's own."""
    folder.mkdir()
    places = {Path(sysconfig.get_path("purelib")), *(Path(place) for place in sys.path)}
    for place in (place for place in places if (place / "torch").is_dir()):
        for package in place.iterdir():
            if "hadamrnn" not in package.name and package.suffix != ".pth":
                (folder / package.name).symlink_to(package)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from the sdist alone."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    assert len(list(folder.glob("*.tar.gz"))) == 1
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_the_library_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"hadamrnn"}
    rooms = {name.split("/")[1] for name in names if name.startswith("hadamrnn/") and name.count("/") > 1}
    assert "nn" in rooms and not rooms & {
        "paper",
        "baselines",
        "bench",
        "benchmarks",
        "reproduction",
        "tests",
    }
    foreign = ("fastgrnn", "lstm", "qornn", "reproduce", "cli/report", "imdb", "glue", "tables.yaml")
    assert [name for name in names if any(part in name for part in foreign)] == []


@pytest.mark.slow
def test_a_clean_environment_trains_quantizes_and_exports(wheel: Path, tmp_path: Path) -> None:
    """Dependencies are borrowed from this environment; the package itself is not."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    assert (site / "hadamrnn" / "py.typed").exists()
    for data in ("export/runtime/model.c.j2", "export/runtime/counter.h", "runtime/hadamrnn.h"):
        assert (site / "hadamrnn" / data).exists()
    lend_dependencies(tmp_path / "lent")
    (site / "lent.pth").write_text(f"{tmp_path / 'lent'}\n")

    facts = json.loads(run(python, SMOKE, cwd=tmp_path))
    assert facts["backend"] == ("native" if shutil.which("cc") else "torch")
    assert facts["instruction_sets"] or facts["backend"] == "torch"
    assert facts["c"] == bool(shutil.which("cc") and shutil.which("make"))
    where = run(python, "-I", "-c", "import hadamrnn; print(hadamrnn.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(site)
