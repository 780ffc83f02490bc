"""A small load for a deployment that is being upgraded, and what became of it. Started in the network of its machine.

    python -m tests.deploy.whole.load ADDRESS RATE    submits until its standard input ends, waits, prints a report

Each job writes its own mark to its output. In the report `failed` are requests that were not answered with success,
`lost` jobs without a successful run, `doubled` jobs with two runs, two marks, or a second attempt without a reason that
allows one, `again` jobs whose executor lost its lease: a machine that is too slow for seconds does that, and at least
once is what is promised. The key comes by TICKWISE_API_KEY.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from typing import Any, Final

import httpx2

WAIT_SECONDS: Final = 120.0
AT_ONCE: Final = 8
ENDED: Final = frozenset({"SUCCESS", "FAILED", "CANCELLED", "SKIPPED"})


class Load:
    """The jobs that were accepted, and the requests that were not."""

    def __init__(self, client: httpx2.AsyncClient, rate: float) -> None:
        self._client, self._pause_seconds = client, 1.0 / rate
        self._marks: dict[str, str] = {}
        self._failed: list[str] = []

    async def submit(self, stop: asyncio.Event) -> None:
        """One job after the other, every third in a plain process, until `stop`."""
        number = 0
        while not stop.is_set():
            number += 1
            mark = uuid.uuid4().hex
            task = {"kind": "shell", "command": f"echo mark-{mark}; sleep 0.2"}
            isolation = "process" if number % 3 == 0 else "sandbox"
            body = {"name": "load", "schedule_type": "IMMEDIATE", "task": task, "isolation": isolation}
            answer = await self._ask("POST", "/jobs", json=body)
            if answer is not None and answer.status_code in (201, 202):
                self._marks[answer.json()["job_id"]] = mark
            elif answer is not None:
                self._failed.append(f"POST /jobs: {answer.status_code} {answer.text[:200]}")
            with_pause = asyncio.wait_for(stop.wait(), self._pause_seconds)
            try:
                await with_pause
            except TimeoutError:
                continue

    async def look(self, stop: asyncio.Event) -> None:
        """Read a list through the gateway all the while: readers must see no pause either."""
        while not stop.is_set():
            for path in ("/runs?limit=1", "/namespaces"):
                answer = await self._ask("GET", path)
                if answer is not None and answer.status_code != 200:
                    self._failed.append(f"GET {path}: {answer.status_code} {answer.text[:200]}")
            try:
                await asyncio.wait_for(stop.wait(), self._pause_seconds)
            except TimeoutError:
                continue

    async def report(self) -> dict[str, Any]:
        """What became of all of it."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def judged(job: str, mark: str) -> str | None:
            async with turns:
                return await self._fault(job, mark)

        faults = await asyncio.gather(*(judged(job, mark) for job, mark in self._marks.items()))
        found = [fault for fault in faults if fault]
        return {
            "accepted": len(self._marks),
            "failed": self._failed,
            "lost": [fault for fault in found if fault.startswith("lost")],
            "doubled": [fault for fault in found if fault.startswith("doubled")],
            "again": [fault for fault in found if fault.startswith("again")],
        }

    async def _fault(self, job: str, mark: str) -> str | None:
        """None: it ran once and well."""
        runs = await self._ended(job)
        if not runs or runs[0]["status"] != "SUCCESS":
            return f"lost: job {job} has {[each['status'] for each in runs]}"
        if len(runs) > 1:
            return f"doubled: job {job} has {len(runs)} runs"
        if runs[0]["attempt_number"] != 1:
            answer = await self._ask("GET", f"/runs/{runs[0]['run_id']}")
            reasons = [] if answer is None else [each["reason"] for each in answer.json()["attempts"][:-1]]
            return f"{'again' if {*reasons} == {'lease_over'} else 'doubled'}: job {job} ran again for {reasons}"
        answer = await self._ask("GET", f"/runs/{runs[0]['run_id']}/logs")
        said = "" if answer is None else answer.text
        count = said.count(f"mark-{mark}")
        if count != 1:
            return f"{'lost' if count == 0 else 'doubled'}: job {job} wrote its mark {count} times: {said[:200]!r}"
        return None

    async def _ended(self, job: str) -> list[dict[str, Any]]:
        """Its runs, once the first has ended, or as they are when the patience is over."""
        runs: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not (runs and runs[0]["status"] in ENDED):
                    answer = await self._ask("GET", f"/jobs/{job}/runs")
                    runs = answer.json() if answer is not None and answer.status_code == 200 else []
                    await asyncio.sleep(0.1)  # noqa: TID251 - a program of its own, between two looks
        except TimeoutError:
            pass
        return runs

    async def _ask(self, method: str, path: str, **more: Any) -> httpx2.Response | None:
        """The answer. None: there was none, which is a fault that is kept."""
        try:
            return await self._client.request(method, path, **more)
        except httpx2.HTTPError as failure:
            self._failed.append(f"{method} {path}: {failure!r}")
            return None


async def main() -> None:
    """The program."""
    address, rate = sys.argv[1], float(sys.argv[2])
    headers = {"Authorization": f"Bearer {os.environ['TICKWISE_API_KEY']}"}
    stop = asyncio.Event()
    async with httpx2.AsyncClient(base_url=f"{address}/api/v1", headers=headers, timeout=30.0) as client:
        load = Load(client, rate)
        submitting, looking = asyncio.create_task(load.submit(stop)), asyncio.create_task(load.look(stop))
        await asyncio.to_thread(sys.stdin.read)
        stop.set()
        await asyncio.gather(submitting, looking)
        print(json.dumps(await load.report()))


if __name__ == "__main__":
    asyncio.run(main())
