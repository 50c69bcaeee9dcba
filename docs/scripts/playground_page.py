"""A hook of mkdocs: the playground, built while the site is."""

from __future__ import annotations

import runpy
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add live.html, which playground.md links to."""
    script = runpy.run_path(str(Path(__file__).with_name("playground.py")))
    files.append(File.generated(config, "live.html", content=script["page"]()))
    return files
