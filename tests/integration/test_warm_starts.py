"""Warm starts: a script that is forked from a zygote says, does and leaves what a cold one does."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import pytest_asyncio

from tests.integration.test_runner_process import Shop
from tests.integration.test_runner_users import needs_root
from tests.support.packages import add_wheel
from tests.support.runners import forks_within, gone
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import EnvironmentSettings, UvEnvironments
from tickwise.adapters.runner.process.warm import starts, zygote, zygote_program
from tickwise.adapters.runner.process.work_folder import orphans
from tickwise.observability.metrics import Metrics
from tickwise.ports.blobs import script_key
from tickwise.ports.runner import Assignment, Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import assignment, log_of

PATIENCE_SECONDS = 60.0
DUE = 1_800_000_000.0
LIMITED = TaskLimits(1 << 20, cpu_seconds=60.0, memory_bytes=1 << 30, processes=100)

FACTS = """
'''A doc.'''
import asyncio, gc, json, locale, os, resource, signal, sys, threading, time, warnings
seen = {
    "main": sorted(globals()), "name": __name__, "doc": __doc__, "spec": __spec__, "package": __package__,
    "file": __file__, "cached": globals().get("__cached__"), "builtins": type(__builtins__).__name__,
    "loader": [type(__loader__).__name__, __loader__.name, __loader__.path],
    "is main": sys.modules["__main__"].__dict__ is globals(),
    "argv": sys.argv, "orig_argv": sys.orig_argv, "flags": str(sys.flags), "path": sys.path,
    "executable": sys.executable,
    "prefix": [sys.prefix, sys.base_prefix, sys.exec_prefix], "warnoptions": sys.warnoptions, "x": sys._xoptions,
    "streams": [
        [one.name, one.mode, one.encoding, one.errors, one.isatty(), one.line_buffering, one.write_through,
         one.seekable(), one.fileno(), one.closed, type(one.buffer).__name__, one.newlines]
        for one in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "same": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__,
             sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "input": sys.stdin.read(),
    "signals": [str(signal.getsignal(number)) .split(" at ")[0] for number in sorted(signal.valid_signals())],
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "wakeup": signal.set_wakeup_fd(-1),
    "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    "umask": oct(os.umask(0o22)), "nice": os.nice(0), "affinity": sorted(os.sched_getaffinity(0)),
    "limits": [resource.getrlimit(which) for which in range(16) if which != 10],
    # The last group is that of the attempt, where it is another user's.
    "user": [os.getresuid(), os.getresgid(), os.getgroups()[:-1] if os.getuid() else os.getgroups()],
    "environment": sorted(os.environ.items()), "bytes": sorted(map(str, os.environb)),
    "cwd": os.getcwd(), "threads": [one.name for one in threading.enumerate()],
    "main thread": threading.current_thread() is threading.main_thread(),
    "ident": threading.main_thread().ident == threading.get_ident(),
    "native": threading.get_native_id() == os.getpid(),
    "recursion": sys.getrecursionlimit(), "locale": locale.setlocale(locale.LC_ALL),
    "gc": [gc.isenabled(), gc.get_threshold()], "zone": time.tzname,
    "filters": [str(one) for one in warnings.filters], "tracing": [sys.gettrace(), sys.getprofile()],
    "last": hasattr(sys, "last_type"), "interactive": hasattr(sys, "ps1"),
    "oom": open("/proc/self/oom_score_adj").read(), "cpu": time.process_time() < 5.0,
}
json.dump(seen, open(os.environ["TICKWISE_RESULT_FILE"], "w"), default=str)
"""
RIGHTS = """
    "rights": [line for line in open("/proc/self/status") if line[:3] in ("Cap", "NoN", "Uid", "Gid", "Sec")],
    "home": [os.environ["HOME"], os.path.expanduser("~")],
"""
PROCESSES = """
import asyncio, concurrent.futures, multiprocessing, os, subprocess, sys, threading, time

def double(number):
    return 2 * number

async def call():
    process = await asyncio.create_subprocess_exec("echo", "from a subprocess", stdout=-1)
    return (await process.communicate())[0], process.returncode

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            print(method, list(pool.map(double, range(3))))
    print(subprocess.run([sys.executable, "-c", "import sys; print(sys.flags)"], capture_output=True, text=True).stdout)
    print(asyncio.run(call()))
    threading.Thread(target=lambda: (time.sleep(0.1), sys.stdout.write("a thread ends last\n"))).start()
    pid = os.fork()
    if pid == 0:
        print("a child", flush=True)
        sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
CORPUS: dict[str, str | bytes] = {
    "output": "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three', end='')",
    "result": "import os\nopen(os.environ['TICKWISE_RESULT_FILE'], 'w').write('[1]')",
    "facts": FACTS,
    "processes": PROCESSES,
    "0 bytes": b"",
    "a comment": "# nothing",
    "a BOM": b"\xef\xbb\xbfprint('\xc3\xbc')",
    "CRLF": b"if True:\r\n    print('''a\r\nb''')\r\n",
    "Latin-1 that says so": b"# -*- coding: latin-1 -*-\nprint('\xfc')\n",
    "Latin-1 that does not": b"print('\xfc')\n",
    "an unknown coding": b"# coding: of-nowhere\nprint(1)\n",
    "NUL": b"print(1)\n\0\n",
    "no syntax": "print('\\d')\nif x\n",
    "no symbol table": "def f():\n    x = 1\n    global x\n",
    "no function": "x = 1\nreturn x\n",
    "too nested": "(" * 300 + ")" * 300,
    "a warning": (
        "print('\\d')\n"
        "assert (1, 'x')\n"
        "import warnings\n"
        "warnings.warn('careful')\n"
        "warnings.warn('old', DeprecationWarning)"
    ),
    "exit 3": "import sys\nsys.exit(3)",
    "exit 65": "raise SystemExit(65)",
    "exit with words": "import sys\nsys.exit('no more')",
    "exit with nothing": "import sys\nprint('x')\nsys.exit()",
    "exit of a kind": "class Own(SystemExit):\n    pass\nraise Own((1, 2))",
    "an exception": (
        "def f():\n    1 / 0\ntry:\n    f()\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error"
    ),
    "a group": (
        "raise ExceptionGroup('many', [ValueError(1), OSError(2)]) if hasattr(__builtins__, 'ExceptionGroup') else 1"
    ),
    "a hook": (
        "import sys\nsys.excepthook = lambda *said: print('caught', said[0], said[2].tb_lineno, said[2].tb_next)\n1 / 0"
    ),
    "notes of the last": (
        "import atexit, sys\n"
        "atexit.register(lambda: print(sys.last_type, sys.last_traceback.tb_lineno, sys.excepthook is "
        "sys.__excepthook__))\n"
        "1 / 0"
    ),
    "a missing module": "import nothing_of_this_name",
    "recursion": "def f():\n    f()\nf()",
    "an interrupt": "raise KeyboardInterrupt",
    "an interrupt from outside": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)",
    "TERM": "import os, signal\nprint('x')\nos.kill(os.getpid(), signal.SIGTERM)",
    "KILL": "import os, signal\nprint('x')\nos.kill(os.getpid(), signal.SIGKILL)",
    "_exit": "import os\nprint('x', end='')\nos._exit(7)",
    "atexit": "import atexit\natexit.register(print, 'last')\natexit.register(lambda: 1 / 0)\nprint('first')",
    "a finaliser": "class A:\n    def __del__(self):\n        print('gone')\na = A()",
    "finalisers that print": (
        "import collections, json\n"
        "class A:\n"
        "    def __init__(self, name): self.name = name\n"
        "    def __del__(self):\n"
        "        print('gone', self.name, json.dumps([1]))\n"
        "_a, b, c = A('a'), A('b'), [A('c')]\n"
        "c.append(c)\n"
    ),
    "an open file": (
        "f = open('left.txt', 'w')\n"
        "f.write('x')\n"
        "import json\n"
        "json.g = open('other.txt', 'w')\n"
        "json.g.write('y')\n"
        "import builtins\n"
        "builtins.h = open('third.txt', 'wb')\n"
        "builtins.h.write(b'z')"
    ),
    "a replaced stdout": (
        "import sys, io\nsys.stdout = io.TextIOWrapper(open('left.txt', 'wb'))\nprint('x')\nsys.exit(4)"
    ),
    "logging": (
        "import logging, atexit\n"
        "logging.basicConfig()\n"
        "logging.warning('x')\n"
        "atexit.register(logging.warning, 'y')\n"
        "print(logging._startTime > 0)"
    ),
    "a C library": "import ctypes\nctypes.CDLL(None).printf(b'from C\\n')",
    "an interrupt in a thread's end": (
        "import threading, time, os, signal\n"
        "def f():\n"
        "    time.sleep(0.2)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.2)\n"
        "    print('t')\n"
        "threading.Thread(target=f).start()"
    ),
    "an exit in atexit": "import atexit, os, sys\natexit.register(sys.exit, 9)\natexit.register(os.write, 1, b'w\\n')",
    "an exit of -1": "import sys\nsys.exit(-1)",
    "an exit of 1000": "import sys\nsys.exit(1000)",
    "an exit of True": "import sys\nsys.exit(True)",
    "a stdout of None": "import sys\nsys.stdout = None",
    "a closed stream": "import sys\nprint('x')\nsys.stdout.close()\nsys.exit(2)",
    "a closed stdout": "import os, sys\nprint('x')\nos.close(1)\nprint('y')",
    "no descriptors": "import os\nos.closerange(0, 256)\n",
    "a broken flush": "import os, sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('x')\nos.close(1)",
    "a daemon thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('done')"
    ),
    "a fork that leaves": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(600)\n"
        "else:\n"
        "    os.wait()\n"
        "    print('left')"
    ),
    "an artefact": "open('made.txt', 'w').write('x')",
    "a large script": b"# " + b"x" * (2 << 20) + b"\nprint('end')\n",
    "another program": "import os\nos.execv('/bin/sh', ['sh', '-c', 'echo $0 $$ | wc -w; exit 4'])",
    "a stream": "import os\nopen('/dev/stdout', 'w').write('by its name\\n')\nprint(os.path.basename(__file__))",
    "the stack": (
        "import inspect\n"
        "print(inspect.currentframe().f_code.co_name, inspect.getmodule(inspect.currentframe()).__name__)"
    ),
    "a pickle": "import pickle\nclass A: pass\nprint(pickle.dumps(A(), 0))",
    "annotations": "x: int = 1\nprint(__annotations__)",
}
"""Scripts by what they have to do with."""


class Seen(NamedTuple):
    """What can be seen of a run, without what only it has."""

    verdict: Verdict
    reason: str | None
    error: str | None
    symptoms: tuple[str, ...]
    result: str | None
    log: str


class WarmShop(Shop):
    """A runner, and tasks that say how they start."""

    async def run(
        self, source: str | bytes, start: str, fields: dict[str, Any] | None = None, **changes: Any
    ) -> Ending:
        return await self.ending(await self.launch(source, start, fields, **changes))

    async def launch(
        self, source: str | bytes, start: str, fields: dict[str, Any] | None = None, **changes: Any
    ) -> Assignment:
        content = source.encode() if isinstance(source, str) else source
        digest = hashlib.sha256(content).hexdigest()
        await self.blobs.put(script_key(changes.get("namespace", "default"), digest), content)
        task = {"kind": "python", "file": f"sha256:{digest}", "start": start, **(fields or {})}
        given = assignment(task, **{"due": DUE, "nominal": DUE, **changes})
        self.runner.launch([given])
        return given

    async def seen(self, source: str | bytes, start: str, fields: dict[str, Any] | None = None, **changes: Any) -> Seen:
        given = await self.launch(source, start, fields, **changes)
        ending = await self.ending(given)
        log = await log_of(self.blobs, given)

        def plain(text: str | None) -> str:
            for own in (str(given.run_id), str(given.job_id)):
                text = (text or "").replace(own, "ID")
            # Addresses, and how deep the stack was: the outermost frames of a warm script are its zygote's.
            return re.sub("0x[0-9a-f]+|repeated [0-9]+ more", "", text or "")

        return Seen(
            ending.verdict, ending.reason, plain(ending.error), ending.symptoms, plain(ending.result), plain(log)
        )

    async def parent_of(self, start: str, fields: dict[str, Any] | None = None, **changes: Any) -> psutil.Process:
        """The parent of a script that started so."""
        source = "import os\nopen(os.environ['TICKWISE_RESULT_FILE'], 'w').write(str(os.getppid()))"
        ending = await self.run(source, start, fields, **changes)
        assert ending.verdict is Verdict.OK, ending
        return psutil.Process(int(ending.result or ""))


def without_gate(seen: Seen) -> Seen:
    """Without what a gate leaves in a cold start with limits: a variable of its shell, a count of processes."""
    facts = json.loads(seen.result or "null")
    if not isinstance(facts, dict):
        return seen
    facts["environment"] = [one for one in facts["environment"] if one[0] != "PWD"]
    facts["bytes"] = [one for one in facts["bytes"] if one != "b'PWD'"]
    del facts["limits"][6]
    return seen._replace(result=json.dumps(facts))


def assert_alike(cold: Seen, warm: Seen) -> None:
    facts = [json.loads(one.result or "null") for one in (cold, warm)]
    if all(isinstance(one, dict) for one in facts):
        differing = {name for name in facts[0] if facts[0][name] != facts[1].get(name)}
        assert {name: (facts[0][name], facts[1].get(name)) for name in differing} == {}
    assert cold == warm


def is_zygote(process: psutil.Process) -> bool:
    return zygote_program.__file__ in process.cmdline()


@contextlib.asynccontextmanager
async def opened(folder: Path, fork_seconds: float = PATIENCE_SECONDS) -> AsyncIterator[WarmShop]:
    """At work. It leaves nothing behind."""
    made = WarmShop(folder, result_limit_bytes=1 << 16)
    with forks_within(fork_seconds):
        await made.runner.start(made.listener, time.time)
        yield made
        await made.runner.close()
    assert list(made.root.iterdir()) == [], "a work folder was left behind"


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[WarmShop]:
    async with opened(tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def hasty_shop(tmp_path: Path) -> AsyncIterator[WarmShop]:
    """One that gives a zygote up: after longer than a fork takes on a loaded machine, so that it is one that stands
    still."""
    async with opened(tmp_path, 3.0) as made:
        yield made


@pytest_asyncio.fixture(scope="module")
async def common(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WarmShop]:
    """One for many tests, which only run scripts in it; its zygote is ready."""
    async with opened(tmp_path_factory.mktemp("common")) as made:
        assert is_zygote(await made.parent_of("warm"))
        yield made
        assert is_zygote(await made.parent_of("warm"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a module that only it has."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "only_here.py").write_text("ANSWER = 42\n")
    return folder


@pytest.mark.parametrize("name", CORPUS)
async def test_a_script_behaves_warm_as_it_does_cold(common: WarmShop, name: str) -> None:
    """Output, exit status, exceptions, artefacts, and all that it can ask of its process."""
    shop = common
    cold = await shop.seen(CORPUS[name], "cold")
    assert_alike(cold, await shop.seen(CORPUS[name], "warm"))
    if name == "facts":
        return  # the launcher of a cold start that notes exceptions gives the module fewer names
    noted = [await shop.seen(CORPUS[name], start, names_errors=True) for start in ("cold", "warm")]
    assert noted[0].symptoms == noted[1].symptoms
    assert noted[0].verdict == noted[1].verdict


@pytest.mark.parametrize("name", ["output", "facts", "an exception", "an interrupt", "exit 65"])
async def test_a_limited_script_behaves_warm_as_it_does_cold(common: WarmShop, name: str) -> None:
    """Its limits are set before its first statement."""
    assert is_zygote(await common.parent_of("warm", limits=LIMITED))
    cold, warm = [without_gate(await common.seen(CORPUS[name], start, limits=LIMITED)) for start in ("cold", "warm")]
    assert_alike(cold, warm)


async def test_a_named_interpreter_has_a_zygote_of_its_own(shop: WarmShop, environment: Path) -> None:
    """With its packages, its prefix, and its words about exceptions."""
    fields = {"python": str(environment / "bin" / "python")}
    assert (await shop.parent_of("warm", fields)).pid != (await shop.parent_of("warm")).pid
    for source in ("import only_here, sys\nprint(only_here.ANSWER, sys.prefix, sys.executable)", "1 / 0", "("):
        cold, warm = [await shop.seen(source, start, fields) for start in ("cold", "warm")]
        assert cold == warm


async def test_a_limit_ends_a_warm_script(shop: WarmShop) -> None:
    """Processor time, memory, and its timeout; the zygote forks on."""
    zygote_before = await shop.parent_of("warm")
    ending = await shop.run("while True: pass", "warm", limits=TaskLimits(1 << 20, cpu_seconds=0.2))
    assert ending.reason == "cpu_limit"
    ending = await shop.run(
        "x = bytearray(1 << 30)\nwhile True: x += x", "warm", limits=TaskLimits(1 << 20, memory_bytes=200 << 20)
    )
    assert ending.verdict is Verdict.FAILED, ending
    ending = await shop.run("import time\ntime.sleep(600)", "warm", timeout_seconds=0.2)
    assert ending.reason == "timeout"
    assert await shop.parent_of("warm") == zygote_before


async def test_a_file_beside_the_script_comes_before_a_module_of_the_zygote(common: WarmShop) -> None:
    """As in a cold start."""
    fields = {"files": {"json.py": "ANSWER = 1\n", "data.txt": "x"}}
    source = "import json\nprint(json.ANSWER)"
    assert await common.seen(source, "cold", fields) == await common.seen(source, "warm", fields)
    fields = {"files": {"helper.py": "ANSWER = 1\n"}}
    source = "import helper, os\nprint(helper.ANSWER, os.getcwd() == os.path.dirname(__file__))"
    warm = await common.seen(source, "warm", fields)
    assert "1 True\n" == warm.log
    assert await common.seen(source, "cold", fields) == warm


async def test_the_variables_of_a_task_are_those_of_a_warm_script_too(common: WarmShop) -> None:
    """Its zone is in force."""
    fields = {"env": {"TZ": "Asia/Tokyo", "REGION": "ü", "PATH": "/bin"}}
    source = "import os, time\nprint(os.environ['REGION'], os.environ['PATH'], time.tzname, time.localtime(0).tm_hour)"
    warm = await common.seen(source, "warm", fields)
    assert "ü /bin ('JST', 'JST') 9\n" == warm.log
    assert await common.seen(source, "cold", fields) == warm
    assert is_zygote(await common.parent_of("warm", fields))


@pytest.mark.parametrize("variable", ["PYTHONHASHSEED", "PYTHONPATH", "PYTHONDEVMODE", "LC_ALL", "MALLOC_ARENA_MAX"])
async def test_what_matters_at_the_start_of_an_interpreter_makes_a_start_cold(common: WarmShop, variable: str) -> None:
    """Also where the task asks for a warm one."""
    fields = {"env": {variable: "0"}}
    assert is_zygote(await common.parent_of("warm"))
    assert not is_zygote(await common.parent_of("warm", fields))


async def test_scripts_that_come_often_start_warm_by_themselves(shop: WarmShop) -> None:
    """The first is cold and waits for nothing."""
    task: dict[str, Any] = {
        "kind": "python",
        "source": "import os\nopen(os.environ['TICKWISE_RESULT_FILE'], 'w').write(str(os.getppid()))",
    }

    async def parent() -> int:
        given = assignment(task)
        shop.runner.launch([given])
        return int((await shop.ending(given)).result or "")

    assert await parent() == os.getpid()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await parent() == os.getpid():
            pass


async def test_random_numbers_differ_and_the_hash_seed_is_the_zygotes(common: WarmShop) -> None:
    """Which is why a zygote is replaced (`MAX_FORKS`, `MAX_AGE_SECONDS`)."""
    source = "import random, tempfile\nprint(random.random(), tempfile.mktemp())"
    assert len({(await common.seen(source, "warm")).log for _ in range(3)}) == 3
    source = "print(hash('x'))"
    assert len({(await common.seen(source, "warm")).log for _ in range(3)}) == 1


async def test_a_zygote_is_replaced_after_its_share(shop: WarmShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forks, and of time; the old one ends."""
    first = await shop.parent_of("warm")
    monkeypatch.setattr(starts, "MAX_FORKS", 1)
    second = await shop.parent_of("warm")
    assert first.pid != second.pid
    monkeypatch.setattr(starts, "MAX_FORKS", 1_000)
    monkeypatch.setattr(starts, "MAX_AGE_SECONDS", 0.0)
    third = await shop.parent_of("warm")
    assert second.pid != third.pid
    await eventually(lambda: gone(first.pid), within_seconds=PATIENCE_SECONDS)


async def test_a_changed_environment_has_a_new_zygote(shop: WarmShop, tmp_path: Path) -> None:
    """Packages that came are found; an interpreter that is gone is missed as in a cold start."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    fields = {"python": str(folder / "bin" / "python")}
    first = await shop.parent_of("warm", fields)
    (packages / "late.pth").write_text("import sys; sys.came_late = True\n")
    assert "True\n" == (await shop.seen("import sys\nprint(sys.came_late)", "warm", fields)).log
    assert (await shop.parent_of("warm", fields)).pid != first.pid
    (folder / "bin" / "python").unlink()
    ending = await shop.run("pass", "warm", fields)
    assert (ending.verdict, ending.reason) == (Verdict.INVALID, "interpreter_missing")


async def test_a_zygote_that_is_killed_takes_no_task_with_it(shop: WarmShop, tmp_path: Path) -> None:
    """The task goes on; its exit status alone is lost. The next script finds another zygote."""
    file = tmp_path / "go"
    source = (
        "import os, time\nprint('begun', flush=True)\n"
        f"while not os.path.exists({str(file)!r}): time.sleep(0.01)\nprint('ended')"
    )
    killed = await shop.parent_of("warm")
    given = await shop.launch(source, "warm")
    await shop.listener.until_begun(given)
    killed.send_signal(signal.SIGKILL)
    await eventually(lambda: gone(killed.pid), within_seconds=PATIENCE_SECONDS)
    other = await shop.parent_of("warm")
    assert is_zygote(other)
    assert other.pid != killed.pid
    file.touch()
    ending = await shop.ending(given)
    assert (ending.verdict, ending.reason) == (Verdict.UNKNOWN, "outcome_lost"), ending
    assert "begun\nended\n" == await log_of(shop.blobs, given)


async def test_a_script_that_kills_its_parent_harms_itself_alone(shop: WarmShop) -> None:
    """The executor lives, and starts the next one."""
    await shop.parent_of("warm")
    ending = await shop.run("import os\nos.kill(os.getppid(), 9)\nprint('x')", "warm")
    assert ending.verdict is Verdict.UNKNOWN, ending
    assert is_zygote(await shop.parent_of("warm"))


async def test_a_zygote_that_stands_still_delays_a_start_and_no_more(
    hasty_shop: WarmShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script starts elsewhere after a bounded wait: cold, or from a zygote that was made meanwhile. A task of the
    one that stands still keeps its exit status."""
    shop = hasty_shop
    monkeypatch.setattr(zygote, "REAP_SECONDS", 3.0)

    async def other_than(pid: int) -> psutil.Process | None:
        found = await shop.parent_of("warm")
        return found if is_zygote(found) and found.pid != pid else None

    stopped = await eventually(lambda: other_than(0), within_seconds=PATIENCE_SECONDS)
    given = await shop.launch("import time\nprint('x', flush=True)\ntime.sleep(0.5)\nraise SystemExit(3)", "warm")
    await shop.listener.until_begun(given)
    stopped.suspend()
    await eventually(lambda: stopped.status() == psutil.STATUS_STOPPED)
    assert (await shop.parent_of("warm")).pid != stopped.pid
    ending = await shop.ending(given)
    assert (ending.verdict, ending.symptoms) == (Verdict.FAILED, ("3",)), ending
    await eventually(lambda: other_than(stopped.pid), within_seconds=PATIENCE_SECONDS)
    await eventually(lambda: gone(stopped.pid), within_seconds=PATIENCE_SECONDS)


async def test_a_child_without_its_request_runs_nothing(
    shop: WarmShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script starts cold, once."""
    file = tmp_path / "lines"
    await shop.parent_of("warm")

    def begin(_: zygote.WarmChild, __: zygote.WarmRequest) -> None:
        raise zygote.ZygoteLost("no request")

    monkeypatch.setattr(zygote.WarmChild, "begin", begin)
    ending = await shop.run(f"open({str(file)!r}, 'a').write('x')", "warm")
    assert ending.verdict is Verdict.OK
    assert "x" == file.read_text()


async def test_an_interpreter_that_is_no_zygote_is_told_by_the_cold_start(shop: WarmShop, tmp_path: Path) -> None:
    """And not tried again for a while."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho x >> {tmp_path}/tries\nexit 1\n")
    program.chmod(0o755)
    for tries in (2, 3):
        ending = await shop.run("pass", "warm", {"python": str(program)})
        assert ending.reason == "interpreter_unusable"
        assert tries == len((tmp_path / "tries").read_text().split())


async def test_a_folder_that_is_not_there_is_told_as_in_a_cold_start(common: WarmShop, tmp_path: Path) -> None:
    """By the child that could not enter it."""
    fields = {"directory": str(tmp_path / "nowhere")}
    cold, warm = [await common.seen("pass", start, fields) for start in ("cold", "warm")]
    assert cold == warm
    assert warm.reason == "directory_missing"
    fields = {"directory": str(tmp_path)}
    assert str(tmp_path) in (await common.seen("import os\nprint(os.getcwd())", "warm", fields)).log


async def test_many_scripts_at_once_are_many_processes(common: WarmShop) -> None:
    """Each with its own output and its own exit status."""
    await common.parent_of("warm")
    given = [await common.launch(f"print({number})\nraise SystemExit({number})", "warm") for number in range(1, 40)]
    for number, one in enumerate(given, 1):
        assert (await common.ending(one)).symptoms == (str(number),)
        assert await log_of(common.blobs, one) == f"{number}\n"


async def test_a_warm_task_can_be_stopped(shop: WarmShop) -> None:
    """With all that it has started."""
    await shop.parent_of("warm")
    source = "import subprocess, sys, time\nprint(subprocess.Popen(['sleep', '600']).pid, flush=True)\ntime.sleep(600)"
    given = await shop.launch(source, "warm")
    await shop.listener.until_begun(given)
    shop.runner.stop(given.run_id, grace_seconds=0.1)
    assert (await shop.ending(given)).verdict is Verdict.CANCELLED
    for word in (await log_of(shop.blobs, given)).split():
        assert gone(int(word))


async def test_a_reaper_of_orphans_finds_a_warm_script_and_its_zygote(shop: WarmShop) -> None:
    """By their marks, also what has left its session: an executor that is killed leaves neither."""
    zygote_of = await shop.parent_of("warm")
    source = (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    print(os.getpid(), flush=True)\n    time.sleep(600)\ntime.sleep(600)"
    )
    given = await shop.launch(source, "warm")
    await shop.listener.until_begun(given)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (log := shop.runner._attempts[given.run_id].sink.tail):
            await asyncio.to_thread(psutil.pids)
    folder = shop.runner._folder
    assert folder is not None
    found = await asyncio.to_thread(orphans, [folder.marks], folder.places)
    assert {zygote_of.pid, int(log)} <= found
    assert len(found) == 3, found
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    assert (await shop.ending(given)).verdict is Verdict.CANCELLED
    assert gone(int(log))


async def test_the_cpu_time_of_a_warm_script_is_its_own(common: WarmShop) -> None:
    """And not that of its zygote; its memory is what it has in use."""
    source = "import time\nwhile time.process_time() < 0.2: pass"
    usage = (await common.run(source, "warm")).usage
    assert usage is not None
    assert 0.15 <= (usage.cpu_seconds or 0.0) < 5.0
    assert (usage.memory_bytes or 0) > 1 << 20


def test_a_folder_that_the_user_does_not_see_is_in_no_path(tmp_path: Path) -> None:
    """`site` of a fresh start adds none. Those of the interpreter itself stay, also one that is not there."""
    unseen, archive = tmp_path / "unseen", f"{sys.base_prefix}/lib/python-of-nowhere.zip"
    program = (
        "import runpy, sys\n"
        "forget = runpy.run_path(sys.argv[1], run_name='zygote')['_forget_folders']\n"
        "sys.path[:] = sys.argv[2:]\n"
        "forget()\n"
        "print(*sys.path, sep='\\n')\n"
    )
    given = [str(tmp_path), str(unseen), archive]
    command = [sys.executable, "-c", program, zygote_program.__file__, *given]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [str(tmp_path), archive] == said.stdout.splitlines()


def test_a_zygote_knows_every_module_that_it_loads() -> None:
    """By their names in the standard library."""
    assert set(zygote_program.PRELOADED) <= set(sys.stdlib_module_names) | {"urllib.parse"}


# ------------------------------------------------------------------------------------------ other users


@pytest_asyncio.fixture(scope="module")
async def users(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WarmShop]:
    """A runner whose tasks are other users, with environments."""
    private = tmp_path_factory.mktemp("users") / "private"
    private.mkdir(mode=0o700)
    with tempfile.TemporaryDirectory(prefix="tickwise-tests-") as place:
        links = Path(place)
        links.chmod(0o755)
        add_wheel(links, "tickle", "WORD = 'hello'\n").chmod(0o644)
        environments = UvEnvironments(
            EnvironmentSettings(root=private / "environments", find_links=place, is_offline=True),
            SystemClock(),
            Metrics(),
        )
        made = WarmShop(private, result_limit_bytes=1 << 16, environments=environments, run_tasks_as=None)
        with forks_within(PATIENCE_SECONDS):
            await made.runner.start(made.listener, time.time)
            yield made
            roots = [environments._host.root, made.runner._folder.root if made.runner._folder is not None else private]
            await made.runner.close()
        for root in roots:
            if not root.is_relative_to(private):
                shutil.rmtree(root, ignore_errors=True)


@needs_root
@pytest.mark.parametrize(
    "name", ["facts", "processes", "an exception", "a stream", "exit 3", "an artefact", "a C library"]
)
async def test_a_script_of_another_user_behaves_warm_as_it_does_cold(users: WarmShop, name: str) -> None:
    """It has the user, the groups and the rights that a cold one has."""
    source = CORPUS[name]
    if name == "facts":
        assert isinstance(source, str)
        source = source.replace('    "oom"', RIGHTS + '    "oom"')
    assert is_zygote(await users.parent_of("warm"))
    cold, warm = [await users.seen(source, start) for start in ("cold", "warm")]
    assert_alike(cold, warm)
    cold, warm = [without_gate(await users.seen(source, start, limits=LIMITED)) for start in ("cold", "warm")]
    assert_alike(cold, warm)


@needs_root
async def test_a_script_with_an_environment_of_another_user_starts_warm(users: WarmShop) -> None:
    """From a zygote in which nothing is installed; what is installed runs as its user."""
    fields = {"requirements": "tickle"}
    parent = await users.parent_of("warm", fields)
    assert is_zygote(parent)
    assert parent.uids().real == 0
    source = CORPUS["facts"]
    assert isinstance(source, str)
    # The launcher of a cold start gives the module of a script fewer names, and is in its command line.
    for own in ('"main": sorted(globals()), ', '"package": __package__,', '"orig_argv": sys.orig_argv, '):
        source = source.replace(own, "")
    source = re.sub(r'"(cached|loader)": [^\n]*\n', "\n", source)
    source = source.replace("asyncio, gc", "asyncio, site, sysconfig, tickle, gc").replace(
        '    "oom"',
        RIGHTS + '"site": [site.PREFIXES, site.ENABLE_USER_SITE, sysconfig.get_paths(), tickle.__file__], "oom"',
    )
    source = source.replace("sys.excepthook is sys.__excepthook__,", "")
    cold, warm = [await users.seen(source, start, fields) for start in ("cold", "warm")]
    assert cold.verdict is Verdict.OK, cold
    assert json.loads(cold.result or "") == json.loads(warm.result or "")
    assert cold == warm
    for source in (
        "import os\nopen('/dev/stdout', 'w').write(str(os.getuid() != 0))",
        "import nothing_of_this",
        "1 / 0",
        "(",
    ):
        cold, warm = [await users.seen(source, start, fields) for start in ("cold", "warm")]
        assert cold == warm


@needs_root
async def test_a_named_interpreter_is_never_run_as_root(users: WarmShop) -> None:
    """Its script starts cold, also where it asks for a warm start."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    assert not is_zygote(await users.parent_of("warm", {"python": python}))


@needs_root
async def test_a_task_of_another_user_can_do_nothing_to_its_zygote(users: WarmShop) -> None:
    """Neither signal it nor look into it, nor find a way to talk to it."""
    source = """
import json, os, signal
zygote, found = os.getppid(), []
for number in (signal.SIGKILL, signal.SIGSTOP, 0):
    try:
        os.kill(zygote, number)
    except PermissionError:
        found.append(True)
for name in ("environ", "mem", "fd", "maps"):
    try:
        open(f"/proc/{zygote}/{name}").read() if name != "fd" else os.listdir(f"/proc/{zygote}/fd")
    except PermissionError:
        found.append(True)
found.append(sorted(map(int, os.listdir("/proc/self/fd")))[:-1])
json.dump(found, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
    ending = await users.run(source, "warm")
    assert json.loads(ending.result or "") == [True] * 7 + [[0, 1, 2]], ending
    assert is_zygote(await users.parent_of("warm"))


async def test_a_zygote_takes_the_exit_statuses_of_what_tasks_have_left(users: WarmShop) -> None:
    """A zombie has a number of the machine: tasks that leave many would use them up, long after their ends."""
    zygote = await users.parent_of("warm")
    leaving = (
        "import os, time\nfor number in range(20):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0:\n            time.sleep(600 * (number % 2))\n        os._exit(0)\n"
    )
    for _ in range(2):
        assert Verdict.OK is (await users.run(leaving, "warm")).verdict
    assert zygote == await users.parent_of("warm")
    await eventually(lambda: [] == zygote.children())


@needs_root
async def test_nothing_of_a_task_is_in_the_memory_of_the_next(users: WarmShop) -> None:
    """The zygote has never read what its children were asked to be."""
    secret = "of-this-task-alone"
    await users.run("pass", "warm", {"env": {"SECRET": secret * 3}}, namespace="one")
    source = """
import ctypes, json, os, re
needle, found = "".join(("of-this", "-task-alone", "of-this")).encode(), 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
        if "rw" in line and "[v" not in line:
            memory.seek(begin)
            try:
                found += memory.read(end - begin).count(needle)
            except OSError:
                continue
json.dump(found, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
    ending = await users.run(source, "warm", namespace="one")
    assert int(ending.result or "") <= 2, ending  # its own needle
