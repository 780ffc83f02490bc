"""The kept figures as a page: `bench/COSTS.md`. The prose stands in `page.md`; here are its tables.

Pure but for `write`. A part that was never measured is named as missing. In brackets stand least and most of the
rounds, the median before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.costs.features import FEATURES
from bench.costs.spending import Span
from bench.costs.stages import STAGES
from bench.record import HERE

FILE = HERE / "COSTS.md"
PAGE = Path(__file__).with_name("page.md")
SMALL = 0.05
"""Microseconds; what takes less is left out of the tables by process and by statement."""
FUNCTIONS = 25
PATHS = {"T1": ("claim", "finish"), "T2": ("submit", "claim", "finish")}
"""The stages that each case goes through."""

Figures = Mapping[str, Any]
Rounds = Sequence[Figures]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """As Markdown; text to the left, figures to the right."""
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)])


def span(rounds: Rounds, key: str | Callable[[Figures], float]) -> Span:
    """One figure over the rounds."""
    return Span.of([key(one) if callable(key) else one[key] for one in rounds])


def whole_number(value: float) -> str:
    """With commas."""
    return f"{value:,.0f}"


def book(parts: Figures) -> str:
    """The page."""
    made = {name: _made(parts, needs, block) for name, (needs, block) in BLOCKS.items()}
    return PAGE.read_text().format(**made)


def _made(parts: Figures, needs: Sequence[str], block: Callable[[Figures], str]) -> str:
    missing = [name for name in needs if not _is_there(parts, name)]
    return f"_Not measured yet: `make bench-profile PARTS={missing[0]}`._" if missing else block(parts)


def _is_there(parts: Figures, name: str) -> bool:
    """Of a part, any item will do."""
    part, _, item = name.partition(".")
    return bool(parts.get(part)) and (not item or item in parts[part])


def write(parts: Figures) -> None:
    """Put the page in its place."""
    FILE.write_text(book(parts))


# ------------------------------------------------------------------ the blocks


def _head(parts: Figures) -> str:
    """Each machine once; then what was measured when, and at which commit."""
    rows: list[list[object]] = []
    machines: dict[str, int] = {}
    for name, figures in (
        (f"{part}.{item}", figures) for part, items in parts.items() for item, figures in items.items()
    ):
        head = figures["head"]
        on, server = head["machine"], head["postgresql"].get("server_version", "of an unknown version")
        text = f"{on['cores']} cores of {on['cpu']}, {on['memory_gib']} GiB, {on['kernel']}; PostgreSQL {server}"
        number = machines.setdefault(text, len(machines) + 1)
        rows.append([name, head["commit"], head["at"], number, on["loop_ms"]])
    lines = [f"{number}. {text}" for text, number in machines.items()]
    return "\n".join([*lines, "", table(["measured", "commit", "at", "machine", "loop ms"], rows)])


def _stages(parts: Figures) -> str:
    rows = []
    for stage in STAGES:
        figures = parts["stages"].get(stage.name)
        if figures is None:
            continue
        product, limit = figures["product"], figures["limit"]
        ours, bare = span(product, "database"), span(limit, "database")
        rows.append(
            [
                stage.title,
                whole_number(stage.batch),
                span(product, "client"),
                ours,
                bare,
                f"{ours.middle / max(bare.middle, 0.01):.1f}",
                whole_number(span(product, "wal").middle),
                whole_number(span(limit, "wal").middle),
                f"{span(product, 'trips').middle:.4f}",
                figures["rows"],
            ]
        )
    head = [
        "stage",
        "batch",
        "process µs",
        "database µs",
        "limit µs",
        "ratio",
        "WAL B",
        "limit B",
        "statements",
        "rows",
    ]
    return table(head, rows)


def _limits(_: Figures) -> str:
    return "\n".join(f"- {stage.title}: {stage.limit_is}." for stage in STAGES)


def _api(parts: Figures) -> str:
    rows = [
        [
            title,
            span(rounds, "client"),
            span(rounds, "database"),
            whole_number(span(rounds, "wal").middle),
            f"{span(rounds, 'trips').middle:.3f}",
        ]
        for title, rounds in (
            ("`POST /api/v1/jobs`, a future job", parts["api"]["future"]["product"]),
            ("a route that does nothing", parts["api"]["future"]["limit"]),
        )
    ]
    return table(["request", "process µs", "database µs", "WAL B", "statements"], rows)


def all_of(kind: str) -> Callable[[Figures], float]:
    """The CPU of all processes of a kind."""
    return lambda one: sum(cpu for cpu, _ in one[kind].values())


def _sums(parts: Figures) -> str:
    rows = []
    for name, path in PATHS.items():
        rounds = parts["whole"][name]["rounds"]
        alone = [parts["stages"][stage] for stage in path]

        def added(side: str, key: str, alone: Rounds = alone) -> float:
            return sum(span(stage[side], key).middle for stage in alone)

        rows.append(
            [
                f"{name}: {' + '.join(path)}",
                f"{added('product', 'client'):.1f}",
                span(rounds, all_of("programs")),
                f"{added('limit', 'database'):.1f}",
                f"{added('product', 'database'):.1f}",
                span(rounds, all_of("sessions")),
                span(rounds, all_of("background")),
                whole_number(added("limit", "wal")),
                whole_number(added("product", "wal")),
                whole_number(span(rounds, "wal").middle),
                whole_number(span(rounds, "rate").middle),
            ]
        )
    head = ["case", "process µs: stages", "whole", "database µs: limit", "stages", "whole", "other of the server"]
    return table([*head, "WAL B: limit", "stages", "whole", "runs/s"], rows)


def _held(parts: Figures) -> str:
    rounds = parts["whole"]["T2"]["rounds"]
    executor = span(rounds, lambda one: one["programs"]["executor"][0]).middle
    sides = sum(span(parts["stages"][name]["product"], "client").middle for name in ("claim", "finish"))
    workers = span(rounds, lambda one: one["programs"].get("executor: workers", [0.0])[0])
    return f"**{executor - sides:.1f}**, of {executor:.1f} in all, and {workers} of its workers"


def _processes(parts: Figures) -> str:
    found = []
    for name, case in (("T1", "the drain of 100,000 queued runs"), ("T2", "submit and run at once")):
        rounds, rows = parts["whole"][name]["rounds"], []
        for kind, title in (("programs", "product"), ("sessions", "session"), ("background", "server")):
            for process in sorted({process for one in rounds for process in one[kind]}):
                used = [one[kind].get(process, [0.0, 0.0]) for one in rounds]
                cpu, wal = Span.of([cpu for cpu, _ in used]), Span.of([wal for _, wal in used])
                if cpu.middle >= SMALL:
                    rows.append((cpu.middle, [f"{title}: {process}", cpu, whole_number(wal.middle)]))
        rows.sort(key=lambda row: -row[0])
        found += [f"**{name}**, {case}:", table(["process", "µs", "WAL B"], [row for _, row in rows])]
    return "\n\n".join(found)


def _statements(parts: Figures) -> str:
    rounds, rows = parts["whole"]["T2"]["rounds"], []
    for name in sorted({name for one in rounds for name in one["statements"]}):
        there = [one["statements"][name] for one in rounds if name in one["statements"]]
        time = span(there, "microseconds")
        if time.middle < SMALL:
            continue
        cells = [
            f"`{name}`",
            whole_number(span(there, "runs_a_call").middle),
            f"{span(there, 'rows').middle:.3f}",
            time,
            whole_number(span(there, "wal").middle),
            f"{span(there, 'hits').middle:.1f}",
            f"{span(there, 'reads').middle:.3f}",
            f"{span(there, 'dirtied').middle:.3f}",
        ]
        rows.append((time.middle, cells))
    rows.sort(key=lambda row: -row[0])
    head = ["statement", "runs a call", "rows returned", "µs of time", "WAL B", "pages hit", "read", "dirtied"]
    return f"{table(head, [row for _, row in rows])}\n\nRows written: {rounds[-1]['rows']}."


def _functions(parts: Figures) -> str:
    cpu = parts["whole"]["functions"]["cpu"]
    shares = list(parts["whole"]["functions"]["shares"].items())[:FUNCTIONS]
    rows = [[f"`{name}`", f"{share * cpu:.2f}", f"{share:.1%}"] for name, share in shares]
    return table(["function", "µs", "share"], [*rows, ["all", f"{cpu:.2f}", "100%"]])


def _steps(parts: Figures) -> str:
    rows = []
    for stage in STAGES:
        if stage.name in parts["features"]:
            rounds = parts["features"][stage.name]
            cells = [
                (span(rounds[name], "database"), whole_number(span(rounds[name], "wal").middle))
                for name in ("bare", "wide", "all")
            ]
            rows.append([stage.title, *(cell for pair in cells for cell in pair)])
    return table(["stage", "bare tables µs", "WAL B", "our tables µs", "WAL B", "our statement µs", "WAL B"], rows)


def _features(parts: Figures) -> str:
    rows = [
        _feature(stage.title, feature.name, feature.buys, parts["features"][stage.name])
        for stage in STAGES
        if stage.name in parts["features"]
        for feature in FEATURES[stage.name]
    ]
    return table(["left out", "stage", "µs saved", "WAL B saved", "what it buys"], rows)


def _feature(stage: str, name: str, buys: str, rounds: Figures) -> list[object]:
    without = rounds.get(name)
    if not isinstance(without, list):
        return [name, stage, "not there any more", "–", buys]
    saved = {
        key: Span.of([there[key] - gone[key] for there, gone in zip(rounds["all"], without, strict=True)])
        for key in ("database", "wal")
    }
    return [name, stage, saved["database"], whole_number(saved["wal"].middle), buys]


BLOCKS: Mapping[str, tuple[Sequence[str], Callable[[Figures], str]]] = {
    "head": ((), _head),
    "stages": (("stages",), _stages),
    "limits": ((), _limits),
    "api": (("api.future",), _api),
    "sums": (("whole.T1", "whole.T2", "stages.submit", "stages.claim", "stages.finish"), _sums),
    "held": (("whole.T2", "stages.claim", "stages.finish"), _held),
    "processes": (("whole.T1", "whole.T2"), _processes),
    "statements": (("whole.T2",), _statements),
    "functions": (("whole.functions",), _functions),
    "steps": (("features",), _steps),
    "features": (("features",), _features),
}
"""By their names in the page: the figures that each needs, and how it is made."""
