"""A hook of mkdocs: the page of results, written by `hadamrnn report` while the site is built.

So the site shows what results/ holds, and no figure is copied by hand.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from hadamrnn_paper.report import write_report


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add RESULTS.md and its figures to the site's files."""
    results = Path(config.config_file_path).parent / "reproduction" / "results"
    with tempfile.TemporaryDirectory() as scratch:
        for path in write_report(results, Path(scratch)):
            if path.suffix != ".html":  # the same page once more
                name = path.relative_to(scratch).as_posix()
                files.append(File.generated(config, name, content=path.read_text(encoding="utf-8")))
    return files
