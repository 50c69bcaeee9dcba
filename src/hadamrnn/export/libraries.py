"""What build systems and package managers read of an exported folder: a few small files beside its C.

CMakeLists.txt                         CMake; within ESP-IDF, a component
zephyr/                                a Zephyr module
idf_component.yml                      ESP-IDF's component manager
library.properties, library.json       Arduino and PlatformIO
"""

from __future__ import annotations

import json
import re
from typing import Any

from hadamrnn.export.metadata import Summary
from hadamrnn.version import package_version


def manager_files(name: str, summary: Summary) -> dict[str, str]:
    """Return what Arduino and PlatformIO read, name -> text; their sources lie in the folder or in src/."""
    properties = {
        "name": name,
        "version": version_numbers(),
        "author": "hadamrnn",
        "maintainer": "hadamrnn",
        "sentence": f"{summary.title[0].upper()}{summary.title[1:]}.",
        "paragraph": "Integers only: no heap, no floating point. The same bits as the reference in Python.",
        "category": "Data Processing",
        "architectures": "*",
        "includes": f"{name}.h,{name}_window.h",
    }
    manifest = {
        "name": name,
        "version": version_numbers(),
        "description": summary.title,
        "keywords": ["neural network", "classification", "tinyml"],
        "frameworks": "*",
        "platforms": "*",
        "headers": [f"{name}.h", f"{name}_window.h"],
    }
    return {
        "library.properties": "".join(f"{key}={value}\n" for key, value in properties.items()),
        "library.json": _json(manifest),
    }


def component_files(name: str, summary: Summary) -> dict[str, str]:
    """Return what ESP-IDF's component manager and Zephyr read besides CMake, name -> text; JSON is YAML."""
    component = {"version": version_numbers(), "description": summary.title}
    return {
        "idf_component.yml": _json(component),
        "zephyr/module.yml": _json({"name": name, "build": {"cmake": "zephyr"}}),
    }


def version_numbers() -> str:
    """Return the x.y.z that library managers insist on."""
    return _three_numbers(package_version())


def _three_numbers(version: str) -> str:
    """Return the first three numbers of a version.

    >>> _three_numbers("0.1.0.dev3"), _three_numbers("unknown")
    ('0.1.0', '0.0.0')
    """
    match = re.match(r"\d+\.\d+\.\d+", version)
    return match.group() if match else "0.0.0"


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
