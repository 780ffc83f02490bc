"""Tasks in sandboxes, by the real bubblewrap: what they cannot reach, and that all else is as for a plain process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.support.packages import add_wheel
from tests.support.runners import OWN_USER, gone
from tests.support.sandboxes import ONLINE, SANDBOX, SandboxShop
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import EnvironmentSettings, UvEnvironments
from tickwise.adapters.runner.process.sandbox import levels
from tickwise.adapters.runner.process.sandbox.plan import SandboxSizes
from tickwise.adapters.runner.process.task_places import environment_of, python_for
from tickwise.adapters.runner.process.task_starter_program import own_peak
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.domain.errors import Misconfigured
from tickwise.domain.rules.confinement import PLAIN, SANDBOX_LABEL, Confinement, Isolation
from tickwise.observability.metrics import Metrics
from tickwise.ports.blobs import log_prefix
from tickwise.ports.runner import TaskLimits, Verdict
from tickwise.testing.contracts.runner import log_of

ROOT = os.geteuid() == 0
USERS = [pytest.param(OWN_USER, id="the executor's own user")]
if ROOT:
    USERS.append(pytest.param(None, id="a user of the namespace"))
OUTPUT = 1 << 20
REPOSITORY = Path(__file__).parents[2]


@pytest_asyncio.fixture(params=USERS)
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SandboxShop]:
    made = SandboxShop(tmp_path / "work", run_tasks_as=request.param)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user may enter and write to."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-", dir="/var/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


# ------------------------------------------------------------------------------------------ what it cannot reach


async def test_an_executor_that_gives_sandboxes_offers_them(shop: SandboxShop) -> None:
    """Beside the kinds of tasks."""
    assert ["task:python", "task:shell", SANDBOX_LABEL] == [*shop.runner.labels()]


async def test_no_file_of_the_host_is_there(shop: SandboxShop, open_folder: Path) -> None:
    """Not even one that everybody may read."""
    secret = open_folder / "secret"
    secret.write_text("of the host")
    secret.chmod(0o644)
    hidden = [secret, "/etc/shadow", "/etc/hostname", "/root", "/var/log", "/run/lock", "/sys/kernel", "/boot", "/srv"]
    _, plain = await shop.shell(f"cat {secret}", confinement=PLAIN)
    assert plain == "of the host"
    ending, said = await shop.shell(
        "for each in {}; do test ! -e $each || echo $each; done".format(" ".join(map(str, hidden)))
    )
    assert (Verdict.OK, "") == (ending.verdict, said)


async def test_it_sees_no_other_process(shop: SandboxShop) -> None:
    """Its /proc is of its own namespace."""
    _, said = await shop.python("import os\nprint(sorted(int(each) for each in os.listdir('/proc') if each.isdigit()))")
    assert "[1, 2]" == said.strip()


async def test_process_1_shows_nothing_of_the_executor(shop: SandboxShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its environment nor its command line, nor a descriptor of it."""
    monkeypatch.setenv("TICKWISE_DATABASE_URL", "secret")
    ending, said = await shop.shell(
        "cat /proc/1/environ /proc/1/cmdline /proc/self/environ; ls -l /proc/self/fd /proc/1/fd"
    )
    assert ending.verdict is Verdict.OK, said
    assert "secret" not in said
    assert "bwrap" not in said
    assert "memfd" not in said
    assert "seccomp" not in said


async def test_nothing_of_a_task_is_in_an_argument_of_its_sandbox(shop: SandboxShop) -> None:
    """Everybody on the machine may read those of bubblewrap."""
    given = shop.launch({"kind": "shell", "command": "sleep 600", "env": {"KEY": "hidden-key"}})

    def around() -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if _name(each) == "bwrap" and str(given.run_id) in _told(each)]

    await eventually(lambda: any("sleep" == _name(each) for one in around() for each in one.children(recursive=True)))
    found = around()
    assert "hidden-key" not in "".join(_told(each) for each in found)
    assert [{}] == [each.environ() for each in found]
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    await shop.listener.ending_of(given)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _told(process: psutil.Process) -> str:
    try:
        return "\0".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


CONNECT = """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=5)
    print("connected")
except OSError as error:
    print(type(error).__name__)
print(sorted(name for _, name in socket.if_nameindex()) == ["lo"])
"""


async def test_it_has_no_network_unless_its_job_allows_one(shop: SandboxShop) -> None:
    """Not even the executor's loopback; with `allow_network: true` the executor's whole."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = CONNECT.format(port=server.getsockname()[1])
        _, alone = await shop.python(source)
        _, online = await shop.python(source, confinement=ONLINE)
    assert ["ConnectionRefusedError", "True"] == alone.split()
    assert "connected" == online.split()[0]


async def test_with_a_network_it_reaches_no_abstract_socket_of_the_host(shop: SandboxShop) -> None:
    """Landlock hides what the network namespace would."""
    if not shop.runner._sandboxes.level.hides_abstract_sockets:
        pytest.skip("this kernel has no scopes of Landlock")
    name = f"\0tickwise-{os.getpid()}"
    source = f"import socket\nsocket.socket(socket.AF_UNIX).connect({name!r})"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        plain, _ = await shop.python(source, confinement=PLAIN)
        ending, said = await shop.python(source, confinement=ONLINE)
    assert plain.verdict is Verdict.OK
    assert "PermissionError" in said, ending


async def test_with_a_network_it_finds_names_and_certificates(shop: SandboxShop) -> None:
    """Those of the machine."""
    _, said = await shop.shell("cat /etc/resolv.conf /etc/hosts", confinement=ONLINE)
    assert Path("/etc/hosts").read_text() in said
    _, alone = await shop.shell("cat /etc/hosts")
    assert "localhost" in alone


async def test_the_system_is_read_only(shop: SandboxShop) -> None:
    """Also for a task of root's."""
    places = ["/usr", "/usr/bin", "/etc", "/", "/dev", "/var", "/run", "/home"]
    ending, said = await shop.shell(
        "for each in {}; do (: > $each/new) 2>/dev/null && echo $each; done; :".format(" ".join(places))
    )
    assert (Verdict.OK, "") == (ending.verdict, said)


async def test_its_tmp_and_home_are_its_own(shop: SandboxShop) -> None:
    """Empty at first, and gone with it."""
    # Its own folder may lie below the machine's /tmp.
    command = (
        'find /tmp "$HOME" /dev/shm -type f ! -path "${TICKWISE_WORK_FOLDER%/work}/*"; stat -c %a /tmp; '
        'echo mine | tee /tmp/one "$HOME/one" /dev/shm/one >/dev/null'
    )
    for _ in range(2):
        ending, said = await shop.shell(command)
        assert (Verdict.OK, "1777\n") == (ending.verdict, said)


async def test_what_it_writes_in_memory_is_bounded(shop: SandboxShop) -> None:
    """Each folder by itself."""
    small = SandboxSizes(tmp=1 << 20, home=1 << 20, shared_memory=1 << 20)
    shop.runner._prepared = None  # sandboxes that stand already have the usual sizes
    shop.runner._sandboxes = dataclasses.replace(shop.runner._sandboxes, sizes=small)
    for place in ("/tmp", "$HOME", "/dev/shm"):
        ending, said = await shop.shell(f"head -c 2000000 /dev/zero > {place}/much; wc -c < {place}/much")
        assert str(1 << 20) in said, ending
        assert "No space left on device" in said


DENIED = """
import ctypes, errno, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
def call(name, *numbers):
    number = numbers[0 if x86 else 1]
    found = libc.syscall(number, *numbers[2:])
    print(name, "done" if found >= 0 else errno.errorcode[ctypes.get_errno()])
call("unshare", 272, 97, 0x10000000)
call("clone", 56, 220, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 435, 0, 0)
call("mount", 165, 40, b"none", b"/tmp", b"tmpfs", 0, 0)
call("setns", 308, 268, 0, 0)
call("ptrace", 101, 117, 16, 1, 0, 0)
call("bpf", 321, 280, 0, 0, 0)
call("perf", 298, 241, 0, 0, -1, -1, 0)
call("io_uring", 425, 425, 1, 0)
call("keyctl", 250, 219, 0, -3, 0)
call("userfaultfd", 323, 282, 0)
call("personality", 135, 92, 0x0040000)
call("tiocsti", 16, 29, 0, 0x5412, b"x")
call("handle", 304, 265, -1, 0, 0)
call("vm_read", 310, 270, 1, 0, 0, 0, 0, 0)
for family in (16, 17, 38, 40):
    try:
        socket.socket(family, socket.SOCK_RAW, 9 if family == 16 else 0)
        print("socket", family, "done")
    except OSError as error:
        print("socket", family, errno.errorcode[error.errno])
try:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    print("raw done")
except OSError as error:
    print("raw", errno.errorcode[error.errno])
"""


async def test_the_kernel_refuses_the_calls_of_exploits(shop: SandboxShop) -> None:
    """By seccomp: each with the error that libraries take as a no."""
    _, said = await shop.python(DENIED, confinement=ONLINE)
    found = dict(line.rsplit(" ", 1) for line in said.splitlines())
    clone3 = found.pop("clone3")
    sockets = {found.pop(f"socket {family}") for family in (16, 17, 38, 40)}
    assert ("ENOSYS", {"EAFNOSUPPORT"}) == (clone3, sockets)
    assert {"EPERM"} == set(found.values()), found


async def test_it_has_no_rights_and_gets_none(shop: SandboxShop) -> None:
    """No capability, and no setuid program gives one."""
    _, said = await shop.shell("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
    rows = dict(line.split(":\t") for line in said.splitlines())
    assert ("1", "2") == (rows.pop("NoNewPrivs"), rows.pop("Seccomp"))
    assert {"0" * 16} == set(rows.values())


async def test_a_link_takes_no_file_of_the_host_out(shop: SandboxShop, open_folder: Path) -> None:
    """Neither as an artefact nor as a result: names of a sandbox are other files outside."""
    secret = open_folder / "secret.json"
    secret.write_text('"of the host"')
    secret.chmod(0o644)
    command = f'ln -s {secret} kept; ln -s / all; ln -s ../../.. up; ln -s {secret} "$TICKWISE_RESULT_FILE"'
    ending, said = await shop.shell(command)
    assert ending.result is None
    assert "of the host" not in said
    keys = [key async for key in _keys(shop)]
    assert not any("kept" in key for key in keys)


async def _keys(shop: SandboxShop) -> AsyncIterator[str]:
    for page in [
        await asyncio.to_thread(lambda: [str(meta["path"]) for batch in shop.blobs._store.list() for meta in batch])
    ]:
        for key in page:
            yield key


# ------------------------------------------------------------------------------------------ as outside

SAME: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("success", {"kind": "shell", "command": "echo out; echo err >&2"}, {}),
    ("a status", {"kind": "shell", "command": "exit 3"}, {}),
    ("a status that looks like a signal's", {"kind": "shell", "command": "sh -c 'kill -9 $$'"}, {}),
    ("input that cannot be right", {"kind": "python", "source": "raise SystemExit(65)"}, {}),
    ("a signal", {"kind": "python", "source": "import os\nos.kill(os.getpid(), 9)"}, {}),
    ("a signal to a program", {"kind": "shell", "argv": ["sh", "-c", "kill -SEGV $$"]}, {}),
    ("an exception", {"kind": "python", "source": "1 / 0"}, {"names_errors": True}),
    ("no such module", {"kind": "python", "source": "import no_such_module_here"}, {}),
    ("no such program", {"kind": "shell", "argv": ["no-such-program"]}, {}),
    ("a program's arguments", {"kind": "shell", "argv": ["printf", "%s|", "a b", "", "$HOME", "ü"]}, {}),
    ("a builtin of the shell", {"kind": "shell", "argv": ["echo", "-n", "x"]}, {}),
    ("no such folder", {"kind": "shell", "command": ":", "directory": "/no/such/folder"}, {}),
    ("no such interpreter", {"kind": "python", "source": "", "python": "/no/such/python"}, {}),
    ("no Python", {"kind": "python", "source": "", "python": "/bin/true"}, {}),
    ("a script of Windows", {"kind": "python", "source": "import sys\r\nif True:\r\n    print('crlf')\r\n"}, {}),
    ("a command of Windows", {"kind": "shell", "command": "echo one\necho two"}, {}),
    ("input", {"kind": "shell", "command": "cat; echo end"}, {}),
    ("a payload", {"kind": "shell", "command": 'echo "$TICKWISE_PAYLOAD"'}, {}),
    ("variables", {"kind": "shell", "command": 'echo "$A$B"', "env": {"A": "1 2", "B": "ü\n"}}, {}),
    ("a result", {"kind": "shell", "command": 'echo \'{"a": 1}\' > "$TICKWISE_RESULT_FILE"'}, {}),
    ("no JSON", {"kind": "shell", "command": 'echo no > "$TICKWISE_RESULT_FILE"'}, {}),
    ("helpers", {"kind": "python", "source": "import helper", "files": {"helper.py": {"text": "print(5)"}}}, {}),
    # A shell that waits for its program tells of its end, if it is not ended first itself.
    ("its time", {"kind": "shell", "command": "exec sleep 600"}, {"timeout_seconds": 0.3}),
    ("its memory", {"kind": "python", "source": "x = b'x' * 600_000_000\nimport time\ntime.sleep(600)"},
     {"limits": TaskLimits(OUTPUT, memory_bytes=100 << 20)}),
    ("its processor time", {"kind": "python", "source": "while True: pass"},
     {"limits": TaskLimits(OUTPUT, cpu_seconds=0.3)}),
    ("its processes", {"kind": "shell", "command": "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; wait"},
     {"limits": TaskLimits(OUTPUT, processes=4)}),
    ("just as many processes", {"kind": "shell", "command": "sleep 0.3 & sleep 0.3 & wait"},
     {"limits": TaskLimits(OUTPUT, processes=3)}),
    ("its output", {"kind": "shell", "command": "yes"}, {"limits": TaskLimits(1000)}),
]  # fmt: skip


@pytest.mark.parametrize(("task", "changes"), [pytest.param(*each[1:], id=each[0]) for each in SAME])
async def test_a_task_ends_as_it_would_outside(
    shop: SandboxShop, task: dict[str, Any], changes: dict[str, Any]
) -> None:
    """The same verdict, reason, result, symptoms and output."""
    outside, said = await shop.run(task, confinement=PLAIN, **changes)
    inside, found = await shop.run(task, **changes)
    facts = [(each.verdict, each.reason, each.result, each.symptoms) for each in (outside, inside)]
    assert facts[0] == facts[1], (outside, inside)
    if outside.reason not in ("process_limit", "output_limit"):  # these end where they are met
        folders = [shop.runner._folder.path]  # type: ignore[union-attr]  # it is open
        assert _without(said, folders) == _without(found, folders)


def _without(text: str, folders: list[Path]) -> str:
    """Without the names of attempts."""
    for folder in folders:
        text = "".join(part[45 + len("-7") :] if i else part for i, part in enumerate(text.split(str(folder))))
    return text


async def test_its_usage_is_known(shop: SandboxShop) -> None:
    """Processor time and memory, as the kernel counts them through its sandbox. A peak is known above that of the
    program that started it, which is this one: after many tests it is large, and to fill as much takes seconds."""
    held = 200_000_000 + (own_peak() or 0) * 1024
    ending, _ = await shop.python(f"x = b'x' * {held}\nimport time\nwhile time.process_time() < 0.5: pass")
    assert ending.usage is not None
    assert 0.5 <= (ending.usage.cpu_seconds or 0.0) < 60.0
    assert held <= (ending.usage.memory_bytes or 0) < held + 200_000_000


async def test_a_large_payload_comes_in_a_file(shop: SandboxShop) -> None:
    """At the path that it is told."""
    ending, said = await shop.shell('wc -c < "$TICKWISE_PAYLOAD_FILE"', payload={"text": "x" * 70_000})
    assert int(said) > 70_000, ending


async def test_what_is_left_in_its_work_folder_is_kept(shop: SandboxShop) -> None:
    """As artefacts."""
    _, said = await shop.shell("mkdir sub; echo one > sub/one.txt")
    assert "one.txt" in said


async def test_its_folder_is_writable(shop: SandboxShop, open_folder: Path) -> None:
    """The one that the task names, at its own path."""
    ending, said = await shop.run({"kind": "shell", "command": "pwd; echo x > new", "directory": str(open_folder)})
    assert (Verdict.OK, str(open_folder)) == (ending.verdict, said.strip())
    assert "x\n" == (open_folder / "new").read_text()


@pytest.mark.parametrize("folder", ["/", "/etc", "/etc/ssl", "/usr", "/proc/1", "/run", "/var", "/home", "/tmp"])
async def test_no_sandbox_shows_a_folder_of_the_system(shop: SandboxShop, folder: str) -> None:
    """By naming it as the folder of a task."""
    ending, _ = await shop.run({"kind": "shell", "command": "ls", "directory": folder})
    assert (Verdict.INVALID, "directory_missing") == (ending.verdict, ending.reason)
    assert "a sandbox does not show this folder" in (ending.error or "")


async def test_no_sandbox_shows_a_folder_of_the_executor(shop: SandboxShop, open_folder: Path) -> None:
    """Neither by its own name, nor through a link, nor by one above it."""
    folder = shop.runner._folder
    assert folder is not None
    link = open_folder / "link"
    link.symlink_to(folder.root)
    for place in (folder.root, folder.path, folder.root.parent, link):
        ending, _ = await shop.run({"kind": "shell", "command": "ls", "directory": str(place)})
        assert "directory_missing" == ending.reason


async def test_a_virtual_environment_is_there(shop: SandboxShop, open_folder: Path) -> None:
    """With the Python that it stands on; read-only."""
    venv = open_folder / "venv"
    await asyncio.to_thread(_done, "/usr/bin/python3", "-m", "venv", "--without-pip", str(venv))
    await asyncio.to_thread(_done, "chmod", "-R", "a+rX", str(venv))
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "packed.py").write_text("WORD = 'packed'")
    (packages / "packed.py").chmod(0o644)
    source = "import packed, sys\nprint(packed.WORD, sys.prefix)\nopen(sys.prefix + '/new', 'w')"
    _, said = await shop.run({"kind": "python", "source": source, "python": f"{venv}/bin/python"})
    assert f"packed {venv}\n" in said
    assert "Read-only file system" in said


def _done(*command: str) -> None:
    subprocess.run(command, check=True)


@pytest.mark.skipif(not ROOT, reason="another user's folder is needed")
async def test_an_interpreter_that_the_user_of_tasks_cannot_reach_is_told_so(tmp_path: Path) -> None:
    """As outside."""
    private = tmp_path / "private"
    await asyncio.to_thread(_done, "/usr/bin/python3", "-m", "venv", "--without-pip", str(private))
    private.chmod(0o700)
    shop = SandboxShop(tmp_path / "work")
    await shop.open()
    task = {"kind": "python", "source": "", "python": f"{private}/bin/python"}
    outside, _ = await shop.run(task, confinement=PLAIN)
    inside, _ = await shop.run(task)
    await shop.close()
    assert (outside.verdict, outside.reason) == (inside.verdict, inside.reason)


async def test_a_program_that_is_not_in_it_is_told_so(shop: SandboxShop, open_folder: Path) -> None:
    """It is on the machine, so the message of the system would not help."""
    tool = open_folder / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    ending, _ = await shop.run({"kind": "shell", "argv": [str(tool)]})
    assert "not_started" == ending.reason
    assert "not in a sandbox" in (ending.error or "")


@pytest.mark.parametrize("user", USERS)
async def test_a_script_has_the_environment_that_it_declares(user: str | None, open_folder: Path) -> None:
    """Built outside, read-only inside."""
    links = open_folder / "links"
    links.mkdir()
    links.chmod(0o755)
    add_wheel(links, "tickle", "WORD = 'hello'\n").chmod(0o644)
    settings = EnvironmentSettings(root=open_folder / "environments", find_links=str(links), is_offline=True)
    environments = UvEnvironments(settings, SystemClock(), Metrics())
    work = open_folder / "own"
    work.mkdir(mode=0o700)
    shop = SandboxShop(work / "work", run_tasks_as=user, environments=environments)
    await shop.open()
    header = '# /// script\n# dependencies = ["tickle"]\n# ///\n'
    source = "import os, sys, tickle\nprint(tickle.WORD, sys.prefix == os.environ['VIRTUAL_ENV'])\n"
    source += "open(sys.prefix + '/new', 'w')"
    _, said = await shop.python(header + source)
    await shop.close()
    assert "hello True\n" in said
    assert "Read-only file system" in said


@pytest.mark.skipif(not ROOT, reason="only root can start it as another user; the others are ordinary users already")
def test_an_executor_of_an_ordinary_user_gives_sandboxes(open_folder: Path) -> None:
    """Without any right of root's."""
    nobody = TaskUser(65_534, 65_534, (), None, "nobody")
    python = python_for(nobody)
    own, secret = open_folder / "own", open_folder / "secret"
    own.mkdir()
    os.chown(own, nobody.uid, nobody.gid)
    secret.touch()
    # The repository may lie where that user cannot go, and its files may be for their owner alone.
    copied = open_folder / "copied"
    for place in ("src/tickwise", "sdk/src", "tests/support", "tests/services"):
        shutil.copytree(REPOSITORY / place, copied / place, ignore=shutil.ignore_patterns("__pycache__", "vendor"))
    (copied / "tests/__init__.py").touch()
    for path in (copied, *copied.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    program = [str(python.program), "-m", "tests.support.plain_sandbox", str(own), str(secret)]
    surroundings = {
        "HOME": str(own),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{copied / 'src'}:{copied / 'sdk/src'}",
    }
    surroundings |= environment_of(python)
    done = subprocess.run(
        program, cwd=copied, env=surroundings, capture_output=True, text=True,
        timeout=120, check=False, user=nobody.uid, group=nobody.gid, extra_groups=[],
    )  # fmt: skip
    python.release()
    assert ["ok", '{"a": 1}', ["65534", "hidden", "read-only"], []] == json.loads(done.stdout or "[]"), done.stderr


# ------------------------------------------------------------------------------------------ ends

LEAVING = """
setsid sh -c 'sleep 600; :' &
(setsid env -i sh -c 'sleep 600; :' >/dev/null 2>&1 </dev/null &)
sleep 0.1
{then}
"""


def _all_of(shop: SandboxShop) -> set[int]:
    """The processes that are bubblewrap's, or in a sandbox of it, below this process; without those of prepared
    sandboxes, which stand between tasks."""
    found = set()
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.name() == "bwrap":
                below = one.children(recursive=True)
                holders = [each for each in below if any("holder_program" in word for word in each.cmdline())]
                holder = min(holders, key=psutil.Process.create_time, default=None)
                found |= {each.pid for each in (one, *below)} - ({one.pid, holder.pid} if holder else set())
    return found


async def test_nothing_outlives_the_end_of_a_task(shop: SandboxShop) -> None:
    """Nor a cancel, nor its timeout: also children that have left its session and its environment."""
    ending, _ = await shop.shell(LEAVING.format(then=":"))
    assert ending.verdict is Verdict.OK
    assert set() == _all_of(shop)
    ending, _ = await shop.shell(LEAVING.format(then="sleep 600"), timeout_seconds=0.5)
    assert ("timeout", set()) == (ending.reason, _all_of(shop))
    given = shop.launch({"kind": "shell", "command": LEAVING.format(then="sleep 600")})
    await eventually(lambda: len(_all_of(shop)) >= 6)
    shop.runner.stop(given.run_id, grace_seconds=0.1)
    ending = await shop.listener.ending_of(given)
    assert (Verdict.CANCELLED, set()) == (ending.verdict, _all_of(shop))


TIDIES = """
import signal, sys, time
def tidy(*_):
    print("tidied", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
print("ready", flush=True)
time.sleep(600)
"""


async def test_a_task_that_is_stopped_may_tidy_up(shop: SandboxShop) -> None:
    """TERM reaches it, and its sandbox stands until it has ended."""
    given = shop.launch({"kind": "python", "source": TIDIES}, timeout_seconds=None)
    await eventually(lambda: shop.blobs.list(log_prefix(given.run_id, 1)), what="its handler is set")
    shop.runner.stop(given.run_id, grace_seconds=600.0)
    ending = await shop.listener.ending_of(given)
    assert (Verdict.CANCELLED, "ready\ntidied\n") == (ending.verdict, await log_of(shop.blobs, given))


@pytest.mark.parametrize("with_reapers", [False, True])
async def test_nothing_outlives_an_executor_that_is_killed(tmp_path: Path, with_reapers: bool) -> None:
    """Whether or not the processes that clear up after it are killed too."""
    program = (sys.executable, "-m", "tests.support.abandoned_sandbox", str(tmp_path))
    process = await asyncio.create_subprocess_exec(*program, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"ready\n"
    below = psutil.Process(process.pid).children(recursive=True)
    inside = [one for one in below if one.name() in ("bwrap", "sleep")]
    assert len(inside) >= 4
    if with_reapers:
        for one in below:
            if any("orphan_reaper" in word for word in one.cmdline()):
                one.kill()
    process.kill()
    await process.wait()
    await eventually(lambda: all(gone(one.pid) for one in inside))


# ------------------------------------------------------------------------------------------ hosts


async def test_an_executor_without_sandboxes_gives_such_a_run_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never runs it with less around it."""
    monkeypatch.setattr(levels, "PROGRAM", "no-bwrap-here")
    shop = SandboxShop(tmp_path / "work", run_tasks_as=OWN_USER)
    await shop.open(isolation="auto")
    ending, said = await shop.shell("echo ran")
    plain, _ = await shop.shell("echo ran", confinement=PLAIN)
    labels = shop.runner.labels()
    await shop.close()
    assert (Verdict.UNOFFERED, "isolation_missing", "") == (ending.verdict, ending.reason, said)
    assert "apt install bubblewrap" in (ending.error or "")
    assert plain.verdict is Verdict.OK
    assert SANDBOX_LABEL not in labels


async def test_an_executor_that_must_have_sandboxes_does_not_start_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why, and what to do."""
    monkeypatch.setattr(levels, "PROGRAM", "no-bwrap-here")
    shop = SandboxShop(tmp_path / "work", run_tasks_as=OWN_USER)
    with pytest.raises(Misconfigured, match="bubblewrap .* is not installed.*apt install bubblewrap"):
        await shop.open(isolation="sandbox")
    await shop.runner.close()


async def test_an_executor_may_be_told_to_give_none(tmp_path: Path) -> None:
    """By its setting."""
    shop = SandboxShop(tmp_path / "work", run_tasks_as=OWN_USER)
    await shop.open(isolation="process")
    ending, _ = await shop.shell("echo ran")
    await shop.close()
    assert (Verdict.UNOFFERED, "isolation_missing") == (ending.verdict, ending.reason)


async def test_a_list_of_destinations_is_not_taken_for_none(shop: SandboxShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can hold a task to it."""
    monkeypatch.setattr(shop.runner._networks, "_reason_against", lambda: "it has no namespaces of networks")
    ending, _ = await shop.shell(":", confinement=Confinement(Isolation.SANDBOX, allow_network=("example.com:443",)))
    assert Verdict.UNOFFERED is ending.verdict


def test_a_host_that_forbids_user_namespaces_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the setting of the kernel that forbids them."""
    failing = tmp_path / "bwrap"
    failing.write_text(
        '#!/bin/sh\ncase "$1" in --help) echo --args --disable-userns --size --perms --seccomp --remount-ro;;\n'
        "*) echo 'bwrap: No permissions to create new namespace' >&2; exit 1;; esac\n"
    )
    failing.chmod(0o755)
    number = tmp_path / "max_user_namespaces"
    number.write_text("0\n")
    monkeypatch.setattr(levels, "PROGRAM", str(failing))
    monkeypatch.setattr(levels, "NUMBERS", {str(number): ("0", "sysctl -w user.max_user_namespaces=10000")})
    found = levels.sandbox_level(None)
    assert "No permissions to create new namespace" in (found.lack or "")
    assert "sysctl -w user.max_user_namespaces=10000" in found.cure


def test_an_old_bubblewrap_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the options that it lacks."""
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho --args --seccomp\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(levels, "PROGRAM", str(old))
    assert "too old" in (levels.sandbox_level(None).lack or "")


def test_the_confinement_of_the_tests_is_a_sandbox() -> None:
    """Or they would all pass outside."""
    assert Isolation.SANDBOX is SANDBOX.isolation
    assert json.dumps(SANDBOX.isolation) == '"sandbox"'


async def test_when_memory_is_over_a_task_in_a_sandbox_goes_before_its_executor(shop: SandboxShop) -> None:
    """From its first instruction on, in a sandbox of its own as in a prepared one."""
    source = "print(open('/proc/self/oom_score_adj').read(), end='')"
    for limits in (TaskLimits(OUTPUT), TaskLimits(OUTPUT, processes=50)):
        assert ["500\n"] * 4 == [(await shop.python(source, limits=limits))[1] for _ in range(4)]
