"""`@task`: the tasks that it makes, what an executor sees of them, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, cast

import pytest

from tickwise_sdk import (
    Call,
    Context,
    Middleware,
    PayloadError,
    PermanentError,
    RegistrationError,
    RetryLater,
    Submitted,
    current_context,
    task,
    use_middleware,
)
from tickwise_sdk.middleware import forget_middleware
from tickwise_sdk.tasks import Registration, registry
from tickwise_sdk.testing import context_for, run_payload, run_task

if TYPE_CHECKING:
    from decimal import Decimal


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)
    forget_middleware()


def _known(name: str) -> Registration:
    return registry[name].__tickwise_task__


def test_a_function_is_registered_under_its_name_and_stays_callable() -> None:
    """The decorator changes nothing about a call of it."""

    @task("reports.nightly")
    def nightly(payload: dict[str, Any]) -> int:
        """Its text."""
        return len(payload) + 1

    assert nightly({}) == 1
    assert (nightly.__doc__, nightly.__name__) == ("Its text.", "nightly")
    assert registry["reports.nightly"] is nightly


def test_without_a_name_the_dotted_path_is_the_name() -> None:
    """With and without parentheses."""

    @task
    def bare() -> None: ...

    @task()
    def called() -> None: ...

    assert {f"{__name__}.{function.__qualname__}" for function in (bare, called)} <= registry.keys()


def test_a_payload_that_is_handed_over_as_it_is_costs_nothing() -> None:
    """Executors call the function itself: thousands a second go this way."""

    @task("none")
    def none() -> None: ...

    @task("one")
    async def one(payload: Any) -> None: ...

    @task("two")
    def two(context: Context, payload: dict[str, Any]) -> dict[str, int]:
        return {}

    @task("bare")
    def bare(ctx, payload):  # type: ignore[no-untyped-def]  # as functions without types are written
        return ctx, payload

    for made, parameters in ((none, 0), (one, 1), (two, 2), (bare, 2)):
        expected = Registration(made.name, made.function, parameters, made is one)
        assert expected == _known(made.name)


def test_arguments_travel_by_their_names() -> None:
    """Those that are not given are left to the function, on the side where it runs."""

    @task("arguments")
    def arguments(context: Context, day: date, region: str = "eu", *, rows: int | None = None) -> list[Any]:
        return [day.isoformat(), region, rows, context.attempt]

    assert {"day": "2026-01-31"} == arguments.bind(date(2026, 1, 31)).payload
    done = run_task(arguments.bind(date(2026, 1, 31), rows=3), context_for(attempt=2))
    assert ["2026-01-31", "eu", 3, 2] == done.result


@dataclass
class Order:
    """A payload that is one object."""

    number: int
    day: date
    notes: tuple[str, ...] = ()


def test_one_dataclass_is_the_whole_payload() -> None:
    """Both ways, and the result as well."""

    @task("orders.place")
    async def place(order: Order) -> Order:
        assert isinstance(order.day, date)
        return Order(order.number + 1, order.day, (*order.notes, "placed"))

    order = Order(7, date(2026, 1, 31))
    assert {"number": 7, "day": "2026-01-31", "notes": []} == place.bind(order).payload
    assert {"number": 8, "day": "2026-01-31", "notes": ["placed"]} == run_task(place.bind(order)).result


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"day": "soon"}, "`day`: expected a date such as 2026-01-31, got 'soon'"),
        ({}, "expected an object with `day`"),
        ({"day": "2026-01-31", "region": "eu"}, "expected an object without `region`"),
        ([1], "expected an object, got [1]"),
    ],
)
def test_a_payload_for_another_version_of_the_function_is_refused_for_good(payload: Any, said: str) -> None:
    """With what does not fit, and what to do: its types changed, or the worker is older than its client."""

    @task("changed")
    def changed(day: date) -> None: ...

    with pytest.raises(PayloadError) as caught:
        run_payload("changed", payload)
    assert said in str(caught.value)
    assert "submitted for another version of the function" in str(caught.value)
    assert caught.value.__tickwise_permanent__


def test_a_client_refuses_what_its_task_does_not_take() -> None:
    """Before anything is sent."""

    @task("strict")
    def strict(day: date) -> None: ...

    with pytest.raises(PayloadError, match=r"`day`: expected a date"):
        strict.bind("2026-01-31")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="missing a required argument: 'day'"):
        strict.bind()  # type: ignore[call-arg]  # as above


class Connection:
    """Something that cannot travel."""


def test_what_cannot_travel_is_refused_where_it_is_declared() -> None:
    """With the parameter and the way out."""
    with pytest.raises(RegistrationError, match=r"`connection` of .*Connection cannot travel as JSON; use a dataclass"):

        @task("unsendable")
        def unsendable(connection: Connection, day: date) -> None: ...

    with pytest.raises(RegistrationError, match=r"must name its parameters: a payload has no \*days"):

        @task("any")
        def any_number(*days: date) -> None: ...

    with pytest.raises(RegistrationError, match="`key` is an option of `submit`; rename the parameter"):

        @task("key")
        def keyed(key: str, day: date) -> None: ...

    with pytest.raises(RegistrationError, match="'Decimal' is not defined; they are needed at run time"):

        @task("unseen")
        def unseen(amount: Decimal) -> None: ...


def test_two_functions_cannot_have_one_name() -> None:
    """A job would not know which one it calls."""

    @task("same")
    def first() -> None: ...

    with pytest.raises(RegistrationError, match="two functions are registered as 'same'"):

        @task("same")
        def second() -> None: ...


def test_errors_say_what_the_executor_should_do() -> None:
    """By attributes, so that it need not know their classes."""
    assert getattr(PermanentError("gone"), "__tickwise_permanent__") is True  # noqa: B009 - as executors look for it
    assert RetryLater("busy", retry_after_seconds=3).retry_after_seconds == 3


def test_a_result_that_is_no_result_of_the_function_fails_for_good() -> None:
    """The caller was promised a type."""

    @task("liar")
    def liar(day: date) -> int:
        return "three"  # type: ignore[return-value]  # that is the point

    with pytest.raises(PermanentError, match="liar returned something else than it says: expected a whole number"):
        run_task(liar.bind(date(2026, 1, 31)))


# ------------------------------------------------------------------------------------------ while it runs


class Noting(Middleware):
    """Notes what it sees."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    def before(self, call: Call) -> None:
        self.seen.append(f"{self.name} before {call.task} {dict(call.arguments)}")

    def after(self, call: Call, error: BaseException | None) -> None:
        self.seen.append(f"{self.name} after {call.result} {error!r}")


class Wrapping(Noting):
    """The same with a context manager."""

    def around(self, call: Call) -> AbstractContextManager[None]:
        @contextmanager
        def noted() -> Iterator[None]:
            self.seen.append(f"{self.name} in")
            yield
            self.seen.append(f"{self.name} out")

        return noted()


def test_middleware_of_the_program_is_outside_of_that_of_the_task() -> None:
    """Also around a function whose payload is handed over as it is, and declared after it."""
    seen: list[str] = []

    @task("wrapped", middleware=[Wrapping("own", seen)])
    async def wrapped(payload: dict[str, Any]) -> int:
        seen.append("called")
        return 3

    use_middleware(Noting("all", seen))
    assert 3 == run_task(wrapped.bind({"a": 1})).result
    assert [
        "all before wrapped {'payload': {'a': 1}}", "own in", "called", "own out", "all after 3 None",
    ] == seen  # fmt: skip


def test_middleware_hears_of_errors_and_may_keep_a_function_from_being_called() -> None:
    """What it raises is what the attempt fails with."""
    seen: list[str] = []

    class Closed(Middleware):
        def before(self, call: Call) -> None:
            raise RetryLater("closed", retry_after_seconds=60)

    @task("failing", middleware=[Noting("first", seen), Closed()])
    def failing(payload: dict[str, Any]) -> None:
        seen.append("called")

    with pytest.raises(RetryLater, match="closed"):
        run_task(failing.bind({}))
    assert ["first before failing {'payload': {}}", "first after None RetryLater('closed')"] == seen


def test_a_task_says_how_far_it_is_and_hears_that_it_shall_stop() -> None:
    """By its context, which code that it calls finds, too."""

    def deep_inside() -> None:
        current_context().progress(0.5, "half")

    @task("talkative")
    def talkative(context: Context, day: date) -> bool:
        context.progress(0.0)
        deep_inside()
        deep_inside()
        print("printed")  # noqa: T201 - what a task prints is its output
        context.logger.info("logged on %s", day)
        return context.cancelled

    done = run_task(talkative.bind(date(2026, 1, 31)), context_for(cancelled=True))
    assert ([(0.0, ""), (0.5, "half")], True) == (done.progress, done.result)
    assert "printed" in done.output
    assert not run_task(talkative.bind(date(2026, 1, 31))).result
    with pytest.raises(LookupError, match="there is no run here"):
        current_context()
    with pytest.raises(ValueError, match="a share from 0 to 1"):
        context_for().progress(12)


def test_the_sdk_stands_alone_and_a_worker_loads_little_of_it() -> None:
    """A program that declares tasks gets nothing of the server, no HTTP library and no event loop."""
    code = (
        "import sys; from tickwise_sdk import Context, task; "
        "print(*sorted(n for n in sys.modules if n.split('.')[0] in "
        "('tickwise', 'msgspec', 'pydantic', 'httpx2', 'httpx', 'asyncio', 'ssl')))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [] == answer.stdout.split()


def test_a_task_names_the_resources_that_its_runs_hold() -> None:
    """Beside the other fields of its jobs; one job may say other amounts."""

    @task("sdk.trains", job={"queue": "gpu"}, resources={"gpu": 1})
    def trains(rounds: int) -> int:
        return rounds

    body = trains.bind(3).body()
    assert ("gpu", {"gpu": 1}) == (body["queue"], body["resources"])
    assert {"gpu": 2} == trains.bind(3).body(fields={"resources": {"gpu": 2}})["resources"]


# ------------------------------------------------------------------------------------------ a result that does not come


class Waiting:
    """A client whose jobs wait without end."""

    def get_job_status(self, _job_id: str) -> dict[str, Any]:
        return {"latest_run": {"status": "QUEUED"}}


def test_a_result_that_does_not_come_says_what_the_server_remarked() -> None:
    """That no executor offers the function, for example: a name with a typo waits for ever."""
    remark = "no active executor offers the function 'shop.tydi'; its runs wait until one does"
    late_words = "job j has not ended within 0.01 s"
    for warnings, wanted in (([remark], f"{late_words}; {remark}"), ([], late_words)):
        submitted = Submitted[int]("j", warnings, cast("Any", None), cast("Any", Waiting()))
        with pytest.raises(TimeoutError) as late:
            submitted.result(timeout_seconds=0.01)
        assert wanted == str(late.value)
