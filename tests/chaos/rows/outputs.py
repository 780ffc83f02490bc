"""R16: the place for outputs takes nothing any more."""

from __future__ import annotations

from typing import Final

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function
from tests.chaos.scene import DEFAULT, Scene
from tests.chaos.server import fill, small_disk

DISK_MEGABYTES: Final = 4
PRINTED: Final = "a line that somebody will look for"


async def no_room_for_outputs(scene: Scene, size: Size) -> Knowledge:
    """The disk of the blobs is full: a job that prints must not be on record as a success without what it printed."""
    with small_disk(DISK_MEGABYTES) as folder:
        settings = {"TICKWISE_BLOBS_URL": folder.as_uri()}
        for kind in ("api", "scheduler", "executor"):
            player = scene.start(kind, **settings)
            scene.players.append(player)
            scene.clients.urls += [url for url in [await scene.ready(player)] if url]
        command = scene.witness.shell(f"echo {PRINTED}")
        body = {"schedule_type": "IMMEDIATE", "max_retries": 0, "task": {"kind": "shell", "command": command}}
        await scene.clients.submit_many("with room", [body] * size.jobs)
        await scene.calm()
        fill(folder / "ballast")
        scene.harmed("disk of outputs full", "the executor")
        await scene.clients.submit_many("without room", [body] * size.jobs)
        await scene.clients.submit_many("silent", [function(scene, "brief")] * size.jobs)
        await scene.calm(within_seconds=300)
        await _judge(scene, size)
        scene.fleet.stop()
    return Knowledge()


async def _judge(scene: Scene, size: Size) -> None:
    async with scene.session() as connection:
        rows = await connection.fetch(scene.sql["by_name"])
    states = {name: {row["state"] for row in rows if row["name"].startswith(name)} for name in ("with room", "silent")}
    if states != {"with room": {"SUCCESS"}, "silent": {"SUCCESS"}}:
        scene.complain(f"jobs that nothing was done to ended so: {states}")
    harmed = [row for row in rows if row["name"].startswith("without room")]
    scene.figures["outputs_lost"] = len(harmed)
    scene.figures["reasons"] = ", ".join(sorted({str(row["reason"]) for row in harmed}))
    good = [row for row in harmed if row["state"] == "SUCCESS"]
    if good or len(harmed) != size.jobs:
        scene.complain(f"{len(good)} of {len(harmed)} jobs are a success on record, and their output is lost")


ROWS: Final = (
    Row(
        name="R16",
        fault="the disk that outputs are stored on is full",
        invariant="no run is a success whose output is lost",
        play=no_room_for_outputs,
        short=Size(jobs=10),
        long=Size(jobs=300),
        pace=DEFAULT,
    ),
)
