"""The file of an identity token: nobody else reads it, and a renewal is whole and follows no link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tickwise.adapters.runner.identity_file import TOKEN_FILE, replace_token, write_token


def test_the_file_is_readable_for_its_owner_alone(tmp_path: Path) -> None:
    path = write_token(tmp_path, "first")
    assert "first" == path.read_text()
    assert 0o400 == stat.S_IMODE(path.stat().st_mode)


def test_a_renewal_takes_the_place_of_the_first_as_a_whole(tmp_path: Path) -> None:
    """A reader that has the file open keeps the first; mode and owner are those of the first."""
    path = write_token(tmp_path, "first")
    with path.open() as reader:
        assert replace_token(tmp_path, "second", (os.geteuid(), os.getegid()))
        assert "first" == reader.read()
    assert "second" == path.read_text()
    assert 0o400 == stat.S_IMODE(path.stat().st_mode)
    assert [TOKEN_FILE] == [each.name for each in tmp_path.iterdir()]


def test_a_renewal_follows_no_link_of_the_task(tmp_path: Path) -> None:
    """The link in the place of the file is replaced, and what it leads to stays."""
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("precious")
    folder.mkdir()
    (folder / TOKEN_FILE).symlink_to(victim)
    assert replace_token(folder, "second", None)
    assert "precious" == victim.read_text()
    assert not (folder / TOKEN_FILE).is_symlink()
    with pytest.raises(OSError, match=TOKEN_FILE):
        write_token(folder, "again")


def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir()
    link.symlink_to(there)
    with pytest.raises(OSError, match="link"):
        replace_token(link, "second", None)
    assert [] == [*there.iterdir()]


def test_a_task_that_has_ended_gets_no_token(tmp_path: Path) -> None:
    assert not replace_token(tmp_path / "gone", "second", None)
