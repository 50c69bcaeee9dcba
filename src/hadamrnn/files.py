"""Write files atomically, and read them without trusting their content.

Readers accept only regular files of bounded size. Any problem with a file raises a one-line `InputError` that
names the file. Start at `write_atomically` and `read_regular`.

`locked` gives one process exclusive use of a run folder. The operating system releases the lock when the
process ends, so a crash never blocks the next command. `claim` shares work between machines, also on shared
file systems, where such locks are unreliable: the owner of a claim refreshes a file while it works.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.errors import InputError, damaged, printable

if TYPE_CHECKING:
    from filelock import SoftFileLease

# The files of a run directory.
CONFIG_FILE = "config.yaml"
RECORD_FILE = "run.json"
METRICS_FILE = "metrics.jsonl"
MODEL_FILE = "model.safetensors"
INTEGER_FILE = "model.int.safetensors"
CHECKPOINT_FILE = "resume.safetensors"

MAX_TEXT_BYTES = 1 << 24
MAX_TENSOR_BYTES = 1 << 32
MAX_HEADER_BYTES = 1 << 20
SEAL = "sha256"  # metadata entry of a safetensors file that holds the checksum
LOCK_NAME = ".lock"
LEASE_SECONDS = 30.0  # a claim that is not refreshed for this long is abandoned


def write_atomically(path: str | Path, content: bytes) -> None:
    """Replace the file at `path` atomically: a crash or a full disk leaves the old one unchanged."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read_regular(path: str | Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    check_regular(path, limit)
    return Path(path).read_bytes()


def check_regular(path: str | Path, limit: int) -> None:
    """Refuse a path that is missing, too large, a folder, or a pipe or device, which might block."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read: {reason}. Check the path.") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} must be a regular file, got a folder, pipe or device. Name another.")
    if status.st_size > limit:
        raise InputError(f"{path} may take at most {limit:,} bytes, got {status.st_size:,}.")


def check_new_folder(path: Path, advice: str, ignored: Collection[str] = ()) -> None:
    """Refuse a file, and a folder that contains anything but hidden files and `ignored`."""
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    is_file = path.exists() and not path.is_dir()
    if is_file or any(not name.startswith(".") for name in names - set(ignored)):
        found = "is a file" if is_file else "holds files"
        raise InputError(f"{path} must be a new or empty folder, but it {found}. {advice}")


def read_json(
    path: str | Path, kind: str, version: int, advice: str, limit: int = MAX_TEXT_BYTES
) -> dict[str, Any]:
    """Read a JSON file of this package, check its format, and return the other fields."""
    values = parse_json(read_regular(path, limit), path)
    if not isinstance(values, dict):
        raise damaged(path, f"it must hold names and values. {advice}")
    check_format(values, path, kind, version, advice)
    return {name: value for name, value in values.items() if name not in ("format", "version")}


def parse_json(text: str | bytes, source: str | Path) -> Any:
    """Parse JSON in `text`; errors name the file `source`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(source, f"it holds no readable JSON ({one_line(error)}).") from error


def parse_yaml(text: str, source: str | Path) -> Any:
    """Parse YAML in `text`; refuse duplicate names, of which PyYAML would take the last.

    Aliases are refused too: a few lines of them can expand to gigabytes.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not allowed")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            for name, count in Counter(key.value for key, _ in node.value).most_common(1):
                if count > 1:
                    raise yaml.YAMLError(f"{name} is given twice")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except Exception as error:  # PyYAML does not wrap errors of int(), date() and its own look-ups
        raise unreadable(source, "YAML file", error) from error


def check_format(
    found: Mapping[str, Any], source: str | Path, kind: str, version: object, advice: str
) -> None:
    """Refuse a file whose `format` is not `kind`, or whose `version` differs."""
    if (found.get("format"), found.get("version")) != (kind, version):
        got = f"format {found.get('format')!r:.40}, version {found.get('version')!r:.20}"
        raise InputError(f"{source} must be a {kind} of version {version}, got {got}. {advice}")


def seal(content: bytes) -> bytes:
    """Return a safetensors file with a checksum over header and tensors in its metadata.

    The keys of the header are sorted so that equal content gives equal bytes; the safetensors library writes
    metadata in the random order of a hash map.
    """
    header, tensors = split_header(content, "The file")
    header["__metadata__"][SEAL] = _checksum(header, tensors)
    text = _canonical(header)
    text += b" " * (-len(text) % 8)  # tensors must start at a multiple of 8 bytes
    return len(text).to_bytes(8, "little") + text + tensors


def read_sealed(path: str | Path, kind: str, version: str, advice: str) -> tuple[dict[str, str], bytes]:
    """Verify the format and checksum of a safetensors file; return its metadata and its whole content.

    `advice` is appended to the error if the file has another format.
    """
    content = read_regular(path, MAX_TENSOR_BYTES)
    header, tensors = split_header(content, path)
    metadata: dict[str, str] = header["__metadata__"]
    check_format(metadata, path, kind, version, advice)
    if metadata.pop(SEAL, None) != _checksum(header, tensors):
        raise damaged(path, "its checksum does not match. Restore it from a copy.")
    return metadata, content


def unreadable(source: object, kind: str, error: object) -> InputError:
    """Return the error for a file that its library cannot read."""
    return InputError(f"{source} is not a readable {kind}: {one_line(error)}. Write it again.")


def one_line(error: object) -> str:
    """Return the text of an error on one line, shortened if it is long."""
    return printable(" ".join(str(error).split()))[:200]


def split_header(content: bytes, source: str | Path) -> tuple[dict[str, Any], bytes]:
    """Split a safetensors file into its header and its tensors' bytes, checking the lengths."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(MAX_HEADER_BYTES, len(content) - 8):
        raise damaged(source, "it is shorter than its header says, or no safetensors file.")
    header = parse_json(content[8 : 8 + length], source)
    metadata = header.setdefault("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise damaged(source, "its header is not that of a safetensors file.")
    return header, content[8 + length :]


def _checksum(header: Mapping[str, Any], tensors: bytes) -> str:
    """Return the SHA-256 of the header without its seal, followed by the tensors."""
    metadata = {name: text for name, text in header["__metadata__"].items() if name != SEAL}
    digest = hashlib.sha256(_canonical({**header, "__metadata__": metadata}))
    digest.update(tensors)
    return digest.hexdigest()


def _canonical(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock `folder` for this block, creating it if necessary; raise `InputError` if it is already locked."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_NAME
    lock = FileLock(path, timeout=0, preserve_lock_file=True, on_acquired=_sign)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"Another process is writing {folder} (process {_signature(path)}). "
            "Wait until it ends or stop it, then repeat the command."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _sign(descriptor: int) -> None:
    """Write this process's id into the file that it has locked."""
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def _signature(path: Path) -> str:
    try:
        return path.read_text()[:20] or "unknown"
    except OSError:  # on Windows a locked file cannot be read
        return "unknown"


@contextmanager
def claim(
    folder: Path, name: str, *, patient: bool = False, stop: Callable[[], bool] | None = None
) -> Iterator[SoftFileLease | None]:
    """Yield the claim on `name`, or None if another process has it.

    The claim of a dead process on this machine can be taken over at once. A claim from another machine can
    be taken over when it has not been refreshed for `LEASE_SECONDS`, so the caller must wait that long. The
    owner of a claim that was taken over finds the reason in its `compromise`.

    Args:
        stop: called while waiting; if it returns True, the wait ends.
    """
    from filelock import SoftFileLease, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lease = SoftFileLease(folder / f"{name}.lock", lease_duration=LEASE_SECONDS)
    try:
        lease.acquire(timeout=LEASE_SECONDS + 1 if patient else 0, cancel_check=stop)
    except Timeout:
        yield None
        return
    try:
        yield lease
    finally:
        lease.release()
