from __future__ import annotations

import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hadamrnn.data.files import DataFile, fetch, present, search_folders, unpack
from hadamrnn.data.tasks import find_task, task_names
from hadamrnn.errors import InputError

CONTENT = b"published bytes"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Return the address at which this machine serves the folder `home`."""
    (tmp_path / "home").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "home")) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def public(address: str, tmp_path: Path) -> DataFile:
    (tmp_path / "home" / "set.bin").write_bytes(CONTENT)
    return DataFile(("set/set.bin", "set.bin"), "https://home.example", f"{address}/set.bin", SHA256)


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def archive_file(home: Path, content: bytes, address: str) -> DataFile:
    (home / "pack.zip").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return DataFile(
        ("set/Inner Folder", "Inner Folder"),
        "https://home.example",
        f"{address}/pack.zip",
        sha256,
    )


@pytest.mark.parametrize("path", ["set/set.bin", "set.bin"])
def test_a_file_in_the_data_folder_is_used_in_place(public: DataFile, tmp_path: Path, path: str) -> None:
    place = tmp_path / "mine" / path
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT)

    assert fetch(public, tmp_path / "mine") == place


def test_a_folder_of_the_same_name_is_not_the_file(public: DataFile, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "mine/set.bin").mkdir(parents=True)

    assert fetch(public, tmp_path / "mine") == cache / "set/set.bin"


def test_the_environment_names_the_folder_unless_one_is_given(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search_folders(None) == [cache]
    monkeypatch.setenv("HADAMRNN_DATA", str(tmp_path))
    assert search_folders(None) == [tmp_path, cache]
    (tmp_path / "given").mkdir()
    assert search_folders(str(tmp_path / "given")) == [tmp_path / "given", cache]


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for nowhere in (tmp_path / "nowhere", "~nobody-at-all/data"):
        with pytest.raises(InputError, match="--data-dir must name an existing folder"):
            search_folders(nowhere)
    monkeypatch.setenv("HADAMRNN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="HADAMRNN_DATA must name an existing folder"):
        search_folders(None)


def test_a_missing_file_is_downloaded_once_into_the_cache(
    public: DataFile, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fetch(public, None)
    (tmp_path / "home" / "set.bin").unlink()

    assert path == cache / "set/set.bin" and path.read_bytes() == CONTENT
    assert fetch(public, None) == path
    assert [left.name for left in path.parent.iterdir()] == ["set.bin"]  # no temporary files left
    assert capsys.readouterr().err == f"Downloading set.bin from {public.url}\n"


def test_a_corrupt_file_is_refused_with_both_checksums(public: DataFile, tmp_path: Path) -> None:
    (tmp_path / "set.bin").write_bytes(b"other bytes")
    found = hashlib.sha256(b"other bytes").hexdigest()

    with pytest.raises(InputError, match=f"set.bin must have .*{SHA256}, got {found}"):
        present(public, tmp_path)


def test_a_corrupt_download_leaves_nothing_behind(public: DataFile, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "set.bin").write_bytes(b"other bytes")
    found = hashlib.sha256(b"other bytes").hexdigest()

    with pytest.raises(InputError, match=f"does not match.*expected {SHA256} but got {found}"):
        fetch(public, None)
    assert not list((cache / "set").iterdir())


def test_a_download_that_breaks_off_leaves_nothing_behind(
    public: DataFile, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quiet, "copyfile", lambda self, source, sink: sink.write(source.read(5)))

    with pytest.raises(InputError, match="its download failed"):
        fetch(DataFile(public.paths, public.home, public.url), None)
    assert not list((cache / "set").iterdir())


def test_offline_the_error_names_file_checksum_home_and_place(public: DataFile, tmp_path: Path) -> None:
    (tmp_path / "home" / "set.bin").unlink()

    with pytest.raises(InputError) as error:
        fetch(public, tmp_path)

    message = str(error.value)
    assert message.startswith("set.bin is missing and its download failed")
    assert "\n" not in message
    for fact in (SHA256, "https://home.example", str(tmp_path / "set/set.bin")):
        assert fact in message


def test_a_form_that_is_not_on_offer_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not offered"):
        fetch(DataFile(("compact.npz",), "https://home.example", sha256=SHA256), tmp_path)


def test_without_a_published_checksum_the_download_says_so(
    public: DataFile, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(DataFile(public.paths, public.home, public.url), None)

    assert f"no published checksum is known. Its SHA-256 is {SHA256}" in capsys.readouterr().err


@pytest.mark.parametrize("nested", [False, True])
def test_an_archive_is_unpacked_even_from_inside_another(
    nested: bool, cache: Path, address: str, tmp_path: Path
) -> None:
    content = zipped({"Inner Folder/a.txt": b"a", "other.txt": b"b"})
    file = archive_file(tmp_path / "home", zipped({"inner.zip": content}) if nested else content, address)

    folder = fetch(file, None)

    assert folder == cache / "set/Inner Folder"
    assert (folder / "a.txt").read_bytes() == b"a"
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["a.txt"]
    assert present(file, None) == folder


def test_an_archive_in_the_data_folder_is_verified_then_unpacked(
    cache: Path, address: str, tmp_path: Path
) -> None:
    file = archive_file(tmp_path / "home", zipped({"Inner Folder/a.txt": b"a"}), address)

    assert fetch(file, tmp_path / "home") == cache / "set/Inner Folder"
    assert fetch(file, tmp_path / "home") == cache / "set/Inner Folder"

    (cache / "set/Inner Folder/a.txt").unlink()
    (cache / "set/Inner Folder").rmdir()
    (tmp_path / "home/pack.zip").write_bytes(b"damaged")
    with pytest.raises(InputError, match="SHA-256"):
        fetch(file, tmp_path / "home")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no zip", "is damaged"), (zipped({"b.txt": b""}), "holds no folder Inner Folder")],
)
def test_a_wrong_archive_is_refused(
    content: bytes, message: str, cache: Path, address: str, tmp_path: Path
) -> None:
    file = archive_file(tmp_path / "home", content, address)

    with pytest.raises(InputError, match=message):
        fetch(file, None)
    assert not (cache / "set/Inner Folder").exists()


def test_unpacking_twice_at_once_is_harmless(cache: Path, address: str, tmp_path: Path) -> None:
    file = archive_file(tmp_path / "home", zipped({"Inner Folder/a.txt": b"a"}), address)
    first = unpack(tmp_path / "home/pack.zip", cache / file.paths[0])

    assert unpack(tmp_path / "home/pack.zip", cache / file.paths[0]) == first
    assert (first / "a.txt").read_bytes() == b"a"


@pytest.mark.parametrize("name", task_names())
def test_every_file_of_a_task_has_a_home_and_an_address_or_a_way_to_obtain_it(name: str) -> None:
    for file in find_task(name).files.values():
        assert file.paths and file.home.startswith("http")
        assert file.url or (file.sha256 and file.obtain), file
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256), file
