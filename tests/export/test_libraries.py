"""The exported folder as a library of several build systems, and under MISRA's rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hadamrnn.errors import InputError
from hadamrnn.export import export_c
from hadamrnn.export.folder import check_name
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.packages import package_version
from tests.export.random_models import random_model
from tests.family_models import family_model

CMAKE = shutil.which("cmake")
needs_cmake = pytest.mark.skipif(
    CMAKE is None or shutil.which("cc") is None, reason="no cmake, or no C compiler installed"
)
USER_MAIN = """
#include <gesture_window.h>
int main(void)
{
    static gesture_window window;
    return (int)gesture_window_init(&window, (gesture_slot *)0, 4, 4);
}
"""
# Stand-ins for the definitions of Zephyr and ESP-IDF, enough to build the listed files.
ZEPHYR = """
function(zephyr_library_named name)
  add_library(${name} STATIC)
  set(library ${name} PARENT_SCOPE)
endfunction()
function(zephyr_library_sources)
  target_sources(gesture PRIVATE ${ARGV})
endfunction()
function(zephyr_include_directories)
  target_include_directories(gesture PUBLIC ${ARGV})
endfunction()
"""
ESP_IDF = """
set(ESP_PLATFORM 1)
function(idf_component_register)
  cmake_parse_arguments(given "" "" "SRCS;INCLUDE_DIRS" ${ARGV})
  add_library(gesture STATIC ${given_SRCS})
  target_include_directories(gesture PUBLIC ${given_INCLUDE_DIRS})
endfunction()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = family_model(np.random.default_rng(2), leak=(1,), readouts=("mean", "last"))
    return export_c(model, tmp_path_factory.mktemp("export") / "gesture", "gesture")


def cmake(*arguments: object) -> None:
    made = subprocess.run([str(CMAKE), *map(str, arguments)], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr


def build_project(project: Path, text: str, *options: str) -> None:
    """Build a user's project of that CMakeLists.txt, and run its program."""
    project.mkdir()
    (project / "main.c").write_text(USER_MAIN)
    (project / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(firmware C)\n{text}"
        "add_executable(firmware main.c)\ntarget_link_libraries(firmware PRIVATE gesture::gesture)\n"
    )
    cmake("-S", project, "-B", project / "build", *options)
    cmake("--build", project / "build")
    subprocess.run([project / "build" / "firmware"], check=True)


@needs_cmake
def test_cmake_builds_the_folder_and_runs_its_self_test(folder: Path, tmp_path: Path) -> None:
    cmake("-S", folder, "-B", tmp_path / "build")
    cmake("--build", tmp_path / "build")

    tested = subprocess.run(["ctest"], cwd=tmp_path / "build", capture_output=True, text=True)

    assert tested.returncode == 0 and "100% tests passed" in tested.stdout, tested.stdout


@needs_cmake
def test_a_project_takes_the_folder_by_add_subdirectory(folder: Path, tmp_path: Path) -> None:
    build_project(tmp_path / "user", f"add_subdirectory({folder} gesture)\n")


@needs_cmake
def test_a_project_finds_the_installed_library(folder: Path, tmp_path: Path) -> None:
    cmake("-S", folder, "-B", tmp_path / "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}")
    cmake("--build", tmp_path / "build")
    cmake("--install", tmp_path / "build")

    project = "find_package(gesture CONFIG REQUIRED)\n"
    build_project(tmp_path / "user", project, f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}")


@needs_cmake
@pytest.mark.parametrize(("system", "under"), [(ZEPHYR, "zephyr"), (ESP_IDF, "")])
def test_zephyr_and_esp_idf_are_told_every_source(
    folder: Path, system: str, under: str, tmp_path: Path
) -> None:
    alias = "add_library(gesture::gesture ALIAS gesture)\n"
    build_project(tmp_path / "user", f"{system}add_subdirectory({folder / under} gesture)\n{alias}")


def test_the_manifests_name_the_library_its_version_and_its_headers(folder: Path) -> None:
    module = yaml.safe_load((folder / "zephyr" / "module.yml").read_text())
    component = yaml.safe_load((folder / "idf_component.yml").read_text())
    pio = json.loads((folder / "library.json").read_text())
    lines = (folder / "library.properties").read_text().splitlines()
    arduino = dict(line.split("=", 1) for line in lines)

    assert module["name"] == "gesture"
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    for manifest in (component, pio, arduino):
        assert package_version().startswith(manifest["version"])
        assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert pio["name"] == arduino["name"] == "gesture"
    assert pio["headers"] == arduino["includes"].split(",")
    assert all((folder / header).is_file() for header in pio["headers"])
    assert {"author", "maintainer", "sentence", "paragraph", "category", "architectures"} <= arduino.keys()


def test_what_arduino_and_platformio_compile_has_no_main(folder: Path) -> None:
    """Both compile the C files in the folder itself, and ignore test/."""
    sources = sorted(folder.glob("*.c"))

    assert [path.name for path in sources] == ["gesture.c", "gesture_window.c"]
    assert not any("main(" in path.read_text() for path in sources)


@pytest.mark.parametrize("name", ["all", "clean", "test", "edit_cache", "rebuild_cache", "preinstall"])
def test_a_name_that_every_build_has_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="must be no keyword"):
        check_name(name)


def drawn_models() -> list[IntegerModel]:
    """Networks that between them use every piece of the templates."""
    rng = np.random.default_rng(1)
    stack: dict[str, Any] = {
        "layer_sizes": (8, 8),
        "num_blocks": 2,
        "normalize": True,
        "skip": True,
        "stride": 2,
    }
    pooled: dict[str, Any] = {
        "readouts": ("mean", "max", "last", "positive"),
        "thresholds": 2,
        "leak": (1, 2),
    }
    wide = {"recurrence": "relu", "input_size": 9, "input_kind": "dense", "raw": True}
    return [
        *(random_model(rng, block_size=order) for order in (12, 28, 36, 92)),
        random_model(rng, block_size=64, input_kind="dense", activation_bits=12, raw=False),
        random_model(rng, block_size=128, weight_bits=3, activation_bits=12, reads=True, **wide),
        family_model(rng, **stack, **pooled),
        family_model(rng, input_kind="embedded", leak=(1,), readouts=("last",)),
        family_model(rng, input_kind="one_hot", leak=()),
    ]


def code_of(text: str) -> str:
    """Return C without its comments and strings."""
    return re.sub(r'"[^"\n]*"', '""', re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("model", drawn_models(), ids=lambda model: str(model.network)[:60])
def test_generated_c_is_fit_for_review(model: IntegerModel, tmp_path: Path) -> None:
    made = export_c(model, tmp_path / "net", "net")
    (deviation,) = re.findall(r"^- Directive 4\.9 .*?(?=^- )", (made / "README.md").read_text(), re.M | re.S)

    for path in [*made.glob("*.[ch]"), *(made / "test").glob("*.[ch]")]:
        code = code_of(path.read_text())
        macros = re.findall(r"#define (\w+)\(", code)  # functions have types; the other macros are documented
        assert [name for name in macros if f"`{name}`" not in deviation] == [], path
        assert all(macro == macro.upper() for macro in re.findall(r"#define (\w+)", code))
        assert not re.findall(r"\bgoto\b|\bunion\b|//", code)
        for line in re.sub(r"&&\n\s*", "&& ", code).splitlines():  # a condition may take several lines
            if re.match(r"\s*(if|for|while|else|do|switch|} else)\b", line):
                assert line.rstrip().endswith("{"), f"{path.name}: {line}"
        for declaration in re.findall(r"^\s+(?:const )?u?int\w*_t [^();]*;", code, re.MULTILINE):
            assert "," not in re.sub(r"{[^}]*}|\[[^]]*\]", "", declaration), declaration  # one per line


@pytest.mark.edge  # make test-edge installs cppcheck
@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="no cppcheck installed (Debian: cppcheck)")
def test_the_deviations_from_misra_are_those_that_the_folder_documents(tmp_path: Path) -> None:
    for number, model in enumerate(drawn_models()):
        made = export_c(model, tmp_path / f"net{number}", "net")
        section = (made / "README.md").read_text().split("## MISRA", 1)[1]
        documented = set(
            re.findall(r"\d+\.\d+", " ".join(re.findall(r"^- ([\d., ]+)\(", section, re.MULTILINE)))
        )
        sources = ("net.c", "net_window.c", *(("shared/hadamrnn_shared.c",) if number == 0 else ()))
        command = ["cppcheck", "--std=c99", "--addon=misra", "--enable=style", "-q", "-I.", *sources]

        said = subprocess.run(command, cwd=made, capture_output=True, text=True, check=True).stderr

        assert set(re.findall(r"misra-c2012-([\d.]+)", said)) <= documented
        assert "10.1" in said or number > 0  # the addon ran
