"""The file of a backup: one compressed tar that is whole, or refused.

    head.json                    versions, the time, the settings that were in force
    database/00000001, …         the dump of the database, in parts
    files/local.key, …           keys of the data folder
    settings/service.toml, …     files of settings, and those that settings name
    blobs/…                      scripts, outputs and artefacts
    end.json                     the number of the members before it, and their SHA-256

Invariant: an archive that ends early, has another byte, or a member more is refused before anything is made of it. No
name of a member leads out of the folder that is restored.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, NamedTuple, cast

from tickwise.domain.errors import Misconfigured

FORMAT: Final = 1
HEAD: Final = "head.json"
END: Final = "end.json"
FOLDERS: Final = frozenset({"database", "files", "settings", "blobs"})
LEVEL: Final = 1
"""Outputs shrink to a fifth by it; the next levels take twice the time for a tenth less."""
READ_BYTES: Final = 1 << 20
MAX_TEXT_BYTES: Final = 1 << 20
"""Of the head and of the end."""
FAULTS: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, json.JSONDecodeError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveHead:
    """The facts of a backup."""

    tickwise: str
    """The version of the program that made it."""
    schema: str
    """The migration that the database is at, such as `0041`."""
    postgresql: str
    """The version of its server, such as `18.6`."""
    taken_at: str
    """RFC 3339. The database is as of a moment right after it."""
    settings: Sequence[tuple[str, str, str]]
    """Name, value and origin of each setting that was not at its default; secrets masked."""
    places: Mapping[str, str]
    """The former places of the files below `settings/`, by their names in the archive."""


class ArchiveMember(NamedTuple):
    """A file of an archive, open for reading until the next one is asked for."""

    name: str
    size: int
    mode: int
    modified_at: float
    content: IO[bytes]


class ArchiveWriter:
    """Writes an archive to a file that is open for writing. Without `finish` it is none."""

    def __init__(self, file: IO[bytes], head: ArchiveHead) -> None:
        self._packed = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=0)
        self._tar = tarfile.TarFile.open(fileobj=self._packed, mode="w|", format=tarfile.PAX_FORMAT)
        self._sum = _Checksum()
        self.add(HEAD, json.dumps({"format": FORMAT, **asdict(head)}).encode())

    def add(self, name: str, content: bytes) -> None:
        """A file that only its owner may read."""
        self._add(_entry(name, len(content), 0o600, 0.0), io.BytesIO(content))

    def add_file(self, name: str, place: Path) -> bool:
        """A file of the disk, with its mode and time; False if it is gone."""
        try:
            content = place.open("rb")
        except FileNotFoundError:
            return False
        with content:
            state = os.fstat(content.fileno())
            self._add(_entry(name, state.st_size, state.st_mode & 0o777, state.st_mtime), content)
        return True

    def finish(self) -> None:
        """Write the end."""
        self.add(END, self._sum.end())
        self._tar.close()
        self._packed.close()

    def _add(self, entry: tarfile.TarInfo, content: IO[bytes]) -> None:
        self._tar.addfile(entry, cast(IO[bytes], self._sum.reading(entry, content)))


class _Checksum:
    """The number and the SHA-256 of all members so far: of their names, sizes, modes and contents."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._count = 0

    def reading(self, entry: tarfile.TarInfo, content: IO[bytes]) -> _Counted:
        """The content of the next member, which counts as it is read."""
        self._digest.update(f"{entry.name}\0{entry.size}\0{entry.mode:o}\0".encode())
        self._count += 1
        return _Counted(content, self._digest)

    def end(self) -> bytes:
        """The text of the end of an archive that has these members."""
        return json.dumps({"members": self._count, "sha256": self._digest.hexdigest()}).encode()


class _Counted(io.RawIOBase):
    """A file whose bytes enter a digest as they are read."""

    def __init__(self, content: IO[bytes], digest: Any) -> None:
        super().__init__()
        self._content = content
        self._digest = digest

    def read(self, size: int = -1, /) -> bytes:
        found = self._content.read(size)
        self._digest.update(found)
        return found


def _entry(name: str, size: int, mode: int, modified_at: float) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, mode, int(modified_at)
    return entry


@contextmanager
def opened(file: Path) -> Iterator[tuple[ArchiveHead, Iterator[ArchiveMember]]]:
    """The head of an archive, and its members without head and end, in order. All of it was verified before. Raises
    `Misconfigured` for a file that is damaged, is none, or was made by a newer program."""
    try:
        stream = file.open("rb")
    except OSError as failure:
        raise Misconfigured(f"{file} cannot be read: {failure.strerror}.") from None
    with stream, _faults_told(file):
        head = _verified(file, stream)
        stream.seek(0)
        members = _members(file, stream)
        next(members)
        yield head, (member for member in members if member.name != END)


@contextmanager
def _faults_told(file: Path) -> Iterator[None]:
    """Of those who read a damaged file, wherever in it: its members are read by others than they are found by."""
    try:
        yield
    except FAULTS as failure:
        raise _damaged(file, str(failure) or type(failure).__name__) from None


def _verified(file: Path, stream: IO[bytes]) -> ArchiveHead:
    """The head of an archive that was read from end to end."""
    found, checksum, head, end = _Checksum(), "", None, None
    for member in _members(file, stream):
        if end is not None:
            raise _damaged(file, "something follows its end")
        if member.name == END:
            end, checksum = _text(member), found.end().decode()
            continue
        entry = _entry(member.name, member.size, member.mode, 0.0)
        counted = found.reading(entry, member.content)
        if head is None:
            head = _head(file, member, counted)
        while counted.read(READ_BYTES):
            pass
    if head is None or end is None:
        raise _damaged(file, "it has no end: the backup was ended before it was complete, or a part was lost")
    if json.loads(end) != json.loads(checksum):
        raise _damaged(file, "its checksum is another one than that of its contents")
    return head


def _members(file: Path, stream: IO[bytes]) -> Iterator[ArchiveMember]:
    """All members, head and end among them, in order. Raises `Misconfigured`."""
    packed = gzip.GzipFile(fileobj=stream, mode="rb")
    with tarfile.open(fileobj=packed, mode="r|") as tar:
        for entry in tar:
            content = tar.extractfile(entry) if entry.isreg() else None
            if content is None or not _is_safe(entry.name):
                raise _damaged(file, f"it has a member {entry.name[:100]!a}, which no backup has")
            yield ArchiveMember(entry.name, entry.size, entry.mode, float(entry.mtime), content)
    while packed.read(READ_BYTES):
        pass  # its own checksum is judged at its end


def _is_safe(name: str) -> bool:
    parts = PurePosixPath(name).parts
    is_inside = name == "/".join(parts) and ".." not in parts and name.isprintable()
    return is_inside and (name in (HEAD, END) or (len(parts) > 1 and parts[0] in FOLDERS))


def _head(file: Path, member: ArchiveMember, content: _Counted) -> ArchiveHead:
    if member.name != HEAD:
        raise _damaged(file, "it has no head")
    said = json.loads(content.read(MAX_TEXT_BYTES))
    if said.pop("format", None) != FORMAT:
        raise Misconfigured(
            f"{file} was made by another version of Tickwise ({said.get('tickwise')}), whose backups this one does not "
            "read. Restore it with that version."
        )
    try:
        return ArchiveHead(**{**said, "settings": [tuple(each) for each in said["settings"]]})
    except (TypeError, KeyError):
        raise _damaged(file, "its head cannot be read") from None


def _text(member: ArchiveMember) -> bytes:
    return member.content.read(MAX_TEXT_BYTES)


def _damaged(file: Path, why: str) -> Misconfigured:
    return Misconfigured(f"{file} is damaged, or no backup of Tickwise, and nothing is restored from it: {why}.")
