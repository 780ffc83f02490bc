"""The process runner with real processes: context, output, results, limits, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
import uvloop

from tests.support.runners import OWN_USER, gone, without_kill
from tests.support.waiting import eventually
from tickwise.adapters.blobs import StoredBlobs, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process import runner as process
from tickwise.adapters.runner.process import tree as process_tree
from tickwise.adapters.runner.process.runner import MAX_SYMPTOMS_BYTES, ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.blobs import log_prefix, script_key, shared_script_key
from tickwise.ports.runner import Assignment, Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of

ALL_CONTEXT = """
import json, os
context = {name: value for name, value in os.environ.items() if name.startswith("TICKWISE_")}
with open(os.environ["TICKWISE_RESULT_FILE"], "w") as file:
    json.dump({**context, "cwd": os.getcwd(), "others": sorted(set(os.environ) - set(context))}, file)
"""

# The grandchild forks twice, leaves the session, closes its streams, and says who it is.
RUNAWAY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in range(3):
            os.close(descriptor)
        open({file!r}, "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not (os.path.exists({file!r}) and os.path.getsize({file!r})):
    time.sleep(0.01)
{then}
"""


class Shop:
    """A runner and its listener."""

    def __init__(self, folder: Path, blobs: StoredBlobs | None = None, **changes: Any) -> None:
        self.blobs: StoredBlobs = blobs or open_blobs("memory://")
        self.root = folder / "attempts"
        given: dict[str, Any] = {"slots": 4, "kill_grace_seconds": 0.2, "result_limit_bytes": 1 << 10, **changes}
        settings = RunnerSettings(
            **{"blobs": self.blobs, "clock": SystemClock(), "work_root": self.root, "run_tasks_as": OWN_USER, **given}
        )
        self.runner = ProcessRunner(settings)
        self.listener = Listener()

    def shell(self, command: str, payload: Any = None, **changes: Any) -> Assignment:
        given = assignment({"kind": "shell", "command": command}, payload, **changes)
        self.runner.launch([given])
        return given

    def python(self, source: str, payload: Any = None, **changes: Any) -> Assignment:
        given = assignment({"kind": "python", "source": source}, payload, **changes)
        self.runner.launch([given])
        return given

    async def ending(self, given: Assignment) -> Ending:
        return await self.listener.ending_of(given)


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop(tmp_path)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()
    assert list(made.root.iterdir()) == [], "a work folder was left behind"


async def test_a_script_gets_its_context(shop: Shop) -> None:
    """By environment, times in RFC 3339 with Z."""
    given = shop.python(
        ALL_CONTEXT, {"a": "ü"}, attempt=2, token=31, namespace="team", due=1_800_000_000.5, nominal=1_800_000_000.0
    )
    told = json.loads((await shop.ending(given)).result or "")
    assert told["TICKWISE_JOB_ID"] == str(given.job_id)
    assert told["TICKWISE_RUN_ID"] == told["TICKWISE_IDEMPOTENCY_KEY"] == str(given.run_id)
    assert (told["TICKWISE_ATTEMPT"], told["TICKWISE_FENCING_TOKEN"]) == ("2", "31")
    assert told["TICKWISE_NAMESPACE"] == "team"
    assert told["TICKWISE_NOMINAL_TIME"] == "2027-01-15T08:00:00Z"
    assert told["TICKWISE_DUE_TIME"] == "2027-01-15T08:00:00.500000Z"
    assert json.loads(told["TICKWISE_PAYLOAD"]) == {"a": "ü"}


async def test_a_task_sees_nothing_of_the_executors_environment(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither settings nor keys, nor what changes how Python behaves."""
    for name in ("TICKWISE_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "secret")
    told = json.loads((await shop.ending(shop.python(ALL_CONTEXT))).result or "")
    assert "secret" not in told.values()
    assert set(told["others"]) <= {
        "HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TZ",
    }  # fmt: skip


async def test_a_large_payload_comes_in_a_file(shop: Shop) -> None:
    """It would not fit into a variable."""
    source = (
        "import json, os\n"
        "payload = json.load(open(os.environ['TICKWISE_PAYLOAD_FILE']))\n"
        "assert 'TICKWISE_PAYLOAD' not in os.environ\n"
        "json.dump(len(payload['text']), open(os.environ['TICKWISE_RESULT_FILE'], 'w'))\n"
    )
    assert (await shop.ending(shop.python(source, {"text": "x" * 70_000}))).result == "70000"


async def test_an_uploaded_script_runs(shop: Shop) -> None:
    """By the digest of its content."""
    source = b"print('from a file')"
    digest = hashlib.sha256(source).hexdigest()
    given = assignment({"kind": "python", "file": f"sha256:{digest}"})
    await shop.blobs.put(script_key(given.namespace, digest), source)
    shop.runner.launch([given])
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert await log_of(shop.blobs, given) == "from a file\n"


async def test_a_script_that_was_changed_where_it_lies_is_not_run(shop: Shop) -> None:
    """It is not tried again, and says why: so it waits as a dead letter for a person."""
    digest = hashlib.sha256(b"print('stored')").hexdigest()
    given = assignment({"kind": "python", "file": f"sha256:{digest}"})
    await shop.blobs.put(script_key(given.namespace, digest), b"print('changed')")
    shop.runner.launch([given])
    ending = await shop.ending(given)
    assert (Verdict.INVALID, "invalid", True) == (
        ending.verdict,
        ending.reason,
        "has another digest" in (ending.error or ""),
    )
    assert await log_of(shop.blobs, given) == ""


async def test_a_script_of_another_namespace_is_not_there(shop: Shop) -> None:
    """Whoever learns its digest does not get its content."""
    source = b"print('not yours')"
    digest = hashlib.sha256(source).hexdigest()
    given = assignment({"kind": "python", "file": f"sha256:{digest}"})
    await shop.blobs.put(script_key("another", digest), source)
    shop.runner.launch([given])
    ending = await shop.ending(given)
    assert (Verdict.INVALID, True) == (ending.verdict, "upload it again" in (ending.error or ""))
    assert await log_of(shop.blobs, given) == ""


async def test_a_script_of_a_release_before_runs_until_it_is_moved(shop: Shop) -> None:
    """From the folder that all namespaces shared; checked all the same."""
    source = b"print('from before')"
    digest = hashlib.sha256(source).hexdigest()
    given, changed = (assignment({"kind": "python", "file": f"sha256:{each}"}) for each in (digest, "0" * 64))
    await shop.blobs.put(shared_script_key(digest), source)
    await shop.blobs.put(shared_script_key("0" * 64), source)
    shop.runner.launch([given, changed])
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert (await shop.ending(changed)).verdict is Verdict.INVALID


async def test_an_uploaded_script_that_is_gone_cannot_run_ever(shop: Shop) -> None:
    """So it is not tried again."""
    given = assignment({"kind": "python", "file": "sha256:" + "0" * 64})
    shop.runner.launch([given])
    assert (await shop.ending(given)).verdict is Verdict.INVALID


async def test_argv_runs_without_a_shell(shop: Shop) -> None:
    """Nothing is expanded."""
    given = assignment({"kind": "shell", "argv": ["echo", "$HOME", "a  b"]})
    shop.runner.launch([given])
    await shop.ending(given)
    assert await log_of(shop.blobs, given) == "$HOME a  b\n"


async def test_a_program_that_is_not_there_fails_the_run(shop: Shop) -> None:
    """With its name."""
    given = assignment({"kind": "shell", "argv": ["no-such-program"]})
    shop.runner.launch([given])
    ending = await shop.ending(given)
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "not_started")
    assert "no-such-program" in (ending.error or "")


async def test_both_streams_are_one_log_in_order(shop: Shop) -> None:
    """As they were written."""
    given = shop.shell("echo one; echo two >&2; echo three")
    await shop.ending(given)
    assert await log_of(shop.blobs, given) == "one\ntwo\nthree\n"


async def test_output_can_be_read_while_it_is_written(shop: Shop) -> None:
    """Through blob storage, which another process can reach."""
    given = shop.python("import time\nprint('first words')\ntime.sleep(600)")

    async def first_chunk() -> bytes | None:
        chunks = await shop.blobs.list(log_prefix(given.run_id, 1))
        return await shop.blobs.get(chunks[0].key) if chunks else None

    assert await eventually(first_chunk) == b"first words\n"
    shop.runner.stop(given.run_id, grace_seconds=0.1)
    await shop.ending(given)


async def test_too_much_output_ends_the_process(shop: Shop) -> None:
    """And keeps what was allowed. The sentence says the size as people read it."""
    given = shop.shell("yes", limits=TaskLimits(100_000))
    ending = await shop.ending(given)
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "output_limit")
    assert "more output than the 97.7 KB that the job allows" in (ending.error or "")
    assert len(await log_of(shop.blobs, given)) == 100_000


async def test_all_of_a_large_output_arrives(shop: Shop) -> None:
    """In chunks, none of them lost or twice."""
    given = shop.shell("seq 400000", limits=TaskLimits(10 << 20))
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert await log_of(shop.blobs, given) == "".join(f"{number}\n" for number in range(1, 400_001))


async def test_a_failed_process_is_quoted(shop: Shop) -> None:
    """Its status and its last words."""
    ending = await shop.ending(shop.shell("echo disk full; exit 3"))
    assert (ending.verdict, ending.reason, ending.error) == (Verdict.FAILED, "exit_code", "exit status 3: disk full")


async def test_exit_status_65_means_that_no_retry_helps(shop: Shop) -> None:
    """EX_DATAERR."""
    assert (await shop.ending(shop.shell("exit 65"))).verdict is Verdict.INVALID


async def test_a_process_that_a_signal_ended_says_so(shop: Shop) -> None:
    """By the signal's name."""
    ending = await shop.ending(shop.shell("kill -SEGV $$"))
    assert (ending.verdict, ending.reason, ending.error) == (Verdict.FAILED, "signal", "ended by signal SIGSEGV")


@pytest.mark.parametrize(
    "command",
    [
        'echo "{not json" > "$TICKWISE_RESULT_FILE"',
        'head -c 2000 /dev/zero | tr "\\0" 1 > "$TICKWISE_RESULT_FILE"',
        'printf "\\377" > "$TICKWISE_RESULT_FILE"',
    ],
    ids=["malformed", "too large", "no text"],
)
async def test_a_result_that_cannot_be_kept_fails_the_run(shop: Shop, command: str) -> None:
    """Better than to lose it silently."""
    ending = await shop.ending(shop.shell(command))
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "result")


async def test_a_result_that_is_no_plain_file_is_not_read(shop: Shop) -> None:
    """Nobody gets a file of the executor's, or hangs it on a pipe."""
    link = await shop.ending(shop.shell('ln -s /etc/hostname "$TICKWISE_RESULT_FILE"'))
    pipe = await shop.ending(shop.shell('mkfifo "$TICKWISE_RESULT_FILE"'))
    assert (link.result, pipe.result) == (None, None)


async def test_a_process_gets_time_to_clean_up(shop: Shop) -> None:
    """Between TERM and KILL."""
    given = shop.python(
        "import signal, sys, time\n"
        "def clean(*_):\n    print('cleaned'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, clean)\n"
        "print('ready')\ntime.sleep(600)"
    )
    await eventually(lambda: shop.blobs.list(log_prefix(given.run_id, 1)))
    shop.runner.stop(given.run_id, grace_seconds=600)
    assert (await shop.ending(given)).verdict is Verdict.CANCELLED
    assert await log_of(shop.blobs, given) == "ready\ncleaned\n"


async def test_a_process_that_ignores_term_is_killed(shop: Shop) -> None:
    """After the grace, not before."""
    stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
    given = shop.shell(stubborn)
    await eventually(lambda: shop.blobs.list(log_prefix(given.run_id, 1)))
    stopped = time.time()
    shop.runner.stop(given.run_id, grace_seconds=0.5)
    ending = await shop.ending(given)
    assert ending.verdict is Verdict.CANCELLED
    assert 0.5 <= ending.ended - stopped
    assert (await shop.ending(shop.shell(stubborn, timeout_seconds=0.3))).reason == "timeout"


@pytest.mark.parametrize("then", ["sys.exit(0)", "time.sleep(600)"], ids=["ends by itself", "is stopped"])
async def test_nothing_of_a_task_survives_its_end(shop: Shop, tmp_path: Path, then: str) -> None:
    """Also not what forked twice and left the session; and nobody is left as a zombie of ours."""
    file = tmp_path / "pid"
    before = set(psutil.Process().children())
    given = shop.python(RUNAWAY.format(file=str(file), then=then))
    if then != "sys.exit(0)":
        await eventually(lambda: file.exists() and file.read_text())
        shop.runner.stop(given.run_id, grace_seconds=0.1)
    await shop.ending(given)
    assert gone(int(file.read_text()))
    left = set(psutil.Process().children()) - before
    assert [child for child in left if child.status() == psutil.STATUS_ZOMBIE] == []


async def test_a_background_process_that_keeps_the_streams_does_not_hold_the_run(shop: Shop) -> None:
    """The run ends with its own process; what that left is killed."""
    given = shop.shell("sleep 600 & echo started")
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert await log_of(shop.blobs, given) == "started\n"


async def test_no_more_run_at_once_than_there_are_slots(tmp_path: Path) -> None:
    """The rest waits, in order."""
    made = Shop(tmp_path, slots=2)
    await made.runner.start(made.listener, time.time)
    given = [made.shell("sleep 600") for _ in range(3)]
    await made.listener.until_begun(given[0])
    await made.listener.until_begun(given[1])
    assert given[2].run_id not in made.listener.begun
    made.runner.stop(given[0].run_id, grace_seconds=1)
    await made.listener.until_begun(given[2])
    await made.runner.close()


async def test_a_work_root_that_cannot_be_made_is_said_at_start(tmp_path: Path) -> None:
    """Before anything is claimed."""
    (tmp_path / "attempts").write_text("a file is in the way")
    made = Shop(tmp_path)
    with pytest.raises(Misconfigured, match="is no folder"):
        await made.runner.start(made.listener, time.time)
    await made.runner.close()


@pytest.mark.parametrize("mode", [0o770, 0o707], ids=oct)
async def test_a_work_root_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    """They could put their own script in the place of a task's."""
    made = Shop(tmp_path)
    made.root.mkdir()
    made.root.chmod(mode)
    with pytest.raises(Misconfigured, match="others can write"):
        await made.runner.start(made.listener, time.time)
    await made.runner.close()


async def test_a_work_root_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Whoever made it can turn it."""
    made = Shop(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    made.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Misconfigured, match="is no folder"):
        await made.runner.start(made.listener, time.time)
    await made.runner.close()


async def test_a_work_root_that_was_tidied_away_is_made_again(shop: Shop) -> None:
    """As happens to temporary folders."""
    await shop.ending(shop.shell("true"))
    shutil.rmtree(shop.root)
    assert (await shop.ending(shop.shell("true"))).verdict is Verdict.OK
    assert [child.stat().st_mode & 0o777 for child in (shop.root, *shop.root.iterdir())] == [0o700, 0o700]


async def test_a_process_that_cannot_be_killed_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It holds neither its place nor the end of the executor, and is reaped when the kernel lets go of it."""
    monkeypatch.setattr(process, "MAX_KILL_SECONDS", 0.05)
    monkeypatch.setattr(process_tree, "MAX_KILL_SECONDS", 0.05)
    made = Shop(tmp_path, slots=1)
    await made.runner.start(made.listener, time.time)
    number = tmp_path / "number"
    # It is killed after its timeout; it may need longer than that to begin.
    command = ["sh", "-c", f"echo $$ > {number}; exec sleep 600"]
    stuck = assignment({"kind": "shell", "argv": command}, timeout_seconds=0.05)
    with without_kill(monkeypatch, process_tree):
        made.runner.launch([stuck])
        ending = await made.ending(stuck)
    hanging = psutil.Process(int(await eventually(lambda: number.exists() and number.read_text().strip())))
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "unkillable")
    assert str(hanging.pid) in (ending.error or "")
    assert (await made.ending(made.shell("true"))).verdict is Verdict.OK
    hanging.kill()
    await eventually(lambda: "has ended" in caplog.text)
    assert not hanging.is_running()
    await made.runner.close()


def test_it_works_on_the_quicker_event_loop_too(tmp_path: Path) -> None:
    """The executor may run on uvloop, whose own subprocesses are slow."""

    async def once() -> tuple[Ending, str]:
        made = Shop(tmp_path)
        await made.runner.start(made.listener, time.time)
        for seconds in (0.2, 5.0, 30.0):  # longer if it had no time to say anything
            given = made.shell("echo hello; sleep 600", timeout_seconds=seconds)
            ending, log = await made.ending(given), await log_of(made.blobs, given)
            if log:
                break
        for graces in ((0.0,), (3600.0, 0.05, 3600.0), (3600.0, 0.0)):
            stubborn = made.shell("trap '' TERM; while :; do sleep 1; done")
            await made.listener.until_begun(stubborn)
            for grace_seconds in graces:
                made.runner.stop(stubborn.run_id, grace_seconds=grace_seconds)
            assert (await made.ending(stubborn)).verdict is Verdict.CANCELLED
        await made.runner.close()
        return ending, log

    main: Coroutine[Any, Any, tuple[Ending, str]] = once()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ending, log = runner.run(main)
    assert (ending.reason, log) == ("timeout", "hello\n")


NAMED = "class Transient(OSError): pass\nclass Later(Transient): pass\n"


async def test_an_exit_code_is_told_as_what_it_failed_of(shop: Shop) -> None:
    """Also that which says that no retry helps."""
    endings = [await shop.ending(shop.shell(f"exit {code}")) for code in (75, 65)]
    assert [(ending.reason, ending.symptoms) for ending in endings] == [("exit_code", ("75",)), ("exit_code", ("65",))]


async def test_the_exception_that_ended_a_script_is_told_by_name(shop: Shop) -> None:
    """Its own first, then its bases; and the traceback is the script's own, to the line."""
    given = shop.python(NAMED + "raise Later('no money')", names_errors=True)
    ending = await shop.ending(given)
    own = ("__main__.Later", "Later", "__main__.Transient", "Transient", "builtins.OSError", "OSError")
    assert (ending.reason, ending.symptoms[0], ending.symptoms[1:7]) == ("exit_code", "1", own)
    log = await log_of(shop.blobs, given)
    assert (log.count("File"), log.splitlines()[-1]) == (1, "Later: no money")
    assert 'task.py", line 3, in <module>' in log


async def test_a_script_whose_errors_are_named_runs_like_any_other(shop: Shop) -> None:
    """Its names, arguments, modules and exit status are what they are without that."""
    source = (
        "from __future__ import annotations\nimport json, os, sys\n"
        "seen = [__name__, sys.argv == [__file__], sys.path[0] == os.path.dirname(__file__), sorted(globals())]\n"
        "json.dump(seen, open(os.environ['TICKWISE_RESULT_FILE'], 'w'))\n"
    )
    name, own_argv, own_path, names = json.loads(
        (await shop.ending(shop.python(source, names_errors=True))).result or ""
    )
    assert (name, own_argv, own_path) == ("__main__", True, True)
    assert [one for one in names if not one.startswith("__")] == ["annotations", "json", "os", "sys"]
    exits = await shop.ending(shop.python("import sys; sys.exit(4)", names_errors=True))
    assert exits.symptoms == ("4",)
    broken = assignment({"kind": "python", "source": "this is no Python"}, names_errors=True)
    shop.runner.launch([broken])
    assert "SyntaxError" in (await shop.ending(broken)).symptoms


async def test_what_a_task_writes_as_its_symptoms_is_bounded_and_no_link(shop: Shop) -> None:
    """It may write what it likes: nobody else's file is read, and no more than a page."""
    place = "$(dirname $TICKWISE_RESULT_FILE)/symptoms"
    found = [
        (await shop.ending(shop.shell(f"{command}; exit 1", names_errors=True))).symptoms
        for command in (
            f"ln -s /etc/hostname {place}",
            f"mkdir {place}",
            f"mkfifo {place}",
            f"head -c 9000000 /dev/zero | tr '\\0' a > {place}",
        )
    ]
    assert found[:3] == [("1",)] * 3
    assert (found[3][0], len(found[3]), len(found[3][1])) == ("1", 2, MAX_SYMPTOMS_BYTES)


async def test_a_daemon_that_sheds_everything_it_is_known_by_is_ended(shop: Shop, tmp_path: Path) -> None:
    """It forks twice, has a session, an environment and streams of its own: it keeps a number that it does not see."""
    file = tmp_path / "pid"
    inner = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    source = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {inner!r}], env={{}}, start_new_session=True, cwd='/',\n"
        "                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        f"while not (os.path.exists({str(file)!r}) and os.path.getsize({str(file)!r})): time.sleep(0.01)\n"
    )
    assert (await shop.ending(shop.python(source))).verdict is Verdict.OK
    assert gone(int(file.read_text()))


async def test_a_stop_is_kind_to_all_of_a_task(shop: Shop) -> None:
    """Its shell ends at once; what that had started, in a session of its own too, still gets its grace."""
    clean = "import signal, sys, time\ndef clean(*_):\n    time.sleep(0.3); print('cleaned', flush=True); sys.exit(0)\n"
    clean += "signal.signal(signal.SIGTERM, clean)\nprint('ready', flush=True)\ntime.sleep(600)\n"
    file = shop.root.parent / "clean.py"
    file.write_text(clean)
    given = shop.shell(f"{sys.executable} {file} & setsid {sys.executable} {file} & wait")
    both = [b"ready\nready\n"]

    async def ready() -> bool:
        chunks = await shop.blobs.list(log_prefix(given.run_id, 1))
        return [b"".join([await shop.blobs.get(chunk.key) for chunk in chunks])] == both

    await eventually(ready)
    shop.runner.stop(given.run_id, grace_seconds=60)
    assert (await shop.ending(given)).verdict is Verdict.CANCELLED
    assert await log_of(shop.blobs, given) == "ready\nready\ncleaned\ncleaned\n"


async def test_when_memory_is_over_tasks_go_before_their_executor(shop: Shop) -> None:
    """The kernel is told so: one that takes all must not take every other task along."""
    score = "/proc/self/oom_score_adj"
    given = shop.shell(f"while ! grep -q 500 {score}; do sleep 0.01; done; cat {score}")
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert await log_of(shop.blobs, given) == "500\n"
