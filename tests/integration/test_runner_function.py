"""The function runner with real workers: who runs where, what comes back, and what happens when something breaks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
import uvloop

from tests.support.runners import gone, without_kill
from tests.support.waiting import eventually
from tickwise.adapters.blobs import StoredBlobs, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.function import runner as function
from tickwise.adapters.runner.function import worker_process
from tickwise.adapters.runner.function.runner import FunctionRunner
from tickwise.adapters.runner.process import python_launcher
from tickwise.adapters.runner.process import tree as process_tree
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.runner import Assignment, TaskLimits, Verdict
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.testing.contracts.runner import Listener, assignment, log_of


class CountingClock(SystemClock):
    """Counts the pauses that have begun."""

    pauses = 0

    async def sleep(self, seconds: float) -> None:
        self.pauses += 1
        await super().sleep(seconds)


class Shop:
    """A runner of the test functions, and its listener."""

    def __init__(
        self,
        folder: Path,
        workers: int = 1,
        modules: tuple[str, ...] = ("tests.support.functions",),
        blobs: StoredBlobs | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.blobs: StoredBlobs = blobs or open_blobs("memory://")
        self.clock = CountingClock()
        self._now = now
        settings = RunnerSettings(
            blobs=self.blobs, clock=self.clock, work_root=folder, kill_grace_seconds=0.1, result_limit_bytes=1 << 16
        )
        self.runner = FunctionRunner(settings, workers=workers, modules=modules)
        self.listener = Listener()

    async def open(self) -> Shop:
        await self.runner.start(self.listener, self._now)
        return self

    def launch(self, name: str, payload: Any = None, **changes: Any) -> Assignment:
        given = assignment({"kind": "function", "name": name}, payload, **changes)
        self.runner.launch([given])
        return given

    async def run(self, name: str, payload: Any = None, **changes: Any) -> Any:
        return await self.listener.ending_of(self.launch(name, payload, **changes))


Opener = Callable[..., Coroutine[Any, Any, Shop]]


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Opener]:
    opened: list[Shop] = []

    async def opener(**options: Any) -> Shop:
        made = Shop(tmp_path, **options)
        opened.append(made)
        return await made.open()

    yield opener
    for one in opened:
        await one.runner.close()


def _workers() -> list[psutil.Process]:
    """Our worker processes."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if any("runner.function.worker" in part for part in child.cmdline()):
                found.append(child)
    return found


async def test_the_runner_offers_what_its_modules_register(shop: Opener) -> None:
    """By the names given to `@task`."""
    assert "tests.echo" in (await shop()).runner.offers()


async def test_without_modules_there_is_no_process(shop: Opener) -> None:
    """An executor that runs no functions pays nothing for them."""
    opened = await shop(modules=())
    assert list(opened.runner.offers()) == []
    assert _workers() == []


async def test_a_module_that_cannot_be_imported_is_refused_at_start(shop: Opener) -> None:
    """With its name, so that an operator can repair the setting."""
    with pytest.raises(Misconfigured, match=r"module tests\.support\.no_such.*ModuleNotFoundError"):
        await shop(modules=("tests.support.no_such",))


async def test_a_module_without_functions_is_refused_at_start(shop: Opener) -> None:
    """Most likely another module was meant."""
    with pytest.raises(Misconfigured, match="no function decorated"):
        await shop(modules=("tests.support.waiting",))


async def test_what_a_function_returns_is_the_result(shop: Opener) -> None:
    """As JSON."""
    ending = await (await shop()).run("tests.echo", {"a": [1, None, "ü"]})
    assert json.loads(ending.result) == {"a": [1, None, "ü"]}


async def test_a_function_gets_its_context(shop: Opener) -> None:
    """All of it, times in UTC."""
    opened = await shop()
    given = opened.launch("tests.context", {"x": 1}, attempt=3, token=99, namespace="team", due=1_800_000_000.25)
    told = json.loads((await opened.listener.ending_of(given)).result or "")
    assert told["idempotency_key"] == told["run_id"] == str(given.run_id)
    assert told["job_id"] == str(given.job_id)
    assert (told["attempt"], told["fencing_token"], told["namespace"]) == (3, 99, "team")
    assert told["due_time"] == "2027-01-15T08:00:00.250000Z"
    assert told["payload"] == {"x": 1}


async def test_an_unknown_function_is_given_back(shop: Opener) -> None:
    """Another executor may have it, or this one after its next release: it has not failed."""
    ending = await (await shop()).run("tests.no_such_function")
    assert (ending.verdict, ending.reason) == (Verdict.UNOFFERED, "unknown_function")


async def test_what_waits_too_long_behind_a_slow_run_is_given_back(
    shop: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a while, so that an executor with a free worker gets it; and there is no room for more meanwhile."""
    monkeypatch.setattr(function, "HOUSE_SECONDS", 0.05)
    opened = await shop()
    door = tmp_path / "door"
    assert opened.runner.spare() > 0
    holding = opened.launch("tests.hold", {"file": str(door)})
    await opened.listener.until_begun(holding)
    monkeypatch.setattr(function, "MAX_WAIT_SECONDS", 0.1)  # from here on: the first may wait for its worker
    assert opened.runner.spare() == 0
    ending = await opened.run("tests.hold", {"file": str(door)})
    assert (ending.verdict, ending.reason) == (Verdict.UNOFFERED, "busy")
    door.touch()
    assert (await opened.listener.ending_of(holding)).verdict is Verdict.OK


async def test_what_is_queued_in_a_worker_can_be_given_back(shop: Opener, tmp_path: Path) -> None:
    """It is asked back from it: each run is either done or released, and none is begun later."""
    opened = await shop()
    for _ in range(3):
        await opened.run("tests.maybe_hold", {})
    door = tmp_path / "door"
    payloads: list[dict[str, Any]] = [{"seconds": 0.001} for _ in range(200)]
    payloads[150] = {"file": str(door)}  # no further than here, however long this test is kept from what it does next
    batch = [assignment({"kind": "function", "name": "tests.maybe_hold"}, each) for each in payloads]
    opened.runner.launch(batch)
    assert (await opened.listener.ending_of(batch[0])).verdict is Verdict.OK
    opened.runner.release_waiting()
    door.touch()
    verdicts = [(await opened.listener.ending_of(one)).verdict for one in batch]
    done = verdicts.count(Verdict.OK)
    assert verdicts == [Verdict.OK] * done + [Verdict.RELEASED] * (len(batch) - done)
    assert done < len(batch)


async def test_what_comes_back_from_a_worker_goes_on_in_its_order(shop: Opener, tmp_path: Path) -> None:
    """The oldest first, as it was launched."""
    opened = await shop()
    door = tmp_path / "door"
    for _ in range(3):
        await opened.run("tests.maybe_hold", {})
    holding = opened.launch("tests.maybe_hold", {"file": str(door)})
    behind = [assignment({"kind": "function", "name": "tests.maybe_hold"}) for _ in range(20)]
    opened.runner.launch(behind)
    await opened.listener.until_begun(holding)
    door.touch()
    for one in behind:
        await opened.listener.ending_of(one)
    ended = [run_id for what, run_id in opened.listener.order if what == "ended"]
    assert ended[-len(behind) :] == [one.run_id for one in behind]


@pytest.mark.parametrize("asked", ["nan", "inf", "-1", "1e400", "huge"])
async def test_a_pause_that_is_none_is_ignored(shop: Opener, asked: str) -> None:
    """The job's own backoff holds; the worker lives on."""
    ending = await (await shop()).run("tests.later", {"pause": asked})
    assert (ending.verdict, ending.reason, ending.retry_after_seconds) == (Verdict.FAILED, "error", None)


async def test_a_pause_is_a_day_at_most(shop: Opener) -> None:
    """Else a slip of one unit would put a run off for years."""
    ending = await (await shop()).run("tests.later", {"pause": "1e9"})
    assert ending.retry_after_seconds == 86_400.0


async def test_an_exception_fails_the_run_and_its_traceback_is_in_the_log(shop: Opener) -> None:
    """The error is its last line; the traceback begins in the function."""
    opened = await shop()
    given = opened.launch("tests.fail", {"text": "no money"})
    ending = await opened.listener.ending_of(given)
    assert (ending.verdict, ending.reason, ending.error) == (Verdict.FAILED, "error", "ValueError: no money")
    log = await log_of(opened.blobs, given)
    assert "Traceback" in log
    assert 'raise ValueError(payload["text"])' in log
    assert "function/worker" not in log


@pytest.mark.parametrize("name", ["tests.fail_oddly", "tests.fail_oddly_async"])
@pytest.mark.parametrize(
    ("how", "reason", "error"),
    [
        ("text", "error", "ValueError: no file caf?"),
        ("class", "error", "Halved: half"),
        ("note", "error", "ValueError: noted"),
        ("permanent", "invalid", "PermanentError: no file caf?"),
        ("untellable", "error", "Untellable, which cannot be told: RuntimeError"),
        ("result", "result", "the function's result is not JSON: 'utf-8' codec can't encode"),
        ("long", "error", "ValueError: long"),
    ],
)
async def test_an_end_that_cannot_be_told_as_it_is_keeps_no_other_from_being_told(
    shop: Opener, name: str, how: str, reason: str, error: str
) -> None:
    """Names of files that are not UTF-8 come into Python as halves of characters, and an exception's text is code."""
    opened = await shop()
    await opened.run(name, {})
    hows = [None, None, how, None, how, None]
    batch = [assignment({"kind": "function", "name": name}, {"how": each}, limits=TaskLimits(1_000)) for each in hows]
    opened.runner.launch(batch)
    endings = [await opened.listener.ending_of(each) for each in batch]
    assert [ending.verdict is Verdict.OK for ending in endings] == [each is None for each in hows]
    for ending in (endings[2], endings[4]):
        assert ending.reason == reason
        assert (ending.error or "").startswith(error)


async def test_half_a_character_in_a_log_is_replaced(shop: Opener) -> None:
    """In what a function prints, and in the traceback of its exception."""
    opened = await shop()
    printed, noted = (opened.launch("tests.fail_oddly", {"how": how}) for how in ("print", "note"))
    assert (await opened.listener.ending_of(printed)).verdict is Verdict.OK
    await opened.listener.ending_of(noted)
    assert await log_of(opened.blobs, printed) == "caf?\n"
    assert "ValueError: noted\nat caf?\n" in await log_of(opened.blobs, noted)


async def test_a_module_that_fails_with_half_a_character_is_named(
    shop: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator reads the rest of the message."""
    (tmp_path / "halved_module.py").write_text('raise ValueError("no file caf\\udce9")\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(Misconfigured, match=r"module halved_module cannot be loaded: ValueError: no file caf\?"):
        await shop(modules=("halved_module",))


async def test_a_function_can_say_that_no_retry_helps(shop: Opener) -> None:
    """By raising `PermanentError`."""
    ending = await (await shop()).run("tests.fail_for_good")
    assert (ending.verdict, ending.reason) == (Verdict.INVALID, "invalid")


async def test_a_function_can_say_when_to_try_again(shop: Opener) -> None:
    """By raising `RetryLater`."""
    ending = await (await shop()).run("tests.later")
    assert (ending.verdict, ending.retry_after_seconds) == (Verdict.FAILED, 42.0)


@pytest.mark.parametrize("name", ["tests.no_json", "tests.large"])
async def test_a_result_that_cannot_be_kept_fails_the_run(shop: Opener, name: str) -> None:
    """It is no JSON, or too large."""
    ending = await (await shop()).run(name)
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "result")


async def test_async_functions_print_each_into_its_own_log(shop: Opener) -> None:
    """Although they run beside each other."""
    opened = await shop()
    given = [opened.launch("tests.speak_async", {"text": str(number)}) for number in range(5)]
    for number, one in enumerate(given):
        await opened.listener.ending_of(one)
        assert await log_of(opened.blobs, one) == f"before {number}\nafter {number}\n"


async def test_a_worker_that_cannot_be_killed_is_given_up(
    shop: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its run ends, others go on in another worker, and when the kernel lets go of it, it is reaped."""
    monkeypatch.setattr(worker_process, "MAX_KILL_SECONDS", 0.1)
    monkeypatch.setattr(process_tree, "MAX_KILL_SECONDS", 0.1)
    opened = await shop()
    (worker,) = _workers()
    with without_kill(monkeypatch, process_tree, worker_process):
        ending = await opened.run("tests.hold_stubbornly", timeout_seconds=0.1)
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "unkillable")
    assert (await opened.run("tests.echo", {})).verdict is Verdict.OK
    assert f"process {worker.pid} hangs" in caplog.text
    # It lost its connection, so it ends itself as soon as it can.
    await eventually(lambda: "has ended" in caplog.text)
    assert not worker.is_running()


async def test_slow_async_functions_run_beside_each_other(shop: Opener, tmp_path: Path) -> None:
    """In one worker."""
    opened = await shop()
    door = tmp_path / "door"
    await opened.run("tests.wait_async", {"file": str(Path(__file__))})
    given = [opened.launch("tests.wait_async", {"file": str(door)}) for _ in range(20)]
    for one in given:
        await opened.listener.until_begun(one)
    door.touch()
    assert {(await opened.listener.ending_of(one)).verdict for one in given} == {Verdict.OK}


async def test_a_run_that_holds_its_worker_does_not_hold_the_others(shop: Opener, tmp_path: Path) -> None:
    """What was sent behind it goes to another worker, and what ended before it is told."""
    opened = await shop(workers=2)
    door = tmp_path / "door"
    for _ in range(3):
        await opened.run("tests.maybe_hold", {})
    first = [opened.launch("tests.maybe_hold", {}) for _ in range(10)]
    held = opened.launch("tests.maybe_hold", {"file": str(door)})
    behind = [opened.launch("tests.maybe_hold", {}) for _ in range(50)]
    for one in (*first, *behind):
        assert (await opened.listener.ending_of(one)).verdict is Verdict.OK
    assert held.run_id not in opened.listener.endings
    door.touch()
    assert (await opened.listener.ending_of(held)).verdict is Verdict.OK


async def test_a_stopped_function_can_clean_up(shop: Opener, tmp_path: Path) -> None:
    """An exception is raised in it; its worker lives on."""
    opened = await shop()
    (worker,) = _workers()
    given = opened.launch("tests.hold", {"file": str(tmp_path / "door")})
    await opened.listener.until_begun(given)
    opened.runner.stop(given.run_id, grace_seconds=600)
    assert (await opened.listener.ending_of(given)).verdict is Verdict.CANCELLED
    assert (tmp_path / "door.stopped").read_text() == "Stopped"
    assert [one.pid for one in _workers()] == [worker.pid]


async def test_a_stopped_async_function_is_cancelled(shop: Opener, tmp_path: Path) -> None:
    """Alone: those beside it go on."""
    opened = await shop()
    door = tmp_path / "door"
    one, other = (opened.launch("tests.wait_async", {"file": str(door)}) for _ in range(2))
    await opened.listener.until_begun(one)
    opened.runner.stop(one.run_id, grace_seconds=600)
    assert (await opened.listener.ending_of(one)).verdict is Verdict.CANCELLED
    door.touch()
    assert (await opened.listener.ending_of(other)).verdict is Verdict.OK


async def test_a_function_that_does_not_stop_loses_its_worker(shop: Opener) -> None:
    """What waited goes to the next worker."""
    opened = await shop()
    stuck = opened.launch("tests.hold_stubbornly", timeout_seconds=0.1)
    waiting = opened.launch("tests.echo", {})
    ending = await opened.listener.ending_of(stuck)
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "timeout")
    assert (await opened.listener.ending_of(waiting)).verdict is Verdict.OK


async def test_a_function_that_holds_the_interpreter_is_stopped_too(
    shop: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker cannot even say that it began; the executor sees it all the same."""
    monkeypatch.setattr(function, "HOUSE_SECONDS", 0.1)
    opened = await shop()
    stuck = opened.launch("tests.hold_the_interpreter", timeout_seconds=0.2)
    waiting = opened.launch("tests.echo", {})
    ending = await opened.listener.ending_of(stuck)
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "timeout")
    assert (await opened.listener.ending_of(waiting)).verdict is Verdict.OK


async def _ends_idle_workers(opened: Shop, door: Path) -> None:
    """Three workers are busy at once, and one is left after their runs."""
    given = [opened.launch("tests.hold", {"file": str(door)}) for _ in range(3)]
    for one in given:
        await opened.listener.until_begun(one)
    assert len(_workers()) == 3
    door.touch()
    await eventually(lambda: len(_workers()) == 1)


async def test_idle_workers_end_but_one(shop: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle executor is small, and still starts the next run at once."""
    monkeypatch.setattr(function, "HOUSE_SECONDS", 0.05)
    monkeypatch.setattr(function, "IDLE_SECONDS", 0.1)
    opened = await shop(workers=3)
    await _ends_idle_workers(opened, tmp_path / "door")
    assert (await opened.run("tests.echo", {})).verdict is Verdict.OK


async def test_idle_workers_end_after_a_start_that_waited_for_the_store(
    shop: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runners start before the executor joins: they cannot ask for the store's time until then."""
    monkeypatch.setattr(function, "HOUSE_SECONDS", 0.05)
    monkeypatch.setattr(function, "IDLE_SECONDS", 0.1)
    store_clock = StoreClock(SystemClock())
    opened = await shop(workers=3, now=store_clock.now)
    looks = opened.clock.pauses + 3
    await eventually(lambda: opened.clock.pauses >= looks, what="the runner looks at its workers again and again")
    store_clock.saw(time.time())
    await _ends_idle_workers(opened, tmp_path / "door")


async def test_what_a_function_started_dies_with_its_worker(shop: Opener, tmp_path: Path) -> None:
    """Also when it went into a session of its own."""
    opened = await shop()
    file = tmp_path / "pid"
    given = opened.launch("tests.spawn", {"file": str(file)})
    await opened.listener.until_begun(given)
    child = int(await eventually(lambda: file.exists() and file.read_text()))
    opened.runner.stop(given.run_id, grace_seconds=0.1)
    assert (await opened.listener.ending_of(given)).verdict is Verdict.CANCELLED
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


async def test_only_the_function_that_took_its_worker_along_fails(shop: Opener) -> None:
    """It is blamed exactly, with the last words; those in the same batch are run by the next worker."""
    opened = await shop()
    await opened.run("tests.die", {"die": False})
    await opened.run("tests.die", {"die": False})
    batch = [assignment({"kind": "function", "name": "tests.die"}, {"die": number == 50}) for number in range(100)]
    opened.runner.launch(batch)
    endings = [await opened.listener.ending_of(one) for one in batch]
    assert endings[50].reason == "crashed"
    assert "last words" in (endings[50].error or "")
    assert {ending.verdict for number, ending in enumerate(endings) if number != 50} == {Verdict.OK}


async def test_an_async_function_that_takes_its_worker_along_at_once_begins_once(shop: Opener, tmp_path: Path) -> None:
    """As do those beside it that had begun and not told so yet: a second begin would have the token of the first."""
    opened = await shop()
    file = tmp_path / "lines"
    first = opened.launch("tests.die_async", {"file": str(file), "name": "first", "die": False})
    await opened.listener.until_begun(first)
    batch = [
        assignment(
            {"kind": "function", "name": "tests.die_async"}, {"file": str(file), "name": name, "die": name == "last"}
        )
        for name in ("beside", "last")
    ]
    opened.runner.launch(batch)
    endings = [await opened.listener.ending_of(one) for one in (first, *batch)]
    assert ["crashed"] * 3 == [ending.reason for ending in endings]
    assert (await opened.run("tests.echo", 1)).verdict is Verdict.OK
    assert ["first", "beside", "last"] == file.read_text().split()


async def test_what_waits_behind_an_async_function_that_takes_its_worker_along_goes_on(
    shop: Opener, tmp_path: Path
) -> None:
    """No line of it ran, so nothing failed: the next worker runs it."""
    opened = await shop()
    payload = {"file": str(tmp_path / "lines"), "name": "once"}
    for _ in range(3):  # now it is known to be quick, and travels in batches
        assert (await opened.run("tests.die_async", {**payload, "die": False, "seconds": 0})).verdict is Verdict.OK
    batch = [
        assignment({"kind": "function", "name": "tests.die_async"}, {**payload, "die": number == 0, "seconds": 0})
        for number in range(50)
    ]
    opened.runner.launch(batch)
    endings = [await opened.listener.ending_of(one) for one in batch]
    assert ["crashed", *([None] * 49)] == [ending.reason for ending in endings]
    assert 3 + 50 == len((tmp_path / "lines").read_text().split())


async def test_a_worker_that_is_killed_from_outside_is_replaced(shop: Opener) -> None:
    """An idle one, by the next run."""
    opened = await shop()
    (worker,) = _workers()
    worker.kill()
    await eventually(lambda: not worker.is_running())
    assert (await opened.run("tests.echo", {})).verdict is Verdict.OK


async def test_workers_do_not_see_the_executors_environment(shop: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings and keys least of all."""
    monkeypatch.setenv("TICKWISE_BOOTSTRAP_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    seen = json.loads((await (await shop()).run("tests.environment")).result)
    assert "PATH" in seen
    assert "secret" not in seen.values()


async def test_thousands_of_quick_runs_end_in_any_number_of_workers(shop: Opener) -> None:
    """Each once; the listener would say otherwise."""
    opened = await shop(workers=2)
    batch = [assignment({"kind": "function", "name": "tests.nothing"}) for _ in range(5_000)]
    for low in range(0, len(batch), 500):
        opened.runner.launch(batch[low : low + 500])
        await asyncio.sleep(0)  # noqa: TID251 - one turn for others, no waiting
    assert {(await opened.listener.ending_of(one)).verdict for one in batch} == {Verdict.OK}


async def test_workers_end_with_their_executor(tmp_path: Path) -> None:
    """Even when it had no time to say goodbye."""
    code = (
        "import asyncio, os, sys, time\n"
        "from pathlib import Path\n"
        "from tests.integration.test_runner_function import Shop, _workers\n"
        "async def main():\n"
        f"    shop = await Shop(Path({str(tmp_path)!r})).open()\n"
        "    shop.launch('tests.hold_stubbornly')\n"
        "    print(_workers()[0].pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    worker = psutil.Process(int(await process.stdout.readline()))
    process.kill()
    await process.wait()
    await eventually(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)


async def test_an_exception_is_told_by_name_with_its_bases(shop: Opener) -> None:
    """Its own first, each qualified and short: what a job's rules of retrying speak of."""
    opened = await shop()
    transient = await opened.run("tests.fail_by_name")
    own = ("tests.support.functions.Transient", "Transient", "builtins.LookupError", "LookupError")
    assert (transient.reason, transient.symptoms[:4]) == ("error", own)
    assert transient.symptoms[-4:] == ("builtins.Exception", "Exception", "builtins.BaseException", "BaseException")
    permanent = await opened.run("tests.fail_for_good")
    assert (permanent.verdict, permanent.symptoms[1]) == (Verdict.INVALID, "PermanentError")


async def test_an_exception_of_a_strange_class_is_told_within_bounds(shop: Opener) -> None:
    """However long its name and many its bases."""
    ending = await (await shop()).run("tests.fail_strangely")
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "error")
    assert len(ending.symptoms) <= 2 * python_launcher.MAX_CLASSES
    assert max(map(len, ending.symptoms)) == python_launcher.MAX_NAME_CHARACTERS


@pytest.mark.parametrize("name", ["tests.die", "tests.segfault"])
async def test_a_function_that_takes_its_worker_along_takes_only_what_ran_in_it(
    shop: Opener, tmp_path: Path, name: str
) -> None:
    """Each of those with the reason `crashed`; a worker beside it, and what comes after, notice nothing."""
    opened = await shop(workers=2)
    door = str(tmp_path / "door")
    beside = [opened.launch("tests.wait_async", {"file": door}) for _ in range(3)]
    for one in beside:
        await opened.listener.until_begun(one)
    elsewhere = opened.launch("tests.hold", {"file": door})
    await opened.listener.until_begun(elsewhere)
    assert (await opened.run(name)).reason == "crashed"
    assert elsewhere.run_id not in opened.listener.endings
    Path(door).touch()
    assert (await opened.listener.ending_of(elsewhere)).verdict is Verdict.OK
    # They ran in the worker that died, or in the other one: in either case each ended once, and as it should.
    reasons = {(await opened.listener.ending_of(one)).reason for one in beside}
    assert len(reasons) == 1
    assert reasons <= {None, "crashed"}
    assert (await opened.run("tests.echo", 1)).verdict is Verdict.OK


async def test_a_cancelled_function_that_never_yields_is_killed_with_its_worker(
    shop: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not even let its worker hear of it."""
    monkeypatch.setattr(function, "HOUSE_SECONDS", 0.1)
    opened = await shop()
    (worker,) = _workers()
    stuck = opened.launch("tests.hold_the_interpreter")
    await opened.listener.until_begun(stuck)
    opened.runner.stop(stuck.run_id, grace_seconds=0.1)
    ending = await opened.listener.ending_of(stuck)
    assert (ending.verdict, ending.reason) == (Verdict.CANCELLED, "cancelled")
    assert gone(worker.pid)
    assert (await opened.run("tests.echo", 1)).verdict is Verdict.OK


def test_a_stop_is_obeyed_on_the_quicker_event_loop_too(tmp_path: Path) -> None:
    """The executor may run on uvloop, whose timers can say less of themselves."""

    async def once() -> list[Verdict]:
        opened = await Shop(tmp_path).open()
        verdicts = []
        for graces in ((0.0,), (3600.0, 0.05, 3600.0), (3600.0, 0.0)):
            stuck = opened.launch("tests.hold_stubbornly")
            await opened.listener.until_begun(stuck)
            for grace_seconds in graces:
                opened.runner.stop(stuck.run_id, grace_seconds=grace_seconds)
            verdicts.append((await opened.listener.ending_of(stuck)).verdict)
        await opened.runner.close()
        return verdicts

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert [Verdict.CANCELLED] * 3 == runner.run(once())
