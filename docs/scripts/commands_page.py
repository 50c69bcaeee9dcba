"""A hook of mkdocs: the reference of commands, which is what `--help` prints."""

from __future__ import annotations

import contextlib
import io

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from hadamrnn.cli import COMMANDS, build_parser

INTRODUCTION = """# Commands

Every command exits 0 on success. Bad input gets one line with the rule, the value and the way out, and exit
status 2. `--json` prints figures as JSON. The sections below show what `hadamrnn COMMAND --help` prints.
"""


def help_text(name: str) -> str:
    """Return what `hadamrnn NAME --help` prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        build_parser().parse_args([name, "--help"])
    return printed.getvalue().rstrip()


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join(
        [INTRODUCTION, *(f"## hadamrnn {name}\n\n```\n{help_text(name)}\n```\n" for name in COMMANDS)]
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add commands.md to the site's files."""
    files.append(File.generated(config, "commands.md", content=page()))
    return files
