"""`make test-compose STORE=cassandra`: the compose files with Cassandra and two keepers, run for real and harmed.

images from packages ─► secrets.sh, up with four shards ─► a job through nginx ─► `db status`, `shards`, `doctor` agree
    ─► under load: a keeper is stopped, started again, killed, started again ─► the node is stopped and started again
    ─► all is stopped and started again: each job and run is still there ─► an upgrade under load ─► down

In place of the official image stands one of Maven's jars, with cqlsh of PyPI: what that image does beside its entry
point and its settings as shipped is not seen here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any, Final

from tests.deploy.tools import NotHere
from tests.deploy.whole import images
from tests.deploy.whole.compose import (
    GATEWAY,
    Stack,
    down,
    job,
    lasting,
    loaded,
    reported,
    sandbox,
    say,
    up,
    upgrade,
    watched,
    whole,
)
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock

CLOCK: Final = SystemClock()
FILES: Final = ("compose.yaml", "cassandra.yaml")
SHARDS: Final = 4
GIVEN: Final = {"STORE": "cassandra", "SHARDS": str(SHARDS)}
NAMESPACES: Final = tuple(f"team-{number}" for number in range(8))
VOLUMES: Final = frozenset({"tickwise_cassandra", "tickwise_blobs", "tickwise_kafka"})
NOTHING: Final = "tickwise-nothing"
START_SECONDS: Final = 300.0
NODE_AWAY_SECONDS: Final = 15.0
"""For so long the node is away under load: more than a lease, and than the patience of a call."""


async def main() -> None:
    """All of it. Raises AssertionError with what went wrong, or `NotHere`."""
    async with whole(images.ON_CASSANDRA, FILES, GIVEN) as stack:
        for step in (
            up, job, sandbox, partial(watched, least=15), shards, keepers_end, node_ends, all_end, upgrade,
            partial(down, volumes=VOLUMES),
        ):  # fmt: skip
            say(f"good  {await step(stack)}")


def keepers(stack: Stack) -> list[str]:
    """The containers of the keepers that run."""
    return stack.compose("ps", "--quiet", "keeper").split()


def inside(stack: Stack, container: str, *words: str) -> Any:
    """The JSON that a command says in a container of the stack, with its settings and secrets."""
    return json.loads(stack.here("docker", "exec", container, "tickwise", *words, "--json"))


def holdings(stack: Stack) -> list[tuple[int, str, int, str]]:
    """Number, keeper, epoch and lease of each shard, as `db status` says them."""
    told = inside(stack, keepers(stack)[0], "db", "status")["shards"]
    return [(each["shard"], each["address"], each["epoch"], each["lease"]) for each in told]


async def even(stack: Stack, owners: int, what: str) -> list[tuple[int, str, int, str]]:
    """Wait until so many keepers share all shards evenly. A failure has what was seen last, and the last lines of
    keepers and node."""
    seen: list[str] = []

    def shared() -> list[tuple[int, str, int, str]] | None:
        try:
            found = holdings(stack)
        except AssertionError as failure:  # Cassandra, or that container, is on its way
            seen[:] = [str(failure)[-500:]]
            return None
        seen[:] = [repr(found)]
        shares = [sum(each[1] == address for each in found) for address in {each[1] for each in found}]
        is_even = len(shares) == owners and max(shares) - min(shares) <= 1
        return found if is_even and {"valid"} == {each[3] for each in found} else None

    try:
        return await eventually(shared, within_seconds=120, what=what)
    except AssertionError as failure:
        names = stack.compose("ps", "--all", "--quiet", "keeper", "cassandra").split()
        logs = [stack.here("docker", "logs", "--tail", "15", name) for name in names]
        raise AssertionError("\n".join([str(failure), *seen, *logs])) from failure


async def shards(stack: Stack) -> str:
    """Four shards, two keepers, and three commands that say the same of them; namespaces in several shards."""
    for name in NAMESPACES:
        await asyncio.to_thread(stack.tickwise, "namespaces", "add", name)
    await even(stack, 2, "two keepers share four shards")
    # Several looks, while shards may move.
    await eventually(partial(_agree, stack), within_seconds=60, what="`db status`, `shards list` and `doctor` agree")
    return f"shards: {SHARDS} on two keepers, `db status`, `shards list` and `doctor` agree"


def _agree(stack: Stack) -> bool:
    found = holdings(stack)
    listed = inside(stack, keepers(stack)[0], "shards", "list")["shards"]
    told = [(each["shard"], each["address"], each["epoch"], each["lease"]) for each in listed]
    assert 1 + len(NAMESPACES) == sum(each["namespaces"] for each in listed), listed
    doctor = inside(stack, keepers(stack)[0], "doctor")
    lines = [each["detail"] for each in doctor if each["name"] == "keepers"]
    served = [f"shard {number} is served at {address}, epoch {epoch}" for number, address, epoch, _ in found]
    return (found, served) == (told, lines)


async def keepers_end(stack: Stack) -> str:
    """One told to end, one killed, each started again: no job is lost or doubled, and nobody is refused."""
    first, second = keepers(stack)
    with loaded(stack) as load:
        await asyncio.to_thread(stack.here, "docker", "stop", first)
        await even(stack, 1, "the other keeper has all shards")
        await asyncio.to_thread(stack.here, "docker", "start", first)
        await even(stack, 2, "the keeper that is back has its share")
        await asyncio.to_thread(stack.here, "docker", "kill", second)
        await even(stack, 1, "the shards of the killed one are taken over")
        await asyncio.to_thread(stack.here, "docker", "start", second)
        await even(stack, 2, "shares are even again")
        report = await reported(load)
    assert [[], [], []] == [report["failed"], report["lost"], report["doubled"]], report
    return f"keepers: one stopped, one killed; {report['accepted']} jobs meanwhile, none lost or doubled, none refused"


async def node_ends(stack: Stack) -> str:
    """Meanwhile callers are told 503, and nothing else; what was accepted runs once the node is back. It comes back at
    another address, as a container may: a container of nothing has its former one."""
    (node,) = stack.compose("ps", "--quiet", "cassandra").split()
    before = _address(stack, node)
    with loaded(stack) as load:
        await asyncio.to_thread(stack.here, "docker", "stop", "--time", "60", node)
        nothing = ("run", "--detach", "--name", NOTHING, "--network", "tickwise_data", "--entrypoint", "sleep")
        await asyncio.to_thread(stack.here, "docker", *nothing, images.image_of("redis"), "3600")
        await asyncio.to_thread(stack.here, "sleep", f"{NODE_AWAY_SECONDS:.0f}")
        await asyncio.to_thread(stack.here, "docker", "start", node)
        # Its own start takes a minute or more on a busy machine, and is not what is judged.
        await eventually(partial(_is_healthy, stack, node), within_seconds=START_SECONDS, what="the node answers again")
        healthy_at = CLOCK.monotonic()
        found = await even(stack, 2, "the keepers have their shards again")
        owned_seconds = CLOCK.monotonic() - healthy_at
        await eventually(
            lambda: stack.ask(f"{GATEWAY}/healthz")["status"] == "ok", within_seconds=60, what="the API is well again"
        )
        report = await reported(load)
    refused = [each for each in report["failed"] if ": 503" not in each]
    assert [[], [], []] == [refused, report["lost"], report["doubled"]], report
    after = _address(stack, node)
    assert before != after, "the node has its former address"
    stack.here("docker", "rm", "--force", NOTHING)
    return (
        f"the node: stopped and started ({before}, then {after}), {len(found)} shards served again "
        f"within {owned_seconds:.0f} s of its first answer; "
        f"{report['accepted']} jobs meanwhile, none lost or doubled, {len(report['failed'])} requests were told 503"
    )


async def all_end(stack: Stack) -> str:
    """What was there before everything was stopped is there afterwards, and a job runs."""
    before = _known(stack)
    await asyncio.to_thread(stack.compose, "down", seconds=240)
    command = ("up", "--detach", "--wait", *lasting(stack))
    await asyncio.to_thread(stack.compose, *command, seconds=START_SECONDS)
    after = _known(stack)
    assert before == after, f"{len(before)} jobs before, {len(after)} after"
    await job(stack)
    return f"all stopped and started again: {len(after)} jobs with their runs are there, and a new one runs"


def _known(stack: Stack) -> dict[str, list[str]]:
    """The jobs, each with the states of its runs."""
    jobs = json.loads(stack.tickwise("jobs", "list", "--all", "--json", seconds=300))
    runs = json.loads(stack.tickwise("runs", "list", "--limit", "5000", "--json", seconds=300))
    found: dict[str, list[str]] = {each["job_id"]: [] for each in jobs}
    for each in runs:
        found.setdefault(each["job_id"], []).append(each["status"])
    return found


def _is_healthy(stack: Stack, container: str) -> bool:
    return "healthy" == stack.here("docker", "inspect", "--format", "{{.State.Health.Status}}", container).strip()


def _address(stack: Stack, container: str) -> str:
    told = stack.here(
        "docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container
    )
    return told.strip()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except NotHere as reason:
        sys.exit(f"not checked: {reason}")
    except AssertionError as failure:
        sys.exit(f"bad   {failure}")
