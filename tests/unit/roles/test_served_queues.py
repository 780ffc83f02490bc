"""The warning for runs that no active executor can take, with executors that are bound to namespaces."""

from __future__ import annotations

from typing import Any

from tests.support.scene import scene
from tickwise.domain.model import Lane
from tickwise.ports.store import ExecutorRow
from tickwise.roles.shared.served_queues import Serving, unserved

LANE = Lane("reports", 5, ("gpu",))


def executor(**fields: Any) -> ExecutorRow:
    said: dict[str, Any] = {
        "executor": 1, "name": "one", "queues": ("reports",), "labels": ("gpu",), "functions": (), "slots": 4,
        "registered_at": 0.0, "lease_until": 9e9, "gone_at": None, "held": 0,
    }  # fmt: skip
    return ExecutorRow(**{**said, **fields})


def test_nobody_serves_a_namespace_that_all_executors_leave_out() -> None:
    """The queue is served, but not for this namespace; the labels count among those who take it."""
    bound, other = executor(namespaces=("team-a",)), executor(labels=(), namespaces=("team-b",))
    assert unserved(LANE, None, [bound], "team-a") is None
    said = unserved(LANE, None, [bound, other], "team-c")
    assert (
        said == "no active executor of the queue 'reports' serves the namespace 'team-c'; its runs wait until one does"
    )
    assert "labels gpu" in (unserved(LANE, None, [bound, other], "team-b") or "")
    assert "queue 'other'" in (unserved(LANE._replace(queue="other"), None, [bound], "team-c") or "")
    assert unserved(LANE, None, [bound, executor()], "team-c") is None


def test_an_answer_of_one_namespace_is_not_that_of_another() -> None:
    """Submits share answers; with a bound executor, only those of their namespace."""
    serving = Serving([executor(namespaces=("team-a",))])
    assert [None, True, None] == [
        serving.missing(LANE, None, name) if name == "team-a" else serving.missing(LANE, None, name) is not None
        for name in ("team-a", "team-b", "team-a")
    ]


async def test_a_job_that_no_executor_may_take_says_so() -> None:
    """In the warnings of its submit, in its own, and in the explanation of its run."""
    async with scene() as here:
        await here.join(namespaces=("team-a",))
        made = await here.ask(
            "POST",
            "/jobs",
            201,
            {"name": "a", "task": {"kind": "shell", "command": "date"}, "schedule_type": "IMMEDIATE"},
        )
        said = "serves the namespace 'default'"
        assert said in str(made["warnings"])
        assert said in str((await here.ask("GET", f"/jobs/{made['job_id']}"))["warnings"])
        assert said in str(await here.ask("GET", f"/jobs/{made['job_id']}/explain"))
        [row] = await here.ask("GET", "/executors")
        assert ["team-a"] == row["namespaces"]
        await here.join()
        await here.pass_time(3)
        assert said not in str((await here.ask("GET", f"/jobs/{made['job_id']}"))["warnings"])
