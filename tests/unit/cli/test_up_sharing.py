"""`tickwise up` says when another installation uses the same data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwise.cli.commands.up import note_installation, tell_sharing
from tickwise.cli.session import Session

MINE, OTHER = Path("/checkouts/mine/.venv"), Path("/checkouts/other/.venv")


def test_another_installation_on_the_same_folder_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its place, and how to have a folder of one's own; the same installation again is told nothing."""
    tell_sharing(Session(), tmp_path, MINE, runs=False)
    note_installation(tmp_path, MINE)
    tell_sharing(Session(), tmp_path, MINE, runs=True)
    assert ("", "") == capsys.readouterr()
    tell_sharing(Session(), tmp_path, OTHER, runs=False)
    told = capsys.readouterr().err
    assert f"{tmp_path} was last used by another installation, in {MINE}" in told
    assert "DATA_DIR=" in told
    tell_sharing(Session(), tmp_path, OTHER, runs=True)
    assert f"is in use by another installation, in {MINE}" in capsys.readouterr().err
    note_installation(tmp_path, OTHER)
    tell_sharing(Session(), tmp_path, OTHER, runs=False)
    assert ("", "") == capsys.readouterr()


def test_a_folder_that_cannot_be_written_is_no_fault_of_this_note(tmp_path: Path) -> None:
    """What comes next says what is wrong with it."""
    note_installation(tmp_path / "missing", MINE)
    assert not (tmp_path / "missing").exists()
