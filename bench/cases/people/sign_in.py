"""LOGIN: a flood of wrong passwords, and the requests of others meanwhile.

200 sign-ins a second for a minute, over a thousand names (some of them real) and as many addresses as there are
sign-ins, at one API process behind a proxy. Beside it a key submits and lists, twenty requests a second: their 99th
percentile is the value, and without the flood it is the limit. Two people sign in with the right password, whose names
are among those that are tried: one from where it has signed in before, one from a new address each time, who comes
again when it is told to. The memory is that of the API process, from before the first sign-in to its most.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bench.harness import KEY, Case, Check, Failed, Rig, Round
from bench.ports import free_port, until_open
from bench.usage import resident_megabytes

SECONDS: Final = 60.0
QUIET_SECONDS: Final = 20.0
SIGN_INS: Final = 200
"""A second."""
OTHERS: Final = 20
"""A second, of one key."""
NAMES: Final = 1_000
PEOPLE: Final = ("ada", "grace", "joan", "radia", "frances")
PASSWORD: Final = "four quiet herons wade"
HOME: Final = "198.51.100.7"
"""The address from which the first person signs in before the flood."""
TRIES_SECONDS: Final = 2.0
MAX_CONNECTIONS: Final = 100
TOKEN: Final = "/api/v1/auth/token"
JOB: Final = {"name": "beside", "schedule_type": "ON_DEMAND", "task": {"kind": "shell", "command": "true"}}


class Answer(NamedTuple):
    """An answer, and the time that it took."""

    status: int
    ms: float
    retry_seconds: float
    body: bytes


class Connections:
    """Kept open, one request at a time on each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request; its time counts from now, whatever it waits for."""
        begun = perf_counter()
        async with self._places:
            reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
            text = b"" if body is None else json.dumps(body).encode()
            lines = [f"{method} {path} HTTP/1.1", "Host: bench", f"Content-Length: {len(text)}"]
            lines += ["Content-Type: application/json"] if text else []
            lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + text)
            head, _, _ = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n\r\n")
            status, *rest = head.decode("latin-1").split("\r\n")
            found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
            answer = await reader.readexactly(int(found.get("content-length", "0")))
            if found.get("connection") == "close":
                writer.close()
            else:
                self._idle.append((reader, writer))
        ms = (perf_counter() - begun) * 1000
        return Answer(int(status.split()[1]), ms, float(found.get("retry-after", "0")), answer)

    async def sign_in(self, name: str, password: str, address: str) -> Answer:
        """Of this person, from this address."""
        body = {"grant_type": "password", "username": name, "password": password}
        return await self.ask("POST", TOKEN, body, X_Forwarded_For=address)

    def close(self) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.close()


@dataclass
class Seen:
    """All that was seen meanwhile."""

    others_ms: list[float] = field(default_factory=list)
    flood: Counter[int] = field(default_factory=Counter)
    known_ms: list[float] = field(default_factory=list)
    stranger_seconds: list[float] = field(default_factory=list)
    """From the first try to the one that was taken."""
    stranger_tries: int = 0
    megabytes: float = 0.0


@asynccontextmanager
async def served(rig: Rig) -> AsyncIterator[tuple[Connections, int]]:
    """An API process with its people, and its process id."""
    await rig.fresh()
    token_key = rig.folder / "token-key.pem"
    private = Ed25519PrivateKey.generate()
    token_key.touch(mode=0o600)
    token_key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    port = free_port()
    settings = {"token_key_file": token_key, "trusted_proxies": "127.0.0.1"}
    async with rig.role("api", "--port", str(port), **settings) as api:
        await until_open(port)
        connections = Connections(port)
        yield connections, api.pid
        connections.close()


async def add_people(connections: Connections) -> None:
    """Raises Failed."""
    for name in PEOPLE:
        body = {"name": name, "password": PASSWORD, "roles": [{"role": "viewer", "namespace": "default"}]}
        added = await connections.ask("POST", "/api/v1/users", body, Authorization=f"Bearer {KEY}")
        if added.status != 201:
            raise Failed(f"{name} is not added: {added.body[:300]!r}")


async def paced(rate: float, until: float, send: Callable[[int], Awaitable[None]]) -> None:
    """Send so many a second, each at its time, whether or not those before are answered."""
    begun = perf_counter()
    async with asyncio.TaskGroup() as sent:
        for number in itertools.count():
            at = begun + number / rate
            if at >= until:
                break
            await asyncio.sleep(max(0.0, at - perf_counter()))
            sent.create_task(send(number))


async def others(connections: Connections, until: float, seen: Seen) -> None:
    """A key submits and lists."""

    async def send(number: int) -> None:
        key = f"Bearer {KEY}"
        if number % 2:
            answer = await connections.ask("POST", "/api/v1/jobs", JOB, Authorization=key)
        else:
            answer = await connections.ask("GET", "/api/v1/jobs?limit=20", Authorization=key)
        if answer.status not in (200, 201):
            raise Failed(f"another request has the answer {answer.status}: {answer.body[:300]!r}")
        seen.others_ms.append(answer.ms)

    await paced(OTHERS, until, send)


async def flood(connections: Connections, until: float, seen: Seen) -> None:
    """Wrong passwords, each from an address of its own."""
    dice = random.Random(7)
    names = [*PEOPLE, *(f"person-{number}" for number in range(NAMES - len(PEOPLE)))]

    async def send(number: int) -> None:
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        answer = await connections.sign_in(dice.choice(names), f"a wrong password {number}", address)
        seen.flood[answer.status] += 1

    await paced(SIGN_INS, until, send)


async def known(connections: Connections, until: float, seen: Seen) -> None:
    """A person signs in from where it has signed in before, again and again. Raises Failed if it is refused."""
    while perf_counter() < until:
        answer = await connections.sign_in(PEOPLE[0], PASSWORD, HOME)
        if answer.status != 200:
            raise Failed(f"a person who is known there is refused: {answer.status} {answer.body[:300]!r}")
        seen.known_ms.append(answer.ms)
        await asyncio.sleep(TRIES_SECONDS)


async def stranger(connections: Connections, until: float, seen: Seen) -> None:
    """A person signs in from new addresses, and comes again as it is told until it is in."""
    for number in itertools.count():
        begun = perf_counter()
        if begun >= until:
            return
        while (answer := await connections.sign_in(PEOPLE[1], PASSWORD, f"203.0.113.{number % 250 + 1}")).status != 200:
            if answer.status != 429:
                raise Failed(f"the right password is refused: {answer.status} {answer.body[:300]!r}")
            seen.stranger_tries += 1
            if perf_counter() >= until:
                return
            await asyncio.sleep(answer.retry_seconds)
        seen.stranger_tries += 1
        seen.stranger_seconds.append(perf_counter() - begun)
        await asyncio.sleep(TRIES_SECONDS)


async def watch(pid: int, until: float, seen: Seen) -> None:
    """The most memory."""
    while perf_counter() < until:
        seen.megabytes = max(seen.megabytes, resident_megabytes(pid))
        await asyncio.sleep(0.25)


async def product(rig: Rig) -> Round:
    """The requests of others, during the flood."""
    seen = Seen()
    async with served(rig) as (connections, pid):
        await others(connections, perf_counter() + 2.0, Seen())
        before = resident_megabytes(pid)
        await add_people(connections)
        if (await connections.sign_in(PEOPLE[0], PASSWORD, HOME)).status != 200:
            raise Failed("nobody can sign in")
        until = perf_counter() + SECONDS
        async with asyncio.TaskGroup() as side:
            for part in (others, flood, known, stranger):
                side.create_task(part(connections, until, seen))
            side.create_task(watch(pid, until, seen))
    strange = set(seen.flood) - {401, 429}
    if strange:
        raise Failed(f"sign-ins were answered with {sorted(strange)}")
    if not seen.stranger_seconds:
        raise Failed("a person with the right password did not get in from a new address")
    return Round(
        _p99(seen.others_ms),
        {
            "others_p50_ms": round(statistics.median(seen.others_ms), 1),
            "others": len(seen.others_ms),
            "sign_ins_a_second": round(seen.flood.total() / SECONDS),
            "passwords_checked": seen.flood[401],
            "told_to_come_again": seen.flood[429],
            "memory_grows_mb": round(seen.megabytes - before, 1),
            "known_signed_in": len(seen.known_ms),
            "known_worst_ms": round(max(seen.known_ms), 1),
            "stranger_signed_in": len(seen.stranger_seconds),
            "stranger_tries": seen.stranger_tries,
            "stranger_worst_seconds": round(max(seen.stranger_seconds), 1),
        },
    )


async def quiet(rig: Rig) -> Round:
    """The limit: the same requests, and nobody signs in."""
    seen = Seen()
    async with served(rig) as (connections, _):
        await others(connections, perf_counter() + 2.0, Seen())
        await others(connections, perf_counter() + QUIET_SECONDS, seen)
    return Round(_p99(seen.others_ms))


def _p99(milliseconds: list[float]) -> float:
    return round(statistics.quantiles(milliseconds, n=100)[98], 2)


CASE = Case(
    "LOGIN",
    "ms p99 of others",
    500.0,
    False,
    product,
    quiet,
    "the same without the flood",
    checks=(
        Check("sign-ins a second", "sign_ins_a_second", 0.95 * SIGN_INS, True),
        Check("MB that the API process grows by", "memory_grows_mb", 300.0),
        Check("a known person's sign-ins", "known_signed_in", 20.0, True),
        Check("a person's sign-ins from new addresses", "stranger_signed_in", 1.0, True),
    ),
)
