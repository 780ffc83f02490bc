"""Secrets of tasks: MASK, how fast outputs are masked; SECRETS, what three secrets add to a start.

MASK needs no server: three secrets (a token, a password with signs, a private key of 28 lines), and outputs of 64 KiB a
piece, as a pipe gives them: log lines, with a secret in every thousandth. Beside it one `re` alternation of the same
forms. SECRETS takes scripts that are due at a time, in turn with and without three secrets of our own store, on a
system that is not loaded, from the due time to the first statement. The question to the store is asked before that.
"""

from __future__ import annotations

import base64
import json
import random
import re
from statistics import median
from time import process_time
from typing import Any, Final

from bench.cases.tasks.processes import TELLS, WARM_UP
from bench.harness import SQL, Case, Check, Rig, Round
from bench.work import jobs, store
from tickwise.config import Settings
from tickwise.domain.model import Lane
from tickwise.domain.rules.confinement import Confinement, Isolation, needed_labels
from tickwise.domain.secrets.output_masking import MASK, MaskedStream, ValueForms, forms_of
from tickwise.ports.store.secrets import NewSecret, SecretPlace, secret_context
from tickwise.wiring.secret_keys.secrets_key import make_sealer

PIECE: Final = 64 << 10
OUTPUT_BYTES: Final = 64 << 20
PACED: Final = 150
PACE_SECONDS: Final = 0.05
_random: Final = random.Random(20)  # the same output in each round


def secrets() -> dict[str, bytes]:
    """By name."""
    key = base64.encodebytes(_random.randbytes(1_600)).decode().replace("\n", "")
    lines = "\n".join(key[place : place + 64] for place in range(0, len(key), 64))
    return {
        "token": b"ghp_" + _random.randbytes(18).hex().encode(),
        "password": b'p4ss"word/with+signs&%',
        "key": f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n".encode(),
    }


def output(values: dict[str, bytes]) -> list[bytes]:
    """Pieces of a log."""
    words = [
        "worker",
        "finished",
        "request",
        "order",
        "shipped",
        "customer",
        "4711",
        "retry",
        "after",
        "timeout",
        "GET",
        "/api/v1/orders",
        "200",
        "INFO",
    ]
    lines = []
    for number in range(PIECE * 4 // 90):
        text = " ".join(_random.choices(words, k=9))
        said = f" token={values['token'].decode()}" if number % 1_000 == 500 else ""
        lines.append(f"2026-11-27T02:30:{number % 60:02}.{number % 1000:03}Z [{number % 8}] {text}{said}\n")
    content = "".join(lines).encode()
    return [content[place : place + PIECE] for place in range(0, len(content), PIECE)]


async def masking(_: Rig) -> Round:
    """Megabytes of output a second."""
    values = secrets()
    pieces = output(values)
    base = [base64.b64encode(_random.randbytes(PIECE * 3 // 4)) for _ in range(4)]
    begin = process_time()
    forms = ValueForms(values.values())
    MaskedStream(forms).feed(b"first\n")
    made = process_time() - begin
    more = {
        "to make ready in ms": round(made * 1_000, 3),
        "base64 MB/s": round(_speed(forms, base), 1),
        "random bytes MB/s": round(_speed(forms, [_random.randbytes(PIECE) for _ in range(4)]), 1),
        "lines of 100 bytes MB/s": round(_speed(forms, [piece[:100] + b"\n" for piece in pieces], 4 << 20), 1),
    }
    return Round(_speed(forms, pieces), more)


def _speed(forms: ValueForms, pieces: list[bytes], most: int = OUTPUT_BYTES) -> float:
    stream, done = MaskedStream(forms), 0
    begin = process_time()
    while done < most:
        for piece in pieces:
            stream.feed(piece)
            done += len(piece)
    return done / (process_time() - begin) / 1e6


async def alternation(_: Rig) -> Round:
    """The same forms as one pattern of `re`, without the care for borders."""
    values = secrets()
    pieces = output(values)
    forms = sorted({form for value in values.values() for form in forms_of(value)}, key=len, reverse=True)
    pattern = re.compile(b"|".join(map(re.escape, forms)))
    done, begin = 0, process_time()
    while done < OUTPUT_BYTES // 8:
        for piece in pieces:
            pattern.sub(MASK, piece)
            done += len(piece)
    return Round(done / (process_time() - begin) / 1e6)


async def starting(rig: Rig) -> Round:
    """Milliseconds that three secrets add to the start of a script, at the median."""
    await rig.reset()
    key = base64.b64encode(_random.randbytes(32)).decode()
    settings = {"data_dir": f"{rig.folder}/secrets", "secrets_key": key}
    named = {f"S_{name.upper()}": f"secret:{name}" for name in secrets()}
    count = 2 * (WARM_UP + PACED)
    async with rig.role("scheduler", **settings), rig.role("executor", **settings), store(rig) as opened:
        await rig.until_executors(1)
        sealer = make_sealer(Settings(secrets_key=(key,)), rig.clock)
        for name, value in secrets().items():
            place = SecretPlace("default", name)
            sealed = await sealer.seal_parts(value, secret_context(place, 1))
            await opened.secrets.put(NewSecret(namespace="default", name=name, version=1, sealed=sealed, by="bench"))
        begin = rig.clock.now() + 5.0
        made = [_job(rig, named if number % 2 else {}, begin + PACE_SECONDS * number) for number in range(count)]
        await opened.jobs.add(made)
        await rig.until_ended(count, 120)
    connection = await rig.connect()
    rows = await connection.fetch(SQL["results"])
    await connection.close()
    taken: dict[bool, list[float]] = {True: [], False: []}
    for turn, row in enumerate(sorted(rows, key=lambda row: row["due"])[2 * WARM_UP :]):
        taken[bool(turn % 2)].append(1_000 * (float(row["result"]) - row["due"]))
    plain, secret = median(taken[False]), median(taken[True])
    return Round(secret - plain, {"without, p50 in ms": round(plain, 3), "with, p50 in ms": round(secret, 3)})


def _job(rig: Rig, env: dict[str, str], due: float) -> Any:
    task = {"kind": "python", "source": TELLS, "env": env}
    definition = json.dumps({"schedule_type": "FUTURE", "task": task, "payload": {}, "isolation": Isolation.PROCESS})
    lane = Lane(requires=tuple(sorted(("task:python", *needed_labels(Confinement(Isolation.PROCESS))))))
    (made,) = jobs(rig, 1, due=[due], definitions=[definition])
    return made._replace(task_kind="python", lane=lane)


async def nothing(_: Rig) -> Round:
    """Three values that are already in the memory add nothing."""
    return Round(0.001)


CASES: Final = (
    Case(
        "MASK",
        "MB/s of output",
        200.0,
        True,
        masking,
        alternation,
        "one alternation of `re`",
        checks=(Check("ms to make three secrets ready", "to make ready in ms", 1.0),),
    ),
    Case("SECRETS", "ms more at a start", 1.0, False, starting, nothing, "values in memory"),
)
