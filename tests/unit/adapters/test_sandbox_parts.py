"""The parts of a sandbox that need no kernel: its filter, its plan, the files of interpreters, bubblewrap's words."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tickwise.adapters.runner.process.sandbox import syscalls
from tickwise.adapters.runner.process.sandbox.bubblewrap import command, options
from tickwise.adapters.runner.process.sandbox.etc_folder import EtcFolders, Person
from tickwise.adapters.runner.process.sandbox.interpreter_mounts import interpreter_mounts, may_be_whole
from tickwise.adapters.runner.process.sandbox.landlock import landlock_abi
from tickwise.adapters.runner.process.sandbox.plan import Mount, SandboxPlan
from tickwise.adapters.runner.process.sandbox.syscalls import ALLOW, DENIED, ERROR, KILL, MACHINES, seccomp_filter

REFUSED = ERROR | errno.EPERM


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """The return of the filter for a call, as the kernel's interpreter of BPF would give it."""
    given = [*arguments, *[0] * (6 - len(arguments))]
    architecture = MACHINES[machine] if arch is None else arch
    data = struct.pack("<IIQ6Q", number, architecture, 0, *[each & (1 << 64) - 1 for each in given])
    program = [
        struct.unpack("<HBBI", seccomp_filter(machine)[at : at + 8]) for at in range(0, len(seccomp_filter(machine)), 8)
    ]
    loaded, place = 0, 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        if code == syscalls.LOAD:
            [loaded] = struct.unpack_from("<I", data, value)
        elif code == syscalls.RETURN:
            return int(value)
        else:
            tests = {
                syscalls.IF_EQUAL: loaded == value,
                syscalls.IF_NOT_BELOW: loaded >= value,
                syscalls.IF_ANY_BIT: bool(loaded & value),
            }
            place += if_true if tests[code] else if_false


def numbers(name: str, machine: str) -> list[int]:
    found = getattr(DENIED[name], machine)
    return [] if found is None else [found]


@pytest.mark.parametrize("machine", MACHINES)
def test_each_denied_call_is_refused_and_others_are_not(machine: str) -> None:
    """On both machines."""
    for name in DENIED:
        for number in numbers(name, machine):
            assert REFUSED == verdict(machine, number), name
    plain = {"x86_64": (0, 1, 2, 59, 60, 202, 257), "aarch64": (56, 63, 64, 93, 98, 221)}[machine]
    assert {ALLOW} == {verdict(machine, number) for number in plain}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_looked_into(machine: str) -> None:
    """Those that are harmless but for their arguments, also with rubbish in the half that the kernel ignores."""
    clone, ioctl, socket, personality = (
        getattr(each, machine) for each in (syscalls.CLONE, syscalls.IOCTL, syscalls.SOCKET, syscalls.PERSONALITY)
    )
    rubbish = 0xDEAD << 32
    assert ALLOW == verdict(machine, clone, 0x0100_0011)
    for flag in (0x2_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000):
        assert REFUSED == verdict(machine, clone, rubbish | flag | 17)
    assert (ERROR | errno.ENOSYS) == verdict(machine, 435)
    assert [REFUSED, REFUSED, REFUSED, ALLOW, ALLOW] == [
        verdict(machine, ioctl, 0, rubbish | number) for number in (0x5412, 0x541C, 0x5423, 0x5413, 0x5424)
    ]
    assert {ALLOW} == {verdict(machine, socket, family, 1, 6) for family in (1, 2, 10)}
    assert ALLOW == verdict(machine, socket, 16, 3, 0)
    unknown = ERROR | errno.EAFNOSUPPORT
    assert {unknown} == {verdict(machine, socket, family, 3, 0) for family in (0, 3, 15, 17, 38, 40)}
    assert unknown == verdict(machine, socket, 16, 3, 9)
    assert [ALLOW, ALLOW, REFUSED] == [verdict(machine, personality, each) for each in (0, 0xFFFF_FFFF, 0x0040_0000)]


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_of_the_internet_are_those_that_programs_use(machine: str) -> None:
    """TCP, UDP and ping, with flags; nothing that the kernel loads because somebody names it."""
    rubbish, flags = 0xDEAD << 32, 0x8_0800
    new, option = getattr(syscalls.SOCKET, machine), getattr(syscalls.SETSOCKOPT, machine)
    usual = [(1, 0), (1, 6), (2, 0), (2, 17), (2, 1), (2, 58), (3, 1), (1 | flags, 6), (2 | flags, 0)]
    rare = [(1, 262), (1, 132), (2, 136), (2, 115), (1, 256), (5, 0), (5, 132), (6, 0), (6 | flags, 33), (10, 0)]
    for family in (2, 10):
        assert {ALLOW} == {verdict(machine, new, family, *each) for each in usual}
        refused = {verdict(machine, new, rubbish | family, kind, rubbish | protocol) for kind, protocol in rare}
        assert {ERROR | errno.EPROTONOSUPPORT} == refused
    assert {ALLOW} == {verdict(machine, new, 1, kind, 0) for kind in (1, 2, 5, 5 | flags)}
    assert (ERROR | errno.ENOENT) == verdict(machine, option, 3, rubbish | 6, rubbish | 31)
    assert {ALLOW} == {verdict(machine, option, 3, *each) for each in ((6, 1), (1, 31), (0, 31), (41, 31))}


def test_other_tables_of_calls_lead_nowhere() -> None:
    """Those of 32 bits, whose numbers are others, and x32."""
    assert KILL == verdict("x86_64", 1, arch=0x4000_0003)
    assert KILL == verdict("aarch64", 1, arch=0x4000_0028)
    assert REFUSED == verdict("x86_64", syscalls.X32_BIT | 1)


def test_the_environment_is_in_the_file_of_options_and_not_in_an_argument(tmp_path: Path) -> None:
    """Nor is anything else of the plan."""
    plan = SandboxPlan(work="/w", home="/task", etc=tmp_path, mounts=(Mount("/data", "/data", True),))
    words = options(plan, {"KEY": "hid\nden", "EMPTY": ""}, 7).split(b"\0")
    at = words.index(b"KEY")
    assert [b"--setenv", b"KEY", b"hid\nden"] == words[at - 1 : at + 2]
    assert b"" == words[-1]
    assert [b"--bind", b"/data", b"/data"] == words[words.index(b"--bind") : words.index(b"--bind") + 3]
    assert b"--share-net" not in words
    line = command("bwrap", 5, ["prog", "a b"])
    assert ["bwrap", "--args", "5", "--"] == line[:4]
    assert ["prog", "a b"] == line[-2:]


def test_a_plan_shows_what_its_mounts_lead_to(tmp_path: Path) -> None:
    """By the name and by where its links lead."""
    link = tmp_path / "shown" / "link"
    link.parent.mkdir()
    (tmp_path / "hidden").touch()
    link.symlink_to(tmp_path / "hidden")
    (tmp_path / "shown" / "own").touch()
    shown = str(tmp_path / "shown")
    plan = SandboxPlan(work=shown, home="/task", etc=tmp_path, mounts=(Mount(shown, shown),))
    assert plan.shows("/bin/sh")
    assert plan.shows(f"{shown}/own")
    assert not plan.shows(f"{shown}/../hidden")
    assert not plan.shows(str(link))
    assert not plan.shows(f"{shown}-beside/own")


def test_a_virtual_environment_comes_with_what_it_stands_on(tmp_path: Path) -> None:
    """Its base, and the source of packages that are installed as editable."""
    base, venv, source = tmp_path / "base", tmp_path / "venv", tmp_path / "source"
    (base / "lib/python3.12").mkdir(parents=True)
    (base / "lib/python3.12/os.py").touch()
    (base / "bin").mkdir()
    (base / "bin/python3").touch()
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(base / "bin/python3")
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.12\n")
    packages = venv / "lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    source.mkdir()
    (packages / "editable.pth").write_text(f"import site\n{source}\n/\n/home\n/no/such/folder\n")
    found = {mount.target for mount in interpreter_mounts(str(venv / "bin/python"))}
    assert {str(base), str(venv), str(source)} == found
    built = {mount.target for mount in interpreter_mounts(str(venv / "bin/python"), is_built=True)}
    assert {str(base), str(venv)} == built, "packages name no folder of the machine"


def test_of_a_prefix_that_is_a_home_only_python_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the letters beside it."""
    from tickwise.adapters.runner.process.sandbox import interpreter_mounts as module

    (tmp_path / "lib/python3.12").mkdir(parents=True)
    (tmp_path / "lib/python3.12/os.py").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    monkeypatch.setattr(module, "_homes", lambda: frozenset({tmp_path}))
    found = {mount.target for mount in interpreter_mounts(str(tmp_path / "bin/python"))}
    assert {str(tmp_path / "bin/python"), str(tmp_path / "lib/python3.12")} == found


def test_the_system_and_homes_are_never_shown_as_a_whole() -> None:
    """Also under another name."""
    assert not any(map(may_be_whole, map(Path, ("/", "/etc", "/home", "/opt", "/usr/../etc", "/root"))))
    assert not any(map(may_be_whole, map(Path, ("/run/postgresql", "/var/run/docker", "/proc/sys", "/etc/cron.d"))))
    assert may_be_whole(Path("/opt/python"))


def test_the_folder_of_etc_has_no_secret_and_names_its_user(tmp_path: Path) -> None:
    """One folder for a user, made once."""
    folders = EtcFolders(tmp_path)
    made = folders.of(Person(1234, 1235, "task", "/task"))
    assert made == folders.of(Person(1234, 1235, "task", "/task"))
    assert made != folders.of(Person(1236, 1235, "other", "/task"))
    rows = (made / "passwd").read_text().splitlines()
    assert ["root", "nobody", "task"] == [row.split(":")[0] for row in rows]
    assert "task:x:1234:1235::/task:/bin/sh" == rows[-1]
    assert {"shadow", "ssh", "machine-id", "hostname", "gshadow", "sudoers"}.isdisjoint(os.listdir(made))
    assert all(path.stat().st_mode & 0o022 == 0 for path in made.rglob("*") if path.exists())


RESTRICTED = """
import os, signal, sys
from pathlib import Path
from tickwise.adapters.runner.process.sandbox.landlock import restrict
folder = Path(sys.argv[1])
open("/etc/hostname").close()
restrict([Path(each) for each in ("/usr", "/lib", "/lib64", "/proc", *sys.path[1:])], [folder])
(folder / "mine").write_text("x")
for path in ("/etc/hostname", folder.parent / "beside"):
    try:
        open(path, "a" if path != "/etc/hostname" else "r")
    except PermissionError:
        print("refused")
try:
    os.kill(os.getppid(), 0)
except PermissionError:
    print("no signal")
"""


def test_landlock_holds_a_process_to_its_folders(tmp_path: Path) -> None:
    """And, where the kernel can, to its own processes."""
    abi = landlock_abi()
    if abi == 0:
        pytest.skip("this kernel has no Landlock")
    folder = tmp_path / "own"
    folder.mkdir()
    done = subprocess.run([sys.executable, "-c", RESTRICTED, folder], capture_output=True, text=True, check=False)
    assert ["refused", "refused", *(["no signal"] if abi >= 6 else [])] == done.stdout.split("\n")[:-1], done.stderr
