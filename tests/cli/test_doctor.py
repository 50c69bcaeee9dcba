"""`hadamrnn doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadamrnn.cli import main
from hadamrnn.kernels import native_status


def test_doctor_names_versions_backend_and_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HADAMRNN_DATA", str(tmp_path))
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    native = native_status()
    assert facts["backend"] == native.backend
    assert facts["native_library"] == str(native.path if native.backend == "native" else native.reason)
    assert facts["torch"] and facts["python"]
    assert facts["data"].startswith(str(tmp_path))

    monkeypatch.setenv("HADAMRNN_DATA", "/no/such/folder")
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "backend" in text and "got /no/such/folder" in text
