"""The testing kit: a server in memory, on a clock that the test moves, and its pytest plugin."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tickwise.domain.retry import RetryPolicy
from tickwise_sdk import ClientError, Context, PermanentError, ProblemError, RetryLater, TaskFailed, sync, task
from tickwise_sdk.schedules import declared
from tickwise_sdk.tasks import registry
from tickwise_sdk.testing import MemoryServer, VirtualClock, run_payload, run_task_async

UTC = timezone.utc  # noqa: UP017 - as programs on Python 3.10 write it


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)
    declared.clear()


def test_what_is_submitted_runs_when_it_is_due(tickwise_server: MemoryServer) -> None:
    """Neither before the clock says so, nor twice."""
    seen: list[tuple[int, datetime]] = []

    @task("kit.note")
    def note(context: Context, number: int) -> int:
        seen.append((number, context.due_time))
        return number

    clock = tickwise_server.clock
    later = clock.now() + timedelta(hours=2)
    submitted = note.submit(2, at=later, key="two")
    assert note.submit(2, at=later, key="two").job_id == submitted.job_id
    assert 1 == note.submit(1).result()
    assert [(1, clock.now())] == seen
    tickwise_server.advance(hours=3)
    assert [(1, later - timedelta(hours=2)), (2, later)] == seen
    assert 2 == submitted.result()
    assert later + timedelta(hours=1) == clock.now()


def test_retries_follow_the_word_of_the_task(tickwise_server: MemoryServer) -> None:
    """As often as the job says; no retry after a permanent error; a pause where the task asks for one."""
    attempts: list[int] = []

    @task("kit.shaky", job={"max_retries": 2})
    async def shaky(context: Context, errors: list[str]) -> str:
        attempts.append(context.attempt)
        if len(errors) >= context.attempt:
            match errors[context.attempt - 1]:
                case "gone":
                    raise PermanentError("gone")
                case "busy":
                    raise RetryLater("busy", retry_after_seconds=600)
            raise ValueError("no")
        return "well"

    assert "well" == shaky.submit(["no", "no"]).result()
    with pytest.raises(TaskFailed, match="ValueError: no"):
        shaky.submit(["no", "no", "no"]).result()
    with pytest.raises(TaskFailed, match="PermanentError: gone"):
        shaky.submit(["gone"]).result()
    assert [1, 2, 3, 1, 2, 3, 1] == attempts

    paused = shaky.submit(["busy"])
    assert [] == tickwise_server.run_due()
    assert "RETRYING" == tickwise_server.runs[-1].status
    (run,) = tickwise_server.advance(minutes=10)
    assert ("SUCCESS", 2, "well") == (run.status, run.attempt, paused.result())


def test_a_job_that_says_no_number_of_retries_has_that_of_the_server(tickwise_server: MemoryServer) -> None:
    """And what the last attempt said is there, though it failed."""

    @task("kit.never")
    def never(context: Context) -> None:
        context.progress(0.5, "half")
        print(f"attempt {context.attempt}")  # noqa: T201 - its output is what is tested
        raise ValueError("no")

    with pytest.raises(TaskFailed, match="ValueError: no"):
        never.submit().result()
    (run,) = tickwise_server.runs
    assert (RetryPolicy().max_retries + 1, "attempt 4\n") == (run.attempt, run.output)
    assert [(0.5, "half")] == run.progress


def test_schedules_fire_on_the_clock_of_the_test() -> None:
    """Intervals, and cron lines as the server reads them."""
    with MemoryServer(datetime(2026, 3, 1, 12, tzinfo=UTC)) as server:

        @task("kit.tidy")
        def tidy(what: str = "all") -> str:
            return what

        tidy.schedule("hourly", every="1h", arguments=tidy.bind("tmp"))
        tidy.schedule("nightly", cron="0 2 * * *", timezone="Europe/Berlin")
        assert ["kit.tidy@hourly", "kit.tidy@nightly"] == sync(server, "kit").created
        runs = server.advance(days=1)
        hourly = [run.nominal_time for run in runs if run.result == "tmp"]
        assert [server.clock.now() - timedelta(hours=each) for each in range(23, -1, -1)] == hourly
        assert [datetime(2026, 3, 2, 1, tzinfo=UTC)] == [run.nominal_time for run in runs if run.result == "all"]

        declared.pop("kit.tidy@hourly")
        assert ["kit.tidy@hourly"] == sync(server, "kit", prune=True).removed
        assert 1 == len(server.advance(days=1))


async def test_asynchronous_programs_use_it_as_well(tickwise_server: MemoryServer) -> None:
    """On the loop of the test; a task of its own runs beside it."""

    @task("kit.double")
    async def double(number: int) -> int:
        return 2 * number

    submitted = await double.submit_async(4)
    assert 8 == await submitted.result()
    assert 10 == (await run_task_async(double.bind(5))).result
    assert 12 == run_payload("kit.double", {"number": 6}).result


def test_a_server_in_memory_is_in_use_only_within_its_block() -> None:
    """Outside of it a task is submitted where the program says."""

    @task("kit.nothing")
    def nothing() -> None: ...

    with MemoryServer() as server:
        nothing.submit()
        with pytest.raises(ProblemError, match="no job with the key"):
            server.get_job_by_key("kit")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TICKWISE_URL", "not an address")
        patched.setenv("TICKWISE_API_KEY", "key")
        with pytest.raises(ClientError, match="is no server address"):
            nothing.submit()


@pytest.mark.parametrize(
    "wrong", [lambda clock: clock.advance(hours=-1), lambda clock: clock.move_to(clock.now() - timedelta(1))]
)
def test_time_does_not_go_back(wrong: Any) -> None:
    """In no test."""
    with pytest.raises(ValueError, match="time does not go back"):
        wrong(VirtualClock())
    with pytest.raises(ValueError, match="has no zone"):
        VirtualClock(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
