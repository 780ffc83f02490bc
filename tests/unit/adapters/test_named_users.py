"""The users that jobs may name, as one executor finds them among the accounts of its machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from tickwise.adapters.runner.process.accounts.run_as import LOOK_SECONDS, REFUSED, NamedUsers, login_of
from tickwise.adapters.runner.process.start import Start
from tickwise.adapters.runner.process.task_starter import TaskStarter
from tickwise.adapters.runner.process.task_users import RANGE, TaskUser
from tickwise.adapters.runner.process.tree import Moment
from tickwise.domain.accounts.run_as import read_run_as_users
from tickwise.domain.rules.confinement import Confinement
from tickwise.ports.runner import Assignment, TaskLimits
from tickwise.testing.clock import ShiftedClock

OWN = 5
ACCOUNTS = {"own": OWN, "other": 6, "root": 0, "toor": 0, "made": RANGE[0] + 7}


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


@pytest.fixture(autouse=True)
def accounts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The accounts of a machine; a test may change them."""
    found = dict(ACCOUNTS)

    def entry(name: str) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", found[name], 50, "", f"/srv/{name}", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwnam", entry)
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, 51])
    return found


def users(threads: ThreadPoolExecutor, names: Sequence[str] = tuple(ACCOUNTS)) -> NamedUsers:
    return NamedUsers(read_run_as_users(names), ShiftedClock(), threads)


def task(name: str) -> Assignment:
    none = UUID(int=0)
    given = Assignment(none, 1, none, "default", 1, 0.0, 0.0, {"kind": "shell"}, b"{}", None, TaskLimits(1))
    return given._replace(confinement=Confinement(run_as=name))


def test_root_offers_all_but_users_that_are_root_or_of_a_namespace_under_another_name(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    named = users(threads)
    named.users_besides("root", Path("/nowhere"))
    assert ["run_as:other", "run_as:own", "run_as:root"] == list(named.labels())
    for name in ("toor", "made"):
        refused = named.look_up(task(name))
        assert refused is not None
        assert REFUSED == refused.reason


def test_another_user_offers_itself_alone(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """And changes nothing for its tasks but their environment."""
    monkeypatch.setattr(os, "geteuid", lambda: OWN)
    named = users(threads)
    assert named.users_besides(None, Path("/nowhere")) is None
    assert ["run_as:own"] == list(named.labels())
    assert named.look_up(task("own")) is None
    user = named.of(task("own"))
    assert user is not None
    assert named.starter_of(user, None) is None
    login = {"HOME": "/srv/own", "LOGNAME": "own", "USER": "own", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    assert login == login_of(user)


def test_a_user_is_looked_up_at_each_start(
    threads: ThreadPoolExecutor, accounts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have come, gone or another number since; labels follow within a while."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    del accounts["other"]
    clock = ShiftedClock()
    named = NamedUsers(read_run_as_users(["other"]), clock, threads)
    named.users_besides("root", Path("/nowhere"))
    assert () == named.labels()
    accounts["other"] = 60
    assert named.look_up(task("other")) is None
    assert (60, (50, 51)) == ((found := named.of(task("other"))) and found.uid, found and found.groups)
    accounts["other"] = 61
    assert named.look_up(task("other")) is None
    assert 61 == ((found := named.of(task("other"))) and found.uid)
    clock.shift(LOOK_SECONDS)
    named.labels()
    threads.submit(lambda: None).result()
    assert ("run_as:other",) == named.labels()


@pytest.mark.parametrize("is_named", [False, True])
def test_the_processes_of_a_named_user_are_never_all_stopped(is_named: bool) -> None:
    """It may be the user of a database."""
    start = Start(
        arguments=["true"], work=Path("/"), environment={}, limits=TaskLimits(1), mark=b"", number=1, places={},
        group_name="", user=TaskUser(4_242, 4_242, (), None, "a", is_named),
        starter=TaskStarter(1, new_privileges=True),
    )  # fmt: skip
    tree = start.tree_of(TaskOf(), Moment(0))
    assert is_named is (tree.all_stopped is None)


class TaskOf:
    """A process that is never asked."""

    pid = 1

    def watch(self) -> int:
        raise NotImplementedError

    def holds_number(self) -> bool:
        return True

    def reap(self) -> None:
        raise NotImplementedError
