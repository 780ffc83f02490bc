"""Jobs of tasks: what is sent to make one, and what is known of it afterwards.

Bound (a task with its arguments) ──submit──► Submitted ──result──► the value that the function returned
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from tickwise_sdk.conversion import Conversion, Mismatch
from tickwise_sdk.errors import ClientError, PayloadError, ProblemError, TaskFailed

if TYPE_CHECKING:
    from tickwise_sdk import types

_V = TypeVar("_V")

FINAL: Final = frozenset({"SUCCESS", "FAILED", "CANCELLED", "SKIPPED"})
"""The states in which a run stays."""
FIRST_LOOK_SECONDS: Final = 0.02
MAX_LOOK_SECONDS: Final = 1.0
NO_PAYLOAD: Final = object()


class Submitter(Protocol):
    """The part of `Client` that tasks are submitted with."""

    def create_job(self, body: types.JobBody) -> types.JobCreated: ...

    def create_jobs(self, body: list[types.JobBody], *, atomic: bool | None = None) -> types.BatchView: ...

    def get_job_by_key(self, key: str) -> types.JobView: ...

    def get_job_status(self, job_id: str) -> types.StatusView: ...


class AsyncSubmitter(Protocol):
    """The part of `AsyncClient` that tasks are submitted with."""

    async def create_job(self, body: types.JobBody) -> types.JobCreated: ...

    async def get_job_by_key(self, key: str) -> types.JobView: ...

    async def get_job_status(self, job_id: str) -> types.StatusView: ...


class Bound(NamedTuple):
    """See `BoundCall`: its facts."""

    task: str
    payload: Any
    """As JSON; `NO_PAYLOAD`: it takes none."""
    fields: Mapping[str, Any]
    """Fields of each job that is made of the task."""


class BoundCall(Generic[_V]):
    """A task with its arguments, converted and checked: a job, as soon as it is submitted."""

    __slots__ = ("_bound", "conversion")

    def __init__(self, bound: Bound, result: Conversion) -> None:
        self._bound = bound
        self.conversion = result
        """That of the results of its runs."""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._bound.task

    @property
    def payload(self) -> Any:
        """The payload as JSON values; None if there is none."""
        return None if self._bound.payload is NO_PAYLOAD else self._bound.payload

    def body(
        self, *, at: datetime | str | None = None, key: str | None = None, fields: types.JobChangeBody | None = None
    ) -> types.JobBody:
        """The body of the job, as `create_job` takes it. `fields` go before those of the task."""
        body: dict[str, Any] = {"name": self._bound.task, **self._bound.fields, **(fields or {})}
        body["task"] = {"kind": "function", "name": self._bound.task}
        if self._bound.payload is not NO_PAYLOAD:
            body["payload"] = self._bound.payload
        if key is not None:
            body["key"] = key
        if at is not None:
            body["schedule_type"] = "FUTURE"
            body["schedule_time"] = moment(at)
        elif not _SCHEDULE & body.keys():
            body["schedule_type"] = "IMMEDIATE"
        return cast("types.JobBody", body)

    def submit(
        self,
        *,
        at: datetime | str | None = None,
        key: str | None = None,
        fields: types.JobChangeBody | None = None,
        client: Submitter | None = None,
    ) -> Submitted[_V]:
        """Make a job that runs now, or at a time. With a `key`, submitting it again gives the job that is there.

        Raises `ClientError`."""
        client = client or chosen()
        body = self.body(at=at, key=key, fields=fields)
        try:
            made = client.create_job(body)
        except ProblemError as refused:
            if key is None or refused.code != "key_taken":
                raise
            there = client.get_job_by_key(key)
            _check_same(there, self._bound.task, refused)
            return Submitted(there["job_id"], (), self.conversion, client)
        return Submitted(made["job_id"], made.get("warnings", ()), self.conversion, client)

    async def submit_async(
        self,
        *,
        at: datetime | str | None = None,
        key: str | None = None,
        fields: types.JobChangeBody | None = None,
        client: AsyncSubmitter | None = None,
    ) -> AsyncSubmitted[_V]:
        """As `submit`, with an `AsyncClient`."""
        client = client or chosen_async()
        body = self.body(at=at, key=key, fields=fields)
        try:
            made = await client.create_job(body)
        except ProblemError as refused:
            if key is None or refused.code != "key_taken":
                raise
            there = await client.get_job_by_key(key)
            _check_same(there, self._bound.task, refused)
            return AsyncSubmitted(there["job_id"], (), self.conversion, client)
        return AsyncSubmitted(made["job_id"], made.get("warnings", ()), self.conversion, client)

    def __repr__(self) -> str:
        return f"<{self._bound.task} with {self.payload!r}>"


_SCHEDULE: Final = frozenset(
    {"schedule_type", "schedule_time", "at", "cron", "cron_expression", "every", "interval_seconds"}
)


def _check_same(there: types.JobView, task: str, refused: ProblemError) -> None:
    """Raise the refusal if the job that has the key runs something else."""
    found: Mapping[str, Any] = there["task"]
    if found.get("kind") != "function" or found.get("name") != task:
        raise refused


def moment(at: datetime | str) -> str:
    """A time as the API takes it. Raises `ClientError` for one without a zone."""
    if isinstance(at, str):
        return at
    if at.tzinfo is None:
        raise ClientError(
            f"{at.isoformat()} has no zone, and the server may be in another one: give the time a `tzinfo`, such as "
            'timezone.utc or ZoneInfo("Europe/Berlin")'
        )
    return at.isoformat()


def submit_many(calls: Iterable[BoundCall[_V]], *, client: Submitter | None = None) -> list[Submitted[_V]]:
    """Make a job of each call, up to 10,000, in one request: all of them, or none. Raises `ClientError`."""
    client = client or chosen()
    asked = list(calls)
    if not asked:
        return []
    made = client.create_jobs([each.body() for each in asked], atomic=True)
    results = cast("Sequence[Any]", made["results"])
    return [
        Submitted[_V](result["job_id"], result.get("warnings", ()), each.conversion, client)
        for each, result in zip(asked, results, strict=True)
    ]


# ------------------------------------------------------------------------------------------ afterwards


class _Job(Generic[_V]):
    """A job that was made."""

    def __init__(self, job_id: str, warnings: Sequence[str], result: Conversion) -> None:
        self.job_id = job_id
        self.warnings = tuple(warnings)
        """Remarks of the server: that no executor offers its function, for example."""
        self._conversion = result

    def _value(self, run: types.RunView) -> _V:
        if run["status"] != "SUCCESS":
            raise TaskFailed(cast("Mapping[str, Any]", run))
        try:
            return cast("_V", self._conversion.from_json(run["result"]))
        except Mismatch as wrong:
            raise PayloadError(f"the result of run {run['run_id']} does not fit: {wrong}") from None

    def _late(self, timeout_seconds: float) -> TimeoutError:
        """With what the server remarked when the job was made: it may be the reason."""
        remarks = "".join(f"; {warning}" for warning in self.warnings)
        return TimeoutError(f"job {self.job_id} has not ended within {timeout_seconds:g} s{remarks}")

    def __repr__(self) -> str:
        return f"<job {self.job_id}>"


class Submitted(_Job[_V]):
    """A job that a task was submitted as."""

    def __init__(self, job_id: str, warnings: Sequence[str], result: Conversion, client: Submitter) -> None:
        super().__init__(job_id, warnings, result)
        self._client = client

    def run(self) -> types.RunView | None:
        """Its latest run; None: it has none yet."""
        return self._client.get_job_status(self.job_id)["latest_run"]

    def result(self, *, timeout_seconds: float = 60.0) -> _V:
        """Wait until it has run, and give what the function returned. Raises `TaskFailed` if it did not succeed,
        `TimeoutError`, and the errors of the client."""
        until, look = time.monotonic() + timeout_seconds, FIRST_LOOK_SECONDS
        while True:
            run = self.run()
            if run is not None and run["status"] in FINAL:
                return self._value(run)
            if time.monotonic() + look > until:
                raise self._late(timeout_seconds)
            time.sleep(look)
            look = min(look * 2, MAX_LOOK_SECONDS)


class AsyncSubmitted(_Job[_V]):
    """As `Submitted`, of an asynchronous client."""

    def __init__(self, job_id: str, warnings: Sequence[str], result: Conversion, client: AsyncSubmitter) -> None:
        super().__init__(job_id, warnings, result)
        self._client = client

    async def run(self) -> types.RunView | None:
        """Its latest run; None: it has none yet."""
        return (await self._client.get_job_status(self.job_id))["latest_run"]

    async def result(self, *, timeout_seconds: float = 60.0) -> _V:
        """As `Submitted.result`."""
        import asyncio  # it takes as long to load as all the rest, and most programs that declare tasks need it never

        until, look = time.monotonic() + timeout_seconds, FIRST_LOOK_SECONDS
        while True:
            run = await self.run()
            if run is not None and run["status"] in FINAL:
                return self._value(run)
            if time.monotonic() + look > until:
                raise self._late(timeout_seconds)
            await asyncio.sleep(look)
            look = min(look * 2, MAX_LOOK_SECONDS)


# ------------------------------------------------------------------------------------------ where none is named


class ClientsInUse(NamedTuple):
    """The clients that tasks are submitted with where none is named."""

    plain: Submitter | None
    asynchronous: AsyncSubmitter | None


NO_CLIENTS: Final = ClientsInUse(None, None)
_in_use: list[ClientsInUse] = [NO_CLIENTS]
_found: dict[int, Submitter] = {}
"""The client of the environment, by process: a forked child must not share its parent's connections."""


def clients_in_use() -> ClientsInUse:
    """Those that were chosen."""
    return _in_use[0]


def replace_clients(plain: Submitter | None, asynchronous: AsyncSubmitter | None) -> None:
    """Choose both anew."""
    _in_use[0] = ClientsInUse(plain, asynchronous)


def use_client(client: Submitter | None) -> None:
    """Submit tasks with this client where none is named; None: with `Client.from_environment()`, made once."""
    replace_clients(client, clients_in_use().asynchronous)


def use_async_client(client: AsyncSubmitter | None) -> None:
    """Choose the client of `submit_async`, which finds none by itself: connections belong to an event loop."""
    replace_clients(clients_in_use().plain, client)


def chosen() -> Submitter:
    """The client for a call that names none. Raises `ClientError` if the environment names no server."""
    plain = clients_in_use().plain
    if plain is not None:
        return plain
    process = os.getpid()
    if process not in _found:
        from tickwise_sdk.client import Client

        _found[process] = Client.from_environment()
    return _found[process]


def chosen_async() -> AsyncSubmitter:
    """The asynchronous client for a call that names none. Raises `ClientError` if none was chosen."""
    found = clients_in_use().asynchronous
    if found is None:
        raise ClientError("name a client: submit_async(…, client=client), or call use_async_client(client) before")
    return found
