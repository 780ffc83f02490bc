"""The interpreter that is made for tasks of other users: shared by executors, and removed when none uses it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from tickwise.adapters.runner import task_places
from tickwise.adapters.runner.task_places import USED, expected_work_root, make_passable, work_root_for
from tickwise.adapters.runner.task_users import TaskUser
from tickwise.domain.errors import Misconfigured

NOBODY = TaskUser(65_534, 65_534, (), None, "nobody")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose tasks are other users")


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder outside of private ones, for this test alone."""
    monkeypatch.setattr(task_places, "OUTSIDE", tmp_path / "outside")
    make_passable(tmp_path / "outside" / "python")
    return tmp_path / "outside"


@pytest.fixture
def small_disk(outside: Path) -> Iterator[Path]:
    """A disk of 2 MB for interpreters."""
    disk = outside / "python"
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tickwise-test", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_an_interpreter_stays_while_an_executor_uses_it(outside: Path) -> None:
    """Two executors take the same one; it goes with the last of them, and one in use stays beside it."""
    made, other = outside / "python" / "made", outside / "python" / "other"
    first, second, third = (task_places._take(folder, NOBODY) for folder in (made, made, other))
    os.close(first)
    task_places.remove_unused_pythons()
    assert [made, other] == sorted(made.parent.iterdir())
    os.close(second)
    task_places.remove_unused_pythons()
    assert [other] == [*made.parent.iterdir()]
    os.close(third)


def test_an_interpreter_that_is_removed_while_it_is_taken_is_made_again(outside: Path) -> None:
    """An executor that starts waits for the one that removes it, and then has a whole one of its own."""
    folder = outside / "python" / "made"
    os.close(task_places._take(folder, NOBODY))
    with ThreadPoolExecutor(1) as threads:
        remover = os.open(folder / USED, os.O_RDONLY)
        flock(remover, LOCK_EX)
        taking = threads.submit(task_places._take, folder, NOBODY)
        _await_waiter((folder / USED).stat().st_ino)
        folder.rename(outside / "removed")
        os.close(remover)
        lock = taking.result(60)
    assert os.path.samestat(os.fstat(lock), (folder / USED).stat())
    assert task_places._moved(folder).is_file()
    os.close(lock)


def _await_waiter(inode: int) -> None:
    """Until somebody waits for the lock of this file."""
    looked = threading.Event()
    for _ in range(1_000):
        rows = Path("/proc/locks").read_text().splitlines()
        if any("->" in row and f":{inode} " in row for row in rows):
            return
        looked.wait(0.01)
    raise AssertionError("nobody waits for the lock")


def test_an_interpreter_that_was_never_locked_is_not_removed_but_can_be_taken(outside: Path) -> None:
    """An executor of an earlier version may use it, which locks nothing."""
    earlier = outside / "python" / "earlier"
    (earlier / "bin").mkdir(parents=True)
    task_places.remove_unused_pythons()
    assert earlier.is_dir()
    os.close(task_places._take(earlier, NOBODY))
    task_places.remove_unused_pythons()
    assert not earlier.exists()


def test_a_disk_without_room_for_an_interpreter_is_named(small_disk: Path) -> None:
    """What was copied of it gives its room back."""
    with pytest.raises(Misconfigured, match=f"no space is left on the disk of {small_disk}"):
        task_places._take(small_disk / "made", NOBODY)
    assert [] == [*small_disk.iterdir()]


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o711], ids=["private", "open"])
def test_the_work_root_that_is_expected_is_the_one_that_is_taken(outside: Path, mode: int) -> None:
    """With a private data folder and with an open one; to expect makes nothing."""
    for folder in outside.parents[:3]:
        folder.chmod(0o711)
    data_dir = outside.parent / "data"
    data_dir.mkdir()
    data_dir.chmod(mode)
    given = data_dir / "work"
    expected = expected_work_root(NOBODY, given)
    assert [] == [*data_dir.iterdir()]
    assert work_root_for(NOBODY, given) == expected
    assert (mode == 0o711) == (expected == given)
