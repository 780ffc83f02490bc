"""Where control groups are looked for and what they tell, on made-up trees: what few machines have all of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwise.adapters.runner.process import cgroups
from tickwise.adapters.runner.process.cgroups import (
    Group,
    GroupFolder,
    Resource,
    Usage,
    candidates,
    find_places,
    make_group,
)
from tickwise.ports.runner import TaskLimits

ALL = TaskLimits(1, 2.0, 3 << 20, 4)


def _process(folder: Path, *, groups: str, mounts: str) -> Path:
    """What the kernel says of a process, `$` standing for the folder."""
    (folder / "cgroup").write_text(groups)
    (folder / "mountinfo").write_text(mounts.replace("$", str(folder)))
    return folder


def _version_2(folder: Path, *, controllers: str, passed_on: str) -> None:
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(passed_on)


SERVICE = "0::/system.slice/tickwise.service/executor\n"
MOUNT_2 = "31 23 0:28 / $/mounted rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_a_delegated_service_of_systemd_divides_the_group_above_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own has processes, so version 2 lets it divide nothing."""
    service = tmp_path / "mounted" / "system.slice" / "tickwise.service"
    _version_2(service, controllers="cpu io memory pids\n", passed_on="memory pids\n")
    _version_2(service / "executor", controllers="memory pids\n", passed_on="\n")
    monkeypatch.setattr(cgroups, "_is_delegated", lambda folder: folder == service)
    monkeypatch.setattr(cgroups, "_write", _refusing)
    found = list(candidates(_process(tmp_path, groups=SERVICE, mounts=MOUNT_2)))
    assert found == [
        (Resource.CPU, GroupFolder(2, service / "executor")),
        (Resource.MEMORY, GroupFolder(2, service)),
        (Resource.PIDS, GroupFolder(2, service)),
    ]


def _refusing(_file: Path, _text: str) -> None:
    raise OSError("busy")


def test_a_service_that_was_not_delegated_divides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group above it is somebody else's, whatever we could write."""
    service = tmp_path / "mounted" / "system.slice" / "tickwise.service"
    _version_2(service, controllers="memory pids\n", passed_on="memory pids\n")
    _version_2(service / "executor", controllers="memory pids\n", passed_on="\n")
    monkeypatch.setattr(cgroups, "_write", _refusing)
    found = list(candidates(_process(tmp_path, groups=SERVICE, mounts=MOUNT_2)))
    assert found == [(Resource.CPU, GroupFolder(2, service / "executor"))]


def test_a_group_is_asked_to_pass_on_what_is_needed_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controllers that we have no use for, and what it passes on already, stay as they are."""
    own = tmp_path / "mounted"
    _version_2(own, controllers="cpuset cpu memory pids\n", passed_on="pids\n")

    def obeying(file: Path, text: str) -> None:
        asked.append(text)
        file.write_text(f"{file.read_text().strip()} {text.removeprefix('+')}\n")

    asked: list[str] = []
    monkeypatch.setattr(cgroups, "_write", obeying)
    assert cgroups.passed_on(own) == [Resource.MEMORY, Resource.PIDS]
    assert asked == ["+memory"]


def test_each_controller_of_version_1_has_a_tree_of_its_own(tmp_path: Path) -> None:
    """In a container, whose mounts show only its part, too."""
    groups = "9:name=systemd:/\n8:pids:/\n4:memory:/box/abc\n2:cpu,cpuacct:/box/abc\n0::/\n"
    mounts = (
        "35 31 0:32 /box/abc $/memory rw - cgroup cgroup rw,memory\n"
        "33 31 0:30 / $/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "40 31 0:37 / $/pids rw - cgroup cgroup rw,pids\n"
        "41 31 0:38 / /proc rw - proc proc rw\n"
    )
    found = dict(candidates(_process(tmp_path, groups=groups, mounts=mounts)))
    assert found == {
        Resource.MEMORY: GroupFolder(1, tmp_path / "memory"),
        Resource.PIDS: GroupFolder(1, tmp_path / "pids"),
        Resource.CPU: GroupFolder(1, tmp_path / "cpu" / "box" / "abc"),
    }


def test_where_nothing_can_be_made_there_is_no_place(tmp_path: Path) -> None:
    """No control groups at all, none that is ours, or what is no tree of control groups."""
    assert find_places("x", process=tmp_path / "none") == {}
    process = _process(tmp_path, groups=SERVICE, mounts=MOUNT_2)
    assert find_places("x", process=process) == {}
    service = tmp_path / "mounted" / "system.slice" / "tickwise.service" / "executor"
    _version_2(service, controllers="memory pids\n", passed_on="memory pids\n")
    assert find_places("x", process=process) == {}
    assert not [one for one in service.iterdir() if one.is_dir()]
    assert make_group({}, "x-1", ALL) is None


def test_a_group_that_cannot_be_limited_is_not_used(tmp_path: Path) -> None:
    """Better watched than unlimited: a folder without the kernel's files takes no limit."""
    assert make_group({Resource.MEMORY: GroupFolder(2, tmp_path)}, "x-1", ALL) is None


def _counting(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def test_what_a_group_of_version_2_has_counted(tmp_path: Path) -> None:
    """Processor time, and whether one of its own limits was met."""
    _counting(
        tmp_path,
        cpu__stat="usage_usec 1500000\nuser_usec 1000000\n",
        memory__events="low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n",
        pids__events="max 3\n",
    )
    group = Group({resource: GroupFolder(2, tmp_path) for resource in Resource})
    assert group.usage() == Usage(1.5, memory_exceeded=True, processes_exceeded=True)


@pytest.mark.parametrize(("oom", "oom_kill"), [(0, 1), (1, 0), (0, 0)])
def test_a_kill_for_want_of_memory_elsewhere_is_not_the_tasks_limit(tmp_path: Path, oom: int, oom_kill: int) -> None:
    """The machine's memory was over, or reclaiming helped."""
    _counting(tmp_path, memory__events=f"oom {oom}\noom_kill {oom_kill}\n")
    assert Group({Resource.MEMORY: GroupFolder(2, tmp_path)}).usage().memory_exceeded is False
    _counting(tmp_path, memory__failcnt=f"{oom}\n", memory__oom_control=f"under_oom 0\noom_kill {oom_kill}\n")
    assert Group({Resource.MEMORY: GroupFolder(1, tmp_path)}).usage().memory_exceeded is False


def test_a_group_that_is_gone_tells_nothing_and_counts_as_removed(tmp_path: Path) -> None:
    """Somebody may have tidied it away."""
    group = Group({resource: GroupFolder(2, tmp_path / "gone") for resource in Resource})
    assert group.usage() == Usage()
    assert group.members() == set()
    assert group.remove()
    group.kill()
