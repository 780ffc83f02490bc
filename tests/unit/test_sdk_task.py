"""`@task`: what it registers, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tickwise.sdk import Context, PermanentError, RetryLater, task
from tickwise.sdk.task import registry


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


def test_a_function_is_registered_under_its_name_and_stays_callable() -> None:
    """The decorator changes nothing about it."""

    @task("reports.nightly")
    def nightly(payload: int) -> int:
        return payload + 1

    assert nightly(1) == 2
    assert registry["reports.nightly"].function is nightly


def test_without_a_name_the_dotted_path_is_the_name() -> None:
    """With and without parentheses."""

    @task
    def bare() -> None: ...

    @task()
    def called() -> None: ...

    assert {f"{__name__}.{function.__qualname__}" for function in (bare, called)} <= registry.keys()


def test_sync_and_async_functions_of_none_to_two_parameters_are_taken() -> None:
    """Nothing, (payload), (context, payload)."""

    @task("none")
    def none() -> None: ...

    @task("one")
    async def one(payload: Any) -> None: ...

    @task("two")
    def two(context: Context, payload: Any, *, extra: int = 0) -> None: ...

    known = [(registry[name].parameters, registry[name].is_async) for name in ("none", "one", "two")]
    assert known == [(0, False), (1, True), (2, False)]


def test_other_parameters_are_refused() -> None:
    """At registration, where the author sees it."""
    with pytest.raises(ValueError, match=r"must take nothing, \(payload\) or \(context, payload\)"):

        @task("three")
        def three(context: Context, payload: Any, more: int) -> None: ...

    with pytest.raises(ValueError, match="must take nothing"):

        @task("named")
        def named(*, payload: Any) -> None: ...


def test_two_functions_cannot_have_one_name() -> None:
    """A job would not know which one it calls."""

    @task("same")
    def first() -> None: ...

    with pytest.raises(ValueError, match="two functions are registered as 'same'"):

        @task("same")
        def second() -> None: ...


def test_errors_say_what_the_executor_should_do() -> None:
    """By attributes, so that it need not know their classes."""
    assert getattr(PermanentError("gone"), "__tickwise_permanent__") is True  # noqa: B009 - as executors look for it
    assert RetryLater("busy", retry_after_seconds=3).retry_after_seconds == 3


def test_the_sdk_stands_alone() -> None:
    """A user's program that imports it gets nothing else of ours, and nothing heavy."""
    code = "import sys, tickwise.sdk; print(*sorted(n for n in sys.modules if n.startswith(('tickwise', 'msgspec'))))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["tickwise", "tickwise.sdk", "tickwise.sdk.task"]
