"""The parts of the book, measured: rounds of the product and of what stands beside it, in turn."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from bench.costs import features as leaving_out
from bench.costs import whole as entire
from bench.costs.limits import limit_round, wide_round
from bench.costs.meter import Meter, Reading, Statement, Usage
from bench.costs.spending import OWN, Cost, cost_of, rows_text
from bench.costs.stages import STAGES, Stage, product_round
from bench.harness import KEY, SQL, Failed, Rig
from bench.load import wrk
from bench.ports import free_port, until_open
from tickwise.adapters.store.postgres.statements import statement

ROUNDS = 3
CLIENTS = 96
API_SECONDS = 4

BENCHMARKS = frozenset({*SQL, *OWN} - {*statement.texts})
"""Statements of the benchmark and of the meter, which are no part of the product."""

Figures = dict[str, Any]


def _say(*words: object) -> None:
    print(*words, flush=True)


# ------------------------------------------------------------------ T1 and T2 as they are


async def _whole(rig: Rig, meter: Meter, case: Callable[[Rig, Meter], Awaitable[entire.Whole]]) -> Figures:
    """A case with every role as a process."""
    rounds = []
    for _ in range(ROUNDS):
        done = await case(rig, meter)
        rounds.append(_of_whole(done))
        _say(done.name, round(done.runs / done.seconds), "runs/s")
    return {"rounds": rounds}


async def _functions(rig: Rig, meter: Meter) -> Figures:
    """T2 once more, its executor watched."""
    cpu, shares = await entire.functions(rig, meter)
    return {"shares": shares, "cpu": cpu}


def _of_whole(done: entire.Whole) -> Figures:
    """Per run: microseconds of CPU and bytes of log by process, and what each statement cost."""
    used, runs = done.used, done.runs
    return {
        "rate": runs / done.seconds,
        "wal": used.wal / runs,
        **{kind: _each_run(getattr(used, kind), runs) for kind in ("programs", "sessions", "background")},
        "statements": {
            name: _of_statement(one, runs)
            for name, one in used.statements.items()
            if one.calls and name not in BENCHMARKS
        },
        "rows": done.rows,
    }


def _of_statement(one: Statement, runs: int) -> Figures:
    return {
        "runs_a_call": runs / one.calls,
        "rows": one.rows / runs,
        "microseconds": one.microseconds / runs,
        "wal": one.wal / runs,
        "hits": one.hits / runs,
        "reads": one.reads / runs,
        "dirtied": one.dirtied / runs,
    }


def _each_run(used: Mapping[str, Usage], runs: int) -> Figures:
    return {name: [one.cpu * 1e6 / runs, one.wal / runs] for name, one in used.items()}


# ------------------------------------------------------------------ stage by stage


async def _stage(rig: Rig, meter: Meter, stage: Stage) -> Figures:
    """A stage beside its limit."""
    figures: Figures = {"product": [], "limit": []}
    for _ in range(ROUNDS):
        limit = await limit_round(rig, meter, stage.limit)
        done = await product_round(rig, meter, stage)
        figures["limit"].append(asdict(limit))
        figures["product"].append(asdict(done.cost))
        figures["rows"] = rows_text(done.rows, done.runs)
        _say(stage.name, done.cost, "limit", limit)
    return figures


# ------------------------------------------------------------------ one request, one job


async def _api(rig: Rig, meter: Meter) -> Figures:
    """Future jobs through one API process, one a request, beside a route that does nothing."""
    if not shutil.which("wrk"):
        raise Failed("the cost of a request needs wrk: another client would take most of the cores (apt install wrk)")
    figures: Figures = {"product": [], "limit": []}
    for _ in range(ROUNDS):
        port = free_port()
        async with rig.program(
            "-m", "uvicorn", "bench.hello:app", "--port", str(port), "--log-level", "warning"
        ) as process:
            limit = await _requests(meter, port, "/", process.pid)
        await rig.reset()
        port = free_port()
        async with rig.role("api", "--port", str(port)) as process:
            product = await _requests(meter, port, "/api/v1/jobs", process.pid)
        figures["limit"].append(asdict(limit))
        figures["product"].append(asdict(product))
        _say("api", product, "limit", limit)
    return figures


async def _requests(meter: Meter, port: int, path: str, pid: int) -> Cost:
    """What one request costs, of many that come at once over many connections."""
    await until_open(port)
    await wrk([port], path, key=KEY, connections=CLIENTS, seconds=1)
    meter.programs = {"api": pid}
    await meter.reset()
    before = await meter.read()
    posted = await wrk([port], path, key=KEY, connections=CLIENTS, seconds=API_SECONDS)
    used: Reading = (await meter.read()).since(before)
    if posted.bad or posted.broken:
        raise Failed(f"{posted.bad} unexpected answers, {posted.broken} broken connections")
    seconds = sum(one.cpu for one in used.programs.values())
    return cost_of(used, posted.requests, client_seconds=seconds)


# ------------------------------------------------------------------ what single parts cost


async def _left_out(rig: Rig, meter: Meter, stage: Stage) -> Figures:
    """A stage with one part left out, in turn with all of it, with the same writes by a bare statement in the product's
    tables, and with bare tables."""
    rounds: Figures = {"bare": [], "wide": [], "all": []}
    for _ in range(ROUNDS):
        rounds["bare"].append(asdict(await limit_round(rig, meter, stage.limit)))
        rounds["wide"].append(asdict(await wide_round(rig, meter, stage.name)))
        rounds["all"].append(asdict((await product_round(rig, meter, stage)).cost))
        for feature in leaving_out.FEATURES[stage.name]:
            await rig.reset()
            try:
                async with feature.left_out(meter.connection):
                    done = await product_round(rig, meter, stage)
            except leaving_out.NoSuchPart as gone:
                rounds[feature.name] = str(gone)
                continue
            rounds.setdefault(feature.name, []).append(asdict(done.cost))
        _say(
            stage.name,
            {name: round(each[-1]["database"], 2) for name, each in rounds.items() if each and isinstance(each, list)},
        )
    return rounds


Item = Callable[[Rig, Meter], Awaitable[Figures]]
ITEMS: Mapping[str, Mapping[str, Item]] = {
    "whole": {
        "T1": partial(_whole, case=entire.drain),
        "T2": partial(_whole, case=entire.sustained),
        "functions": _functions,
    },
    "stages": {stage.name: partial(_stage, stage=stage) for stage in STAGES},
    "api": {"future": _api},
    "features": {stage.name: partial(_left_out, stage=stage) for stage in STAGES if stage.name in leaving_out.FEATURES},
}
"""All that can be measured, by part."""
