"""Scripts of releases before each namespace had a folder: moved to those who stored them, and to nobody else."""

from __future__ import annotations

import hashlib
import json

import structlog

from tests.unit.roles.scheduler_rig import Rig
from tickwise.adapters.clock import VirtualClock
from tickwise.ports.blobs import SCRIPTS, script_key, shared_script_key
from tickwise.roles.scheduler.script_mover import KEPT_SECONDS, ScriptMover

SOURCE = b"print(1)"
DIGEST = hashlib.sha256(SOURCE).hexdigest()


async def stored(rig: Rig, namespace: str, digest: str = DIGEST) -> None:
    """A namespace has a task with this script."""
    text = json.dumps({"kind": "python", "file": f"sha256:{digest}"})
    await rig.store.tasks.put(rig.make.task(namespace=namespace, task=text))


async def keys(rig: Rig) -> set[str]:
    return {info.key for info in await rig.blobs.list(SCRIPTS)}


async def test_a_script_goes_to_each_namespace_that_has_stored_it() -> None:
    """And to no other; the old place is emptied when no executor of the release before needs it any more."""
    rig = Rig()
    for namespace in ("one", "two/three"):
        await stored(rig, namespace)
    await stored(rig, "another", "0" * 64)
    await rig.blobs.put(shared_script_key(DIGEST), SOURCE)
    written_at = (await rig.blobs.list(SCRIPTS))[0].written_at
    rig.clock = VirtualClock(written_at)
    mover = ScriptMover(rig.store.tasks, rig.blobs, rig.clock)
    wanted = {script_key("one", DIGEST), script_key("two/three", DIGEST)}
    for _ in range(2):
        await mover.step()
        assert wanted | {shared_script_key(DIGEST)} == await keys(rig)
    await rig.clock.advance(KEPT_SECONDS + 1.0)
    await mover.step()
    assert wanted == await keys(rig)
    assert SOURCE == await rig.blobs.get(script_key("one", DIGEST))


async def test_a_script_that_was_changed_is_moved_nowhere() -> None:
    """It is said, and stays for a person to look at."""
    rig = Rig()
    await stored(rig, "one")
    await rig.blobs.put(shared_script_key(DIGEST), b"print(2)")
    with structlog.testing.capture_logs() as logs:
        await ScriptMover(rig.store.tasks, rig.blobs, rig.clock).step()
    assert {shared_script_key(DIGEST)} == await keys(rig)
    assert [("script_changed", DIGEST)] == [(line["event"], line["digest"]) for line in logs]
