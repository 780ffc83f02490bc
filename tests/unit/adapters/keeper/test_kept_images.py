"""Logs and checkpoints of each release that had them stay readable, whole: every table, every field.

The files in `releases` were written by the release that they are named after (`tests.support.kept_images`). A keeper of
this release takes over from one of that release with nothing but these.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import kept_images
from tickwise.adapters.store.keeper import images
from tickwise.adapters.store.keeper.tables import TABLES

RELEASES = sorted(kept_images.FOLDER.glob("*.bin"))
FIRST = kept_images.FOLDER / "0.1.bin"


def wrong(file: Path) -> list[str]:
    """The facts that this release reads otherwise, of the checkpoint and of the entry."""
    expected = json.loads(file.with_suffix(".json").read_text())
    return [each for found in kept_images.read(file) for each in kept_images.lacks(expected, found)]


@pytest.mark.parametrize("file", RELEASES, ids=lambda file: file.stem)
def test_a_release_before_is_read_whole(file: Path) -> None:
    """Its checkpoint and its entries: each value is where it was."""
    assert [] == wrong(file)


@pytest.mark.parametrize("file", RELEASES, ids=lambda file: file.stem)
def test_a_release_with_another_schema_reads_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads by the names in the file, not by the places of its own fields."""
    monkeypatch.setitem(images.SCHEMA, "OfALaterRelease", ["field"])
    assert [] == wrong(file)


def test_the_first_release_has_every_table_of_its_time() -> None:
    """So a table that is left out of the files is no gap that nobody sees."""
    tables = json.loads(FIRST.with_suffix(".json").read_text())["tables"]
    assert set() == tables.keys() - {each.path for each in TABLES}
    assert len(tables) >= 60


def test_what_this_release_writes_it_reads_by_names_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the release after it will: fields that are new since the last kept files are among them."""
    monkeypatch.setattr(kept_images, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["kept_images", "now"])
    kept_images.main()
    monkeypatch.setitem(images.SCHEMA, "OfALaterRelease", ["field"])
    assert [] == wrong(tmp_path / "now.bin")


def test_a_value_that_moved_is_found() -> None:
    """The comparison is no formality."""
    assert ["/a/b was 1 and is read as 2", "/a/c is gone"] == kept_images.lacks(
        {"a": {"b": 1, "c": 1}}, {"a": {"b": 2}}
    )
