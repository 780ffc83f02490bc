"""What the runner port promises, kept by every runner with real processes and a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.support.runners import OWN_USER, Listener, assignment
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.function import FunctionRunner
from tickwise.adapters.runner.http import HttpRunner
from tickwise.adapters.runner.process import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import Assignment, Runner, Verdict


@dataclass
class Stage:
    """A runner with one place, and how to give it tasks that end at once, and ones that wait."""

    runner: Runner
    listener: Listener
    ends_at_once: Callable[[], Assignment]
    waits: Callable[[], Assignment]
    close: Callable[[], Awaitable[None]]


def _settings(folder: Path) -> RunnerSettings:
    return RunnerSettings(
        blobs=open_blobs("memory://"),
        clock=SystemClock(),
        work_root=folder / "work",
        slots=1,
        kill_grace_seconds=0.2,
        http_allow=("127.0.0.1",),
        run_tasks_as=OWN_USER,
    )


async def _function(folder: Path) -> Stage:
    runner = FunctionRunner(_settings(folder), workers=1, modules=["tests.support.functions"])

    async def nothing() -> None: ...

    never = {"file": str(folder / "never")}
    return Stage(
        runner,
        Listener(),
        lambda: assignment({"kind": "function", "name": "tests.nothing"}),
        lambda: assignment({"kind": "function", "name": "tests.hold"}, never),
        nothing,
    )


def _process(task: dict[str, Any], waiting: dict[str, Any]) -> Callable[[Path], Awaitable[Stage]]:
    async def stage(folder: Path) -> Stage:
        async def nothing() -> None: ...

        runner = ProcessRunner(_settings(folder))
        return Stage(runner, Listener(), lambda: assignment(task), lambda: assignment(waiting), nothing)

    return stage


async def _http(folder: Path) -> Stage:
    never = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/wait":
            await never.wait()
        return web.Response(text="done")

    server = web.AppRunner(web.Application(), access_log=None, shutdown_timeout=0.1)
    server.app.router.add_get("/{path}", answer)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    port = server.addresses[0][1]

    def to(path: str) -> Assignment:
        kind = HttpRunner(_settings(folder)).kinds[0]
        return assignment(kind.check({"kind": "http", "url": f"http://127.0.0.1:{port}/{path}"}))

    async def close() -> None:
        never.set()
        await server.cleanup()

    return Stage(HttpRunner(_settings(folder)), Listener(), lambda: to("now"), lambda: to("wait"), close)


STAGES: dict[str, Callable[[Path], Awaitable[Stage]]] = {
    "function": _function,
    "python": _process(
        {"kind": "python", "source": "pass"}, {"kind": "python", "source": "import time; time.sleep(600)"}
    ),
    "shell": _process({"kind": "shell", "command": "true"}, {"kind": "shell", "argv": ["sleep", "600"]}),
    "http": _http,
}


@pytest_asyncio.fixture(params=list(STAGES))
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    made = await STAGES[request.param](tmp_path)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()
    await made.close()
    assert all(len(endings) == 1 for endings in made.listener.endings.values()), "an attempt ended more than once"


async def test_an_attempt_ends_once_and_began_before_it_ended(stage: Stage) -> None:
    """Its instants are in order, and none is before the launch."""
    before = time.time()
    given = stage.ends_at_once()
    stage.runner.launch([given])
    ending = await stage.listener.ending_of(given)
    assert ending.verdict is Verdict.OK
    assert before <= ending.started <= ending.ended <= time.time()


async def test_all_of_a_batch_end(stage: Stage) -> None:
    """However few places there are."""
    batch = [stage.ends_at_once() for _ in range(5)]
    stage.runner.launch(batch)
    assert [(await stage.listener.ending_of(one)).verdict for one in batch] == [Verdict.OK] * 5


async def test_a_stop_before_the_beginning_gives_the_run_back(stage: Stage) -> None:
    """It waits behind one that holds the only place, and nobody is to blame."""
    first, second = stage.waits(), stage.ends_at_once()
    stage.runner.launch([first, second])
    stage.runner.stop(second.run_id, grace_seconds=0.2)
    assert (await stage.listener.ending_of(second)).verdict is Verdict.RELEASED
    stage.runner.stop(first.run_id, grace_seconds=0.2)
    await stage.listener.ending_of(first)


async def test_a_stop_while_it_runs_cancels_it(stage: Stage) -> None:
    """And the place is free for the next."""
    given, after = stage.waits(), stage.ends_at_once()
    stage.runner.launch([given])
    await stage.listener.until_begun(given)
    stage.runner.launch([after])
    stage.runner.stop(given.run_id, grace_seconds=5.0)
    assert (await stage.listener.ending_of(given)).verdict is Verdict.CANCELLED
    assert (await stage.listener.ending_of(after)).verdict is Verdict.OK


async def test_a_stop_of_an_unknown_run_is_ignored(stage: Stage) -> None:
    """It may have ended a moment ago."""
    given = stage.ends_at_once()
    stage.runner.stop(given.run_id, grace_seconds=1.0)
    stage.runner.launch([given])
    await stage.listener.ending_of(given)
    stage.runner.stop(given.run_id, grace_seconds=1.0)


async def test_what_runs_too_long_is_ended_with_the_reason_timeout(stage: Stage) -> None:
    """A failure that may be tried again."""
    given = stage.waits()._replace(timeout_seconds=0.2)
    stage.runner.launch([given])
    ending = await stage.listener.ending_of(given)
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "timeout")
    assert ending.ended - ending.started >= 0.2


async def test_what_waits_can_be_given_back_at_once(stage: Stage) -> None:
    """What runs goes on, and what comes afterwards is run."""
    running, waiting, later = stage.waits(), stage.waits(), stage.ends_at_once()
    stage.runner.launch([running, waiting])
    await stage.listener.until_begun(running)
    stage.runner.release_waiting()
    assert (await stage.listener.ending_of(waiting)).verdict is Verdict.RELEASED
    assert running.run_id not in stage.listener.endings
    stage.runner.launch([later])
    stage.runner.stop(running.run_id, grace_seconds=0.2)
    assert (await stage.listener.ending_of(running)).verdict is Verdict.CANCELLED
    assert (await stage.listener.ending_of(later)).verdict is Verdict.OK


async def test_its_labels_name_its_kinds(stage: Stage) -> None:
    """And each function, so that a run which needs another one is not claimed for it."""
    labels = stage.runner.labels()
    kinds = [f"task:{kind.name}" for kind in stage.runner.kinds]
    offered = stage.runner.offers()
    assert list(labels) == kinds + (["function:*", *(f"function:{name}" for name in offered)] if offered else [])
    assert stage.runner.labels() is labels, "asked for before every claim, they are made once"


async def test_close_ends_everything_that_runs_or_waits(stage: Stage) -> None:
    """What ran is cancelled, what waited is given back, what comes too late is given back too."""
    running, waiting, late = stage.waits(), stage.waits(), stage.waits()
    stage.runner.launch([running, waiting])
    await stage.listener.until_begun(running)
    await stage.runner.close()
    stage.runner.launch([late])
    verdicts = [stage.listener.endings[one.run_id][0].verdict for one in (running, waiting, late)]
    assert verdicts == [Verdict.CANCELLED, Verdict.RELEASED, Verdict.RELEASED]
