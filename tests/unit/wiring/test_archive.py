"""The archive of a backup is whole or refused: cut off, changed, longer, or with names that lead out."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tickwise.domain.errors import Misconfigured
from tickwise.wiring.installation.archive import END, HEAD, ArchiveHead, ArchiveWriter, opened

FACTS = ArchiveHead(
    tickwise="0.1.0",
    schema="0034",
    postgresql="18.6",
    taken_at="2026-11-26T17:00:00+00:00",
    settings=[("port", "8471", "--port")],
    places={"settings/service.toml": "/etc/tickwise/service.toml"},
)


def written(folder: Path) -> Path:
    """A small archive with a member of each folder."""
    file, output = folder / "archive", folder / "output"
    output.write_bytes(b"an output\n" * 1_000)
    output.chmod(0o640)
    with file.open("wb") as stream:
        archive = ArchiveWriter(stream, FACTS)
        archive.add("database/00000001", bytes(range(256)) * 64)
        archive.add("files/local.key", b"tw_secret\n")
        assert archive.add_file("blobs/logs/a/1", output)
        assert not archive.add_file("blobs/logs/a/2", folder / "missing")
        archive.finish()
    return file


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: it is only read."""
    return written(tmp_path_factory.mktemp("archive"))


def read(file: Path) -> dict[str, tuple[int, bytes]]:
    """The modes and contents of all members."""
    with opened(file) as (_, members):
        return {each.name: (each.mode, each.content.read()) for each in members}


def refused(file: Path) -> str:
    """The reason why nothing is made of this file."""
    with pytest.raises(Misconfigured) as refusal, opened(file):
        pass
    return refusal.value.detail


def test_an_archive_gives_back_all_that_was_put_in(archive: Path) -> None:
    """In order, with the modes of files; keys are their owner's alone."""
    with opened(archive) as (head, _):
        assert FACTS == head
    found = read(archive)
    assert ["database/00000001", "files/local.key", "blobs/logs/a/1"] == list(found)
    assert (0o600, b"tw_secret\n") == found["files/local.key"]
    assert (0o640, b"an output\n" * 1_000) == found["blobs/logs/a/1"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.floats(0, 1, exclude_max=True))
def test_an_archive_that_ends_early_is_refused(archive: Path, tmp_path: Path, part: float) -> None:
    """At each place: a process that is killed, a disk that is full, a copy that breaks off."""
    whole = archive.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * part)])
    assert "damaged" in refused(tmp_path / "cut")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_an_archive_with_another_bit_is_refused(archive: Path, tmp_path: Path, part: float, bit: int) -> None:
    """Unless the bit says nothing of the content: of gzip's own head, or of two ways to write what repeats itself."""
    whole = bytearray(archive.read_bytes())
    place = int(len(whole) * part)
    whole[place] ^= 1 << bit
    (tmp_path / "bit").write_bytes(whole)
    try:
        same = gzip.decompress(bytes(whole)) == gzip.decompress(archive.read_bytes())
    except (OSError, EOFError, zlib.error):
        same = False
    assert same or "damaged" in refused(tmp_path / "bit")


def packed(file: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """A well-formed tar with these members."""
    with gzip.open(file, "wb") as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
        for entry, content in members:
            tar.addfile(entry, io.BytesIO(content))
    return file


def unpacked(file: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """All members, head and end among them."""
    with tarfile.open(file) as tar:
        return [(entry, (tar.extractfile(entry) or io.BytesIO()).read()) for entry in tar]


@pytest.mark.parametrize("change", ["left out", "twice", "renamed", "opened", "after the end"])
def test_another_set_of_members_is_refused(archive: Path, tmp_path: Path, change: str) -> None:
    """Also where tar and gzip find nothing wrong."""
    members = unpacked(archive)
    assert [HEAD, END] == [members[0][0].name, members[-1][0].name]
    entry, content = members[2]
    if change == "left out":
        members = [each for each in members if each[0] is not entry]
    elif change == "twice":
        members.insert(2, (entry, content))
    elif change == "renamed":
        members[2][0].name = "files/first.key"
    elif change == "opened":
        members[2][0].mode = 0o644
    else:
        members.append((entry, content))
    assert "damaged" in refused(packed(tmp_path / "changed", members))


@pytest.mark.parametrize(
    "name", ["../outside", "blobs/../../outside", "/etc/passwd", "elsewhere/a", "blobs", "blobs/a\nb"]
)
def test_a_name_that_leads_out_is_refused(archive: Path, tmp_path: Path, name: str) -> None:
    """A checksum is no signature: somebody may have made the whole file."""
    members = unpacked(archive)
    members[2][0].name = name
    assert "member" in refused(packed(tmp_path / "outside", members))


def test_a_link_is_refused(archive: Path, tmp_path: Path) -> None:
    """It could lead the next member out."""
    members = unpacked(archive)
    members[2][0].type, members[2][0].size = tarfile.SYMTYPE, 0
    assert "member" in refused(
        packed(tmp_path / "link", [(entry, b"" if entry.issym() else c) for entry, c in members])
    )


@pytest.mark.parametrize("content", [b"", b"text", gzip.compress(b"text"), gzip.compress(b"\0" * 20_480)], ids=len)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """It is no backup."""
    (tmp_path / "other").write_bytes(content)
    assert "damaged, or no backup" in refused(tmp_path / "other")
    assert "cannot be read" in refused(tmp_path / "missing")


def test_an_archive_of_a_later_form_says_so(archive: Path, tmp_path: Path) -> None:
    """It is not damaged: another version reads it."""
    members = unpacked(archive)
    head = json.dumps({**json.loads(members[0][1]), "format": 2, "tickwise": "9.0.0"}).encode()
    members[0][0].size = len(head)
    said = refused(packed(tmp_path / "later", [(members[0][0], head), *members[1:]]))
    assert ("9.0.0" in said, "damaged" in said) == (True, False)
