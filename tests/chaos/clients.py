"""Clients who give nothing up: each request is sent again until it is answered for good, and every try is written down.

What may be concluded from an answer, and what not, is what `tickwise.domain.history.checker` calls OK, FAIL and INFO.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import UUID

import httpx2

from tests.integration.processes.fleet import api_client
from tickwise.adapters.clock import SystemClock
from tickwise.domain.history.checker import ClientAnswer, Operation, RequestKind
from tickwise.domain.lifecycle import RunState

PATIENCE_SECONDS: Final = 100.0
PAUSE_SECONDS: Final = 0.05
BATCH: Final = 1_000
ACCEPTED: Final = (201, 202)
"""202: by a broker, for the store; it may not be lost either."""
_CLOCK: Final = SystemClock()
_NOTHING_DONE: Final = "store_unavailable"
_UNDER_WAY: Final = "idempotency_key_in_flight"
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})


class GaveUp(AssertionError):
    """An answer that no repetition can explain, or none for too long."""


class Clients:
    """All requests of one scene."""

    def __init__(self, urls: Sequence[str], witness_wall: float, *, namespace: str | None = None) -> None:
        """`urls`: of the API roles, asked in turn; may be changed while clients work. `witness_wall`: Unix seconds
        minus monotonic ones. `namespace`: of all requests, if it is not the default one."""
        self.urls = list(urls)
        self.operations: list[Operation] = []
        self.statuses: Counter[int] = Counter()
        """Of all tries; 0: there was no answer."""
        self._wall = witness_wall
        self._next = 0
        self._client = api_client()
        if namespace is not None:
            self._client.headers["Tickwise-Namespace"] = namespace

    async def close(self) -> None:
        """No more requests."""
        await self._client.aclose()

    async def submit(self, key: str, body: dict[str, Any], *, once: bool = True) -> UUID:
        """A job, whose name is its key: acknowledged, however often that must be asked for."""
        while True:
            with self._asked(RequestKind.SUBMIT, key=key, once=once) as told:
                response = await self._post("/jobs", {"name": key, **body}, key)
                told.heard(response)
                if response is not None and response.status_code in ACCEPTED:
                    job_id = UUID(response.json()["job_id"])
                    told.operation = told.operation._replace(answer=ClientAnswer.OK, job_id=job_id)
                    return job_id
            await self._pause(response)

    async def submit_many(self, prefix: str, bodies: Sequence[dict[str, Any]], *, once: bool = True) -> list[UUID]:
        """Jobs in batches, each under a key of its own."""
        made: list[UUID] = []
        for first in range(0, len(bodies), BATCH):
            part = bodies[first : first + BATCH]
            names = [f"{prefix} {first + place}" for place in range(len(part))]
            made += await self._batch(f"{prefix} {first}", names, part, once=once)
        return made

    async def _batch(
        self, key: str, names: Sequence[str], bodies: Sequence[dict[str, Any]], *, once: bool
    ) -> list[UUID]:
        jobs = [{"name": name, **body} for name, body in zip(names, bodies, strict=True)]
        while True:
            begun = self._now()
            response = await self._post("/jobs:batch", {"jobs": jobs}, key)
            ended = self._now()
            ok = response is not None and response.status_code in (200, 202)
            found = [UUID(each["job_id"]) for each in response.json()["results"]] if ok and response else []
            # A batch that was not answered well may have been carried out in part, whatever the answer says.
            answer = ClientAnswer.OK if ok else ClientAnswer.INFO
            for place, name in enumerate(names):
                job_id = found[place] if found else None
                self.operations.append(
                    Operation(RequestKind.SUBMIT, answer, begun, ended, key=name, job_id=job_id, once=once)
                )
            if ok:
                return found
            await self._pause(response)

    async def cancel(self, run_id: UUID) -> RunState | None:
        """A run; the state that is answered, None if it is on record no more or not yet."""
        while True:
            with self._asked(RequestKind.CANCEL, run_id=run_id) as told:
                response = await self._post(f"/runs/{run_id}/cancel", None, None)
                told.heard(response)
                if response is not None and response.status_code in (200, 202):
                    state = RunState(response.json()["status"])
                    told.operation = told.operation._replace(answer=ClientAnswer.OK, state=state)
                    return state
                if response is not None and response.status_code in (404, 409) and _code(response) != _UNDER_WAY:
                    return None
            await self._pause(response)

    async def retry(self, run_id: UUID, key: str) -> UUID | None:
        """Another run like this one; None if it cannot be had."""
        while True:
            with self._asked(RequestKind.RETRY, key=key) as told:
                response = await self._post(f"/runs/{run_id}/retry", {}, key)
                told.heard(response)
                if response is not None and response.status_code in (200, 201, 202):
                    made = UUID(response.json()["run_id"])
                    told.operation = told.operation._replace(answer=ClientAnswer.OK, run_id=made)
                    return made
                if response is not None and response.status_code in (404, 409) and _code(response) != _UNDER_WAY:
                    return None
            await self._pause(response)

    async def change(self, job_id: UUID, body: dict[str, Any]) -> None:
        """A job, until the change is acknowledged."""
        while True:
            response: httpx2.Response | None = None
            with suppress(httpx2.TransportError):
                response = await self._client.patch(f"{self._url()}/api/v1/jobs/{job_id}", json=body)
            if response is not None and response.status_code == 200:
                return
            await self._pause(response)

    async def get(self, path: str) -> Any:
        """A JSON answer, None for whatever else."""
        try:
            response = await self._client.get(f"{self._url()}/api/v1{path}")
        except httpx2.TransportError:
            return None
        return response.json() if response.status_code == 200 else None

    # ------------------------------------------------------------------ one try

    def _now(self) -> float:
        return time.monotonic() + self._wall

    def _url(self) -> str:
        self._next += 1
        return self.urls[self._next % len(self.urls)]

    async def _post(self, path: str, body: dict[str, Any] | None, key: str | None) -> httpx2.Response | None:
        headers = {} if key is None else {"Idempotency-Key": key}
        try:
            response = await self._client.post(f"{self._url()}/api/v1{path}", json=body, headers=headers)
        except httpx2.TransportError:
            self.statuses[0] += 1
            return None
        self.statuses[response.status_code] += 1
        return response

    @contextmanager
    def _asked(self, asked: RequestKind, **facts: Any) -> Iterator[_Told]:
        told = _Told(Operation(asked, ClientAnswer.INFO, self._now(), **facts))
        try:
            yield told
        finally:
            self.operations.append(told.operation._replace(ended=self._now()))

    async def _pause(self, response: httpx2.Response | None) -> None:
        """Before the next try. Raises `GaveUp` for an answer that no repetition can change."""
        if response is not None and response.status_code not in _AGAIN and _code(response) != _UNDER_WAY:
            raise GaveUp(f"{response.request.url}: {response.status_code} {response.text[:500]}")
        await _CLOCK.sleep(PAUSE_SECONDS)


def _code(response: httpx2.Response) -> str | None:
    """Of a problem, what programs may go by."""
    return response.json().get("code") if "json" in response.headers.get("Content-Type", "") else None


class _Told:
    """What is known of one try."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    def heard(self, response: httpx2.Response | None) -> None:
        """An answer that says that nothing was done is believed; all others leave it open."""
        if response is None:
            return
        refused = 400 <= response.status_code < 500 and _code(response) != _UNDER_WAY
        if refused or (response.status_code == 503 and _code(response) == _NOTHING_DONE):
            self.operation = self.operation._replace(answer=ClientAnswer.FAIL)
