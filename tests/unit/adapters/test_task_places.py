"""The interpreter that is made for tasks of other users: shared by executors, and removed when none uses it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fcntl import LOCK_EX, LOCK_SH, flock
from pathlib import Path

import pytest

from tests.support.disks import small_disk_of_test
from tickwise.adapters.runner.process import task_places
from tickwise.adapters.runner.process.task_places import USED, expected_work_root, make_passable, work_root_for
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.domain.errors import Misconfigured

NOBODY = TaskUser(65_534, 65_534, (), None, "nobody")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose tasks are other users")


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder outside of private ones, for this test alone. Interpreters get no packages: those of developers are
    thirty thousand files, and who has and who removes an interpreter does not depend on them."""
    monkeypatch.setattr(task_places, "OUTSIDE", tmp_path / "outside")
    monkeypatch.setattr(task_places, "_packages", list)
    make_passable(tmp_path / "outside" / "python")
    return tmp_path / "outside"


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that every user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # a TMPDIR may be private
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def small_disk(outside: Path) -> Iterator[Path]:
    """A disk of 2 MB for interpreters."""
    with small_disk_of_test(outside / "python", 2) as disk:
        yield disk


def test_an_interpreter_stays_while_an_executor_uses_it(outside: Path) -> None:
    """Two executors take the same one; it goes with the last of them, and one in use stays beside it."""
    made, other = outside / "python" / "made", outside / "python" / "other"
    first, second, third = (_taken(folder) for folder in (made, made, other))
    os.close(first)
    task_places.remove_unused_pythons()
    assert [made, other] == sorted(made.parent.iterdir())
    os.close(second)
    task_places.remove_unused_pythons()
    assert [other] == [*made.parent.iterdir()]
    os.close(third)


@needs_root
def test_an_interpreter_has_the_packages_of_a_closed_checkout(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program itself, and the SDK that scripts of functions import."""
    monkeypatch.setattr(task_places, "can_enter", lambda _user, _folder: False)
    lock = task_places._make(outside / "python" / "made", NOBODY)
    assert lock is not None
    os.close(lock)
    found = {path.parent.name for path in outside.glob("python/made/lib/python3*/site-packages/*/__init__.py")}
    assert {"tickwise", "tickwise_sdk"} == found


def test_an_interpreter_that_is_removed_while_it_is_taken_is_made_again(outside: Path) -> None:
    """An executor that starts waits for the one that removes it, and then has a whole one of its own."""
    folder = outside / "python" / "made"
    os.close(_taken(folder))
    with ThreadPoolExecutor(1) as threads:
        remover = os.open(folder / USED, os.O_RDONLY)
        flock(remover, LOCK_EX)
        taking = threads.submit(_taken, folder)
        _await_waiter((folder / USED).stat().st_ino)
        folder.rename(outside / "removed")
        os.close(remover)
        lock = taking.result(60)
    assert os.path.samestat(os.fstat(lock), (folder / USED).stat())
    assert task_places._moved(folder).is_file()
    os.close(lock)


def _taken(folder: Path) -> int:
    """The lock, which there is."""
    lock = task_places._take(folder, NOBODY)
    assert lock is not None
    return lock


def _await_waiter(inode: int) -> None:
    """Until somebody waits for the lock of this file."""
    looked = threading.Event()
    for _ in range(6_000):
        rows = Path("/proc/locks").read_text().splitlines()
        if any("->" in row and f":{inode} " in row for row in rows):
            return
        looked.wait(0.01)
    raise AssertionError("nobody waits for the lock")


@pytest.mark.parametrize("looks", [1, 2], ids=["once", "twice"])
def test_an_interpreter_that_is_removed_before_it_is_locked_is_made_again(
    outside: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """Other executors start between the moment in which its file is made and that in which it is locked."""
    folder, real, seen = outside / "python" / "made", flock, list[int]()

    def flock_late(descriptor: int, how: int) -> None:
        if how == LOCK_SH and len(seen) < looks:
            seen.append(descriptor)
            task_places.remove_unused_pythons()
        real(descriptor, how)

    monkeypatch.setattr("fcntl.flock", flock_late)
    lock = _taken(folder)
    assert len(seen) == looks
    os.close(_taken(folder))
    task_places.remove_unused_pythons()
    assert os.path.samestat(os.fstat(lock), (folder / USED).stat())
    assert task_places._moved(folder).is_file()
    assert [folder] == [*folder.parent.iterdir()]
    os.close(lock)


def test_an_interpreter_of_an_earlier_version_is_taken_without_a_lock_and_never_removed(outside: Path) -> None:
    """Executors of that version lock nothing: a lock of ours would say that nobody uses it as soon as we do not."""
    earlier = outside / "python" / "earlier"
    (earlier / "bin").mkdir(parents=True)
    task_places.remove_unused_pythons()
    assert task_places._take(earlier, NOBODY) is None
    task_places.remove_unused_pythons()
    assert ["bin"] == [each.name for each in earlier.iterdir()]


def test_what_a_killed_executor_left_of_an_interpreter_is_removed(outside: Path) -> None:
    """Half removed, or half made and never locked for more than an hour; what is being made stays."""
    place = outside / "python"
    names = ["partial-begun", "partial-left", "partial-unlocked", "removed-half"]
    for name in names:
        (place / name / "bin").mkdir(parents=True)
    (place / "partial-unlocked" / USED).touch()
    os.utime(place / "partial-left", (0, 0))
    task_places.remove_unused_pythons()
    assert ["partial-begun"] == [each.name for each in place.iterdir()]


def test_an_executor_whose_own_interpreter_serves_removes_what_nobody_uses(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was moved to where all can read it, and will never make another one."""
    os.close(_taken(outside / "python" / "made"))
    monkeypatch.setattr(task_places, "can_do", lambda *_: True)
    assert task_places.python_for(NOBODY).lock is None
    assert [] == [*(outside / "python").iterdir()]


def test_a_disk_without_room_for_an_interpreter_is_named(small_disk: Path) -> None:
    """What was copied of it gives its room back."""
    with pytest.raises(Misconfigured, match=f"no space is left on the disk of {small_disk}"):
        task_places._take(small_disk / "made", NOBODY)
    assert [] == [*small_disk.iterdir()]


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o711], ids=["private", "open"])
def test_the_work_root_that_is_expected_is_the_one_that_is_taken(
    passable: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """With a private data folder and with an open one; to expect makes nothing."""
    monkeypatch.setattr(task_places, "OUTSIDE", passable / "outside")
    data_dir = passable / "data"
    data_dir.mkdir()
    data_dir.chmod(mode)
    given = data_dir / "work"
    expected = expected_work_root(NOBODY, given)
    assert [] == [*data_dir.iterdir()]
    assert work_root_for(NOBODY, given) == expected
    assert (mode == 0o711) == (expected == given)
