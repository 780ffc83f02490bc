"""The findings of `tickwise doctor` about a bucket: which requests of the roles it takes, and the cure.

A probe is written, listed, read back and deleted below `logs/`, so that a right that is missing shows here and not in a
run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.blobs.s3.address import read_address
from tickwise.adapters.blobs.s3.bucket import S3Blobs
from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import NotFound, TickwiseError
from tickwise.wiring.findings import DoctorFinding
from tickwise.wiring.storage.lifecycle import lifecycle_rule
from tickwise.wiring.storage.opening import access_of

_Result = TypeVar("_Result")
PROBE: Final = "logs/0000000/doctor/1/probe"
LOOK_SECONDS: Final = 20.0
SKEW_SECONDS: Final = 60.0


async def bucket_findings(settings: Settings, url: str) -> AsyncIterator[DoctorFinding]:
    """One finding of the bucket; if it is good, its lifecycle rule to paste; and one of what waits on the disk of this
    machine, if anything does."""
    found = await _bucket(settings, url)
    yield found
    if found.level == "ok":
        rule = lifecycle_rule(settings, read_address(url).prefix)
        yield DoctorFinding("lifecycle", "ok", f"the rule of the bucket that is the second wall, to paste: {rule}")
    root = settings.data_dir / "spool"
    waiting = [path.stat().st_size for path in root.glob("*/*!*")] if root.is_dir() else []
    if waiting:
        yield DoctorFinding(
            "output", "warning", f"{len(waiting)} parts of output, {sum(waiting)} bytes, wait in {root} for the bucket",
            "an executor on this data folder delivers them; start one if none runs",
        )  # fmt: skip


async def _bucket(settings: Settings, url: str) -> DoctorFinding:
    try:
        blobs = open_blobs(url, access_of(settings))
        assert isinstance(blobs, S3Blobs), "the address is that of a bucket"
        async with asyncio.timeout(LOOK_SECONDS):
            return await _probed(blobs, url)
    except TickwiseError as failure:
        return DoctorFinding("blobs", "error", failure.detail, "docs/how-to/output-in-s3.md")
    except TimeoutError:
        return DoctorFinding(
            "blobs", "error", f"the bucket did not answer within {LOOK_SECONDS:.0f} s",
            "check the endpoint of TICKWISE_BLOBS_URL, and the way to it",
        )  # fmt: skip


async def _probed(blobs: S3Blobs, url: str) -> DoctorFinding:
    clock = SystemClock()
    content = f"{clock.now()}".encode()
    await _may("list", lambda: blobs.folders("logs/"))
    await _may("write", lambda: blobs.put(PROBE, content))
    try:
        if await _may("read", lambda: blobs.get(PROBE)) != content:
            return DoctorFinding(
                "blobs", "error", f"{blobs.address.where} gave back other bytes than were written",
                "something between here and the bucket changes or caches answers: take it out",
            )  # fmt: skip
        listed = [info for info in await blobs.list("logs/0000000/doctor/") if info.key == PROBE]
    finally:
        await _may("delete", lambda: blobs.delete([PROBE]))
    if not listed:
        return DoctorFinding(
            "blobs", "error", f"{blobs.address.where} does not list what was just written",
            "Tickwise needs listings that are current at once, as those of S3 are: take another store",
        )  # fmt: skip
    try:
        await blobs.get(PROBE)
    except NotFound:
        pass
    else:
        return DoctorFinding(
            "blobs", "warning", f"{blobs.address.where} still gives what was deleted", "look at caches before it"
        )
    skew = listed[0].written_at - clock.now()
    if abs(skew) > SKEW_SECONDS:
        return DoctorFinding(
            "blobs", "warning", f"the clock of {blobs.address.where} is {skew:+.0f} s off this machine's",
            "run an NTP client on both: S3 refuses requests at 15 min, and retention goes by its clock",
        )  # fmt: skip
    return DoctorFinding("blobs", "ok", f"{url}: lists, takes, gives and deletes")


async def _may(what: str, call: Callable[[], Awaitable[_Result]]) -> _Result:
    """Carry one step out. Raises the step's error with its name."""
    try:
        return await call()
    except NotFound as missing:
        raise TickwiseError(f"this process may not {what}: {missing.detail}") from None
    except TickwiseError as failure:
        raise TickwiseError(f"this process cannot {what}: {failure.detail}") from None
