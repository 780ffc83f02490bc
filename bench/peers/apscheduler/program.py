"""APScheduler 3 around no-op jobs: scheduler, jobs and threads live in one process, which this is.

    dates COUNT AHEAD STEP              COUNT jobs of a date each, AHEAD seconds from now and STEP milliseconds apart
    intervals COUNT AHEAD PERIOD TIMES  COUNT jobs that fire TIMES times each, every PERIOD seconds, spread over it

It says `ready` when all jobs are added and `handled` with how many occurrences were run or given up; when its input
ends, it writes the record to the file PEER_RECORD. An occurrence's number is the job's times TIMES, plus which of the
job's occurrences it is. Jobs are in memory, or with PEER_DATABASE_URL in PostgreSQL.

Best: a run is never given up for being late (`misfire_grace_time`, by default 1 s), and twice the threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import speak
from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

BEST = {
    "apscheduler.executors.default": {"type": "threadpool", "max_workers": "20"},
    "apscheduler.job_defaults.misfire_grace_time": None,
    "apscheduler.job_defaults.max_instances": "3",
}


def noop() -> float:
    """The job; says when it began."""
    return time.time()


class Occurrences:
    """What became of each occurrence."""

    def __init__(self, begin: float, step: float, period: float, times: int) -> None:
        self.record = speak.Record()
        self.given_up = 0
        self._begin, self._step, self._period, self._times = begin, step, period, times

    def settled(self) -> int:
        """Run or given up."""
        return len(self.record.ids) + self.given_up

    def heard(self, event: JobExecutionEvent) -> None:
        """The scheduler's word about one of them."""
        if event.code != EVENT_JOB_EXECUTED:
            self.given_up += 1
            return
        number, due = int(event.job_id), event.scheduled_run_time.timestamp()
        first = self._begin + number * self._step
        occurrence = round((due - first) / self._period) if self._period else 0
        self.record.first = self.record.first or event.retval
        self.record.late_ms.append((event.retval - due) * 1000)
        self.record.ids.append(number * self._times + occurrence)


def scheduler() -> BackgroundScheduler:
    """As set."""
    made = BackgroundScheduler(BEST if speak.BEST else {}, timezone=UTC)
    if url := os.environ.get("PEER_DATABASE_URL"):
        made.add_jobstore(SQLAlchemyJobStore(url.replace("postgresql://", "postgresql+psycopg://", 1)))
    return made


async def main(what: str, count: int, ahead: float, *rest: float) -> None:
    """Add them, and wait to be told to end."""
    its, ended = scheduler(), asyncio.Event()
    begin = time.time() + ahead
    step, period, times = (rest[0] / 1000, 0.0, 1) if what == "dates" else (rest[0] / count, rest[0], int(rest[1]))
    seen = Occurrences(begin, step, period, times)
    its.add_listener(seen.heard, EVENT_JOB_EXECUTED | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
    its.start()
    for number in range(count):
        first = datetime.fromtimestamp(begin + number * step, UTC)
        if what == "dates":
            trigger = DateTrigger(first)
        else:
            # Between the last one and the next, so that rounding neither takes nor adds one.
            last = first + timedelta(seconds=period * (times - 0.5))
            trigger = IntervalTrigger(seconds=int(period), start_date=first, end_date=last)
        its.add_job(noop, trigger, id=str(number))
    if time.time() > begin:
        sys.exit(f"adding {count} jobs took longer than {ahead} s")
    speak.report(seen.settled)
    loop = asyncio.get_running_loop()
    speak.when_told_to_end(lambda: loop.call_soon_threadsafe(ended.set))
    speak.say("ready")
    await ended.wait()
    its.shutdown()
    told = {"ids": seen.record.ids.tolist(), "late_ms": seen.record.late_ms.tolist(), "given_up": seen.given_up}
    Path(os.environ["PEER_RECORD"]).write_text(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:])))
