"""Find the tasks' public files, verify their checksums and download missing ones.

A file is searched for in the given folder (`--data-dir`), else in `HADAMRNN_DATA`, and then in the
user's cache folder, where downloads go. A `Task` lists its files. Start at `fetch`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pooch

from hadamrnn.errors import InputError, damaged

TIMEOUT_SECONDS = 60
_OFFLINE = ContextVar("offline", default=False)
pooch.get_logger().setLevel("WARNING")  # `download` prints one line itself


@dataclass(frozen=True)
class DataFile:
    """A public file, or a folder inside a public zip archive.

    Args:
        paths: possible paths in a data folder; a download goes to the first.
        home: web page of the file.
        url: where to download it; None if impossible. For a zip archive, `paths` name the folder in it.
        sha256: checksum of the file or of the zip archive; None if none was published.
        obtain: instructions for a file that cannot be downloaded.
    """

    paths: tuple[str, ...]
    home: str
    url: str | None = None
    sha256: str | None = None
    obtain: str = ""

    @property
    def archive(self) -> str | None:
        return PurePosixPath(self.url).name if self.url and self.url.endswith(".zip") else None

    @property
    def name(self) -> str:
        return self.archive or PurePosixPath(self.paths[0]).name


def cache_folder() -> Path:
    return Path(pooch.os_cache("hadamrnn"))


def search_folders(data_dir: str | Path | None) -> list[Path]:
    """Return the folders to search, in order; the last is the cache."""
    chosen = data_dir or os.environ.get("HADAMRNN_DATA")
    if not chosen:
        return [cache_folder()]
    folder = Path(chosen)
    with suppress(RuntimeError):  # ~USER names an unknown user
        folder = folder.expanduser()
    if not folder.is_dir():
        source = "--data-dir" if data_dir else "HADAMRNN_DATA"
        raise InputError(f"{source} must name an existing folder, got {folder}.")
    return [folder, cache_folder()]


def present(file: DataFile, data_dir: str | Path | None) -> Path | None:
    """Verify `file` and return its path, or None if it is missing; unpack a zip archive into the cache."""
    folders = search_folders(data_dir)
    for place in (folder / path for folder in folders for path in file.paths):
        if file.archive and place.is_dir():
            return place
        if file.archive is None and place.is_file():
            verify(place, file)
            return place
    for archive in (folder / file.archive for folder in folders if file.archive):
        if archive.is_file():
            verify(archive, file)
            return unpack(archive, cache_folder() / file.paths[0])
    return None


@contextmanager
def offline() -> Iterator[None]:
    """Within this block, raise an error for a missing file instead of downloading it."""
    token = _OFFLINE.set(True)
    try:
        yield
    finally:
        _OFFLINE.reset(token)


def fetch(file: DataFile, data_dir: str | Path | None) -> Path:
    """Verify `file` and return its path; download it into the cache if it is missing."""
    found = present(file, data_dir)
    if found is not None:
        return found
    target = cache_folder() / (file.archive or file.paths[0])
    try:
        download(file, target)
    except (OSError, ValueError) as error:  # pooch raises ValueError for a wrong checksum
        place = search_folders(data_dir)[0] / (file.archive or file.paths[0])
        checksum = f"SHA-256 {file.sha256}" if file.sha256 else "no published checksum is known"
        raise InputError(
            f"{file.name} is missing and its download failed ({' '.join(str(error).split())}). "
            f"Get it from {file.home} and put it at {place} ({checksum})."
        ) from error
    if file.archive is None:
        return target
    folder = unpack(target, cache_folder() / file.paths[0])
    target.unlink(missing_ok=True)  # another process may have unpacked it too
    return folder


def download(file: DataFile, target: Path) -> None:
    """Download `file.url` to `target` atomically: the file appears only when complete and verified."""
    if file.url is None:
        raise FileNotFoundError(f"it is not offered for download: {file.obtain}")
    if _OFFLINE.get():
        raise FileNotFoundError("downloads are off here")
    print(f"Downloading {file.name} from {file.url}", file=sys.stderr)
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS, headers={"User-Agent": "hadamrnn"})
    pooch.retrieve(file.url, file.sha256, target.name, target.parent, downloader=downloader)
    if file.sha256 is None:
        found = pooch.file_hash(target)
        print(
            f"{file.name} is not verified: no published checksum is known. Its SHA-256 is {found}",
            file=sys.stderr,
        )


def verify(path: Path, file: DataFile) -> None:
    """Raise InputError if `path` does not have the published checksum; do nothing if none is known."""
    found = pooch.file_hash(path) if file.sha256 else None
    if found != file.sha256:
        raise InputError(
            f"{path} must have the published SHA-256 {file.sha256}, got {found}. "
            f"Replace it with the file from {file.home}."
        )


def unpack(archive: Path, target: Path) -> Path:
    """Unpack the folder `target.name` of a zip archive, or of a zip inside it, to `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpack-") as scratch:
        try:
            with zipfile.ZipFile(archive) as outer:
                outer.extractall(scratch)
            for inner_path in Path(scratch).glob("*.zip"):
                with zipfile.ZipFile(inner_path) as inner:
                    inner.extractall(scratch)
        except zipfile.BadZipFile as error:
            raise damaged(archive, f"{error}. Download it again.") from error
        source = Path(scratch, target.name)
        if not source.is_dir():
            raise damaged(archive, f"it holds no folder {target.name}. Download it again.")
        try:
            source.replace(target)  # one rename: the folder is complete or absent
        except OSError:
            if not target.is_dir():  # otherwise another process was faster and wrote the same files
                raise
    return target
