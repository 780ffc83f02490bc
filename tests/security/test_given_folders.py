"""Probes of the moment in which a task gets its folder: what another task of the same user can put into it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.probes import probe
from tickwise.adapters.runner.process.task_places import PASSABLE, give_folder

NOBODY = 65_534
ROUNDS = 12
FILES = 300
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders to other users")

THIEF = """
import os, sys
treasure, base, rounds, last = sys.argv[1:]
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
print("ready", flush=True)
for number in range(int(rounds)):
    name = os.path.join(base, str(number), "work", last)
    while True:
        try:
            os.rename(name, f"{name}-own")
            break
        except OSError:
            pass
    os.symlink(treasure, name)
    print(number, flush=True)
"""
"""Exchanges the last file of each folder for a link, as soon as it may enter."""


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that others pass through, as that of a runner is."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    folder.chmod(PASSABLE)
    yield folder
    shutil.rmtree(folder)


def _filled(folder: Path, *, files: int = FILES) -> Path:
    (folder / "work").mkdir(parents=True)
    folder.chmod(0o700)
    for number in range(files):
        (folder / "work" / f"f{number:03}").touch(mode=0o600)
    return folder


@probe(4, stopped_by="a folder is given from inside to outside, and no link is followed")
def test_no_task_gets_a_file_of_roots_through_the_folder_of_the_next_one(base: Path) -> None:
    """A task waits for the folder of another one of its namespace, and puts a link to a file of root's there while root
    gives the folder away."""
    treasure = base / "treasure"
    treasure.write_text("of root")
    folders = [_filled(base / str(number)) for number in range(ROUNDS)]
    arguments = [sys.executable, "-S", "-c", THIEF, str(treasure), str(base), str(ROUNDS), f"f{FILES - 1:03}"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as thief:
        assert thief.stdout is not None
        try:
            assert "ready\n" == thief.stdout.readline()
            for number, folder in enumerate(folders):
                give_folder(folder, NOBODY, NOBODY)
                assert f"{number}\n" == thief.stdout.readline()
                assert 0 == treasure.stat().st_uid, f"in round {number} the file of root's was given away"
        finally:
            thief.kill()


@probe(4, stopped_by="no link is followed")
def test_a_link_in_a_folder_gives_nothing_elsewhere_away(base: Path) -> None:
    """A task has put a link to a file of root's into a folder before root gives that away."""
    treasure = base / "treasure"
    treasure.write_text("of root")
    folder = _filled(base / "0")
    (folder / "work" / "link").symlink_to(treasure)
    (folder / "work" / "folder").symlink_to(base, target_is_directory=True)
    give_folder(folder, NOBODY, NOBODY)
    assert (0, 0) == (treasure.stat().st_uid, base.stat().st_uid)


@probe(4, stopped_by="a folder is given with all that is in it, before its user may enter it")
def test_a_folder_may_be_entered_when_all_in_it_is_given(base: Path) -> None:
    """A task enters its folder as soon as it may, and looks for what is still root's. The kernel notes when each owner
    was changed: the folder comes last."""
    folder = _filled(base / "0", files=5_000)  # more than one tick of that clock
    give_folder(folder, NOBODY, NOBODY)
    inside = [each.stat() for each in (folder / "work", *(folder / "work").iterdir())]
    assert 5_001 == len(inside)
    assert {(NOBODY, NOBODY)} == {(each.st_uid, each.st_gid) for each in (*inside, folder.stat())}
    assert max(each.st_ctime_ns for each in inside) <= folder.stat().st_ctime_ns
