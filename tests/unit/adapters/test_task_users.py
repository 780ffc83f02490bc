"""The numbers of the users that tasks run as, in a range so small that namespaces collide, as in a container."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tickwise.adapters.runner.process.task_users import TaskUsers, _Numbers

FIRST, AFTER = 100, 160
NAMES = [f"team-{number}" for number in range(40)]


def _users(root: Path) -> TaskUsers:
    """Those of an executor that was just started."""
    return TaskUsers(None, _Numbers(FIRST, AFTER), root)


def test_a_namespace_keeps_its_user_whichever_comes_first(tmp_path: Path) -> None:
    """After another start, too: else it would have the home of another namespace, with what that keeps there."""
    users = _users(tmp_path)
    before = {name: users.of(name).uid for name in NAMES}
    users = _users(tmp_path)
    after = {name: users.of(name).uid for name in reversed(NAMES)}
    assert before == after
    assert before == {name: _users(tmp_path).of(name).uid for name in NAMES}


def test_no_two_namespaces_are_one_user(tmp_path: Path) -> None:
    """Nor the user of trials. Two executors of a machine share the work root."""
    first, second = _users(tmp_path), _users(tmp_path)
    found = {name: (first, second)[place % 2].of(name).uid for place, name in enumerate(NAMES)}
    assert len(NAMES) == len(set(found.values()))
    assert all(FIRST < uid < AFTER for uid in found.values())


def test_tasks_that_begin_at_once_are_the_same_user(tmp_path: Path) -> None:
    """Each in a thread of its own, before the namespace was known."""
    users = _users(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        assert 1 == len(set(threads.map(lambda _: users.of("team").uid, range(64))))


def test_the_notes_say_whose_a_number_is(tmp_path: Path) -> None:
    """For an operator who looks at a process or a file."""
    uid = _users(tmp_path).of("team").uid
    assert [str(uid)] == [each.name for each in (tmp_path / "users").iterdir()]
    assert "team" == (tmp_path / "users" / str(uid)).read_text()
