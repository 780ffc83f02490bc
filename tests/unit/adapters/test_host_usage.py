"""The usage of the place that bounds an executor, on made-up trees of both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import psutil

from tickwise.adapters.runner.process.host_usage import HostMeter

MB = 1 << 20


def process(folder: Path, groups: str, mounts: str) -> Path:
    """What the kernel says of a process, `$` standing for the folder."""
    (folder / "cgroup").write_text(groups)
    (folder / "mountinfo").write_text(mounts.replace("$", str(folder)))
    return folder


def group(folder: Path, **files: str) -> None:
    """A group with these files, `__` standing for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_a_container_is_full_at_its_own_limits(tmp_path: Path) -> None:
    """Version 2: the group of a service has the limits, and a group below it the processes."""
    service = tmp_path / "mounted" / "system.slice" / "tickwise.service"
    group(
        service,
        cpu__max="50000 100000",
        cpu__stat="usage_usec 7500000\nuser_usec 1",
        memory__max=str(64 * MB),
        memory__current=str(40 * MB),
        memory__stat=f"anon 1\ninactive_file {10 * MB}",
    )
    group(service / "executor", cpu__max="max 100000", memory__max="max", cpu__stat="usage_usec 1")
    where = process(
        tmp_path,
        "0::/system.slice/tickwise.service/executor\n",
        "31 23 0:28 / $/mounted rw shared:4 - cgroup2 cgroup2 rw\n",
    )
    assert (7.5, 0.5, 30 * MB, 64 * MB) == HostMeter(where).read()


def test_the_least_limit_of_all_groups_counts(tmp_path: Path) -> None:
    """A pod of 32 MB within a node's slice of 64 MB."""
    group(
        tmp_path / "m" / "slice", memory__max=str(64 * MB), memory__current=str(50 * MB), memory__stat="inactive_file 0"
    )
    group(
        tmp_path / "m" / "slice" / "pod",
        memory__max=str(32 * MB),
        memory__current=str(9 * MB),
        memory__stat="inactive_file 0",
    )
    where = process(tmp_path, "0::/slice/pod\n", "31 23 0:28 / $/m rw - cgroup2 cgroup2 rw\n")
    usage = HostMeter(where).read()
    assert (9 * MB, 32 * MB) == (usage.memory_bytes, usage.memory_limit_bytes)


def test_version_1_has_a_hierarchy_for_each(tmp_path: Path) -> None:
    """Processor time may be counted in another one than the one that limits it."""
    group(tmp_path / "cpu" / "docker" / "abc", cpu__cfs_quota_us="100000", cpu__cfs_period_us="100000")
    group(tmp_path / "cpuacct" / "docker" / "abc", cpuacct__usage="2500000000")
    group(
        tmp_path / "memory" / "docker" / "abc",
        memory__limit_in_bytes=str(16 * MB),
        memory__usage_in_bytes=str(8 * MB),
        memory__stat=f"total_inactive_file {MB}",
    )
    mounts = "".join(
        f"3{n} 23 0:2{n} / $/{name} rw - cgroup cgroup rw,{name}\n"
        for n, name in enumerate(("cpu", "cpuacct", "memory"))
    )
    where = process(tmp_path, "3:cpu:/docker/abc\n2:cpuacct:/docker/abc\n1:memory:/docker/abc\n", mounts)
    assert (2.5, 1.0, 7 * MB, 16 * MB) == HostMeter(where).read()


def test_without_a_limit_it_is_the_machine(tmp_path: Path) -> None:
    """Groups without limits, and no groups at all; the processor time only grows."""
    group(tmp_path / "m", cpu__stat="usage_usec 5", memory__max="max", memory__current="1", memory__stat="x 1")
    for where in (process(tmp_path, "0::/\n", "31 23 0:28 / $/m rw - cgroup2 cgroup2 rw\n"), tmp_path / "absent"):
        meter = HostMeter(where)
        first, second = meter.read(), meter.read()
        total = psutil.virtual_memory().total
        assert total == first.memory_limit_bytes
        assert 0 < first.memory_bytes < total
        assert 1 <= first.cpu_cores
        assert 5.0 < first.cpu_seconds <= second.cpu_seconds


def test_a_limit_beyond_the_machine_is_none(tmp_path: Path) -> None:
    """A group may be allowed more than there is."""
    group(
        tmp_path / "m",
        cpu__max="100000000 100000",
        cpu__stat="usage_usec 1000000",
        memory__max=str(1 << 50),
        memory__current=str(MB),
        memory__stat="inactive_file 0",
    )
    usage = HostMeter(process(tmp_path, "0::/\n", "31 23 0:28 / $/m rw - cgroup2 cgroup2 rw\n")).read()
    assert psutil.virtual_memory().total == usage.memory_limit_bytes
    assert usage.cpu_cores < 1000
