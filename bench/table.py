"""How results are shown: a table in the terminal, and all that is recorded as Markdown in README.md, between markers.

`python -m bench.table` writes README.md anew from `bench/results/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE / "results"
README = HERE / "README.md"
BEGIN, END = "<!-- written by `make bench`: begin -->", "<!-- written by `make bench`: end -->"
ORDER = ("T1", "T2", "T3", "L1", "L2", "L3", "C1", "C2", "R1", "R1-CRON", "S1", "P2", "M1", "growth")
"""Of TARGETS; others follow by name."""
HEADINGS = ("case", "value", "range", "unit", "limit", "ratio", "target", "met", "beside")


def number(value: float | None) -> str:
    """As many digits as a noisy machine is worth: three, or all of those before the point."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def span(said: dict[str, Any]) -> str:
    """Median [least, most] of the rounds."""
    return f"{number(said['value'])} [{number(said['low'])}, {number(said['high'])}]"


def yes(met: bool) -> str:
    """Whether a target is met."""
    return "yes" if met else "no"


def show(results: Sequence[dict[str, Any]]) -> Table:
    """One row a case, and one for each of its further demands."""
    table = Table(*HEADINGS)
    for said in results:
        table.add_row(
            said["case"],
            number(said["value"]),
            f"{number(said['low'])} to {number(said['high'])}",
            said["unit"],
            number(said["limit"]),
            number(said["ratio"]),
            number(said["target"]),
            yes(said["met"]),
            said["limit_is"],
        )
        for name, check in said["checks"].items():
            figure, bound = number(check["figure"]), number(check["bound"])
            table.add_row("", figure, "", "", "", "", bound, yes(check["met"]), name)
    return table


def show_peers(said: dict[str, Any]) -> Table:
    """One row a peer and setting, ours first, then the quickest."""
    table = Table(*said["headings"])
    for row in _peer_rows(said):
        table.add_row(*(escape(cell) for cell in row))
    return table


def _peer_rows(said: dict[str, Any], *, linked: bool = False) -> Iterator[Sequence[str]]:
    ours = said["ours"]
    yield ("Tickwise", said["tickwise"], "default", span(ours), "1", said["durability"], said["stores"])
    ran = [peer for peer in said["peers"] if "value" in peer]
    for peer in sorted(ran, key=lambda peer: -peer["value"] if said["higher"] else peer["value"]):
        named = f"[{peer['name']}]({peer['link']})" if linked else peer["name"]
        yield (
            *(named, peer["version"], peer["settings"], span(peer), number(peer["ratio"])),
            *(peer["durability"], peer["stores"]),
        )
    for peer in said["peers"]:
        if "value" not in peer:
            why = f"not run: {peer['not_run']}" if peer.get("not_run") else f"void: {peer['void']}"
            yield (
                peer["name"],
                peer["version"],
                peer["settings"],
                why.replace("\n", " ").replace("|", "/")[:160],
                "–",
                "",
                "",
            )


def markdown(results: Sequence[dict[str, Any]], peers: Sequence[dict[str, Any]]) -> str:
    """All that is recorded."""
    lines = ["| case | value, median [least, most] | limit beside it | ratio | target | met | measured |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for said in results:
        form = "full" if said["full"] else "short"
        measured = f"{said['at'][:10]}, `{said['commit']}`, {form}, rounds: {len(said['rounds'])}"
        limit = f"{number(said['limit'])}: {said['limit_is']}" if said["limit"] is not None else "–"
        lines.append(
            f"| {said['case']} | {span(said)} {said['unit']} | {limit} | {number(said['ratio'])} "
            f"| {number(said['target'])} | {yes(said['met'])} | {measured} |"
        )
        for name, check in said["checks"].items():
            lines.append(
                f"| | {name}: {number(check['figure'])} | | | {number(check['bound'])} | {yes(check['met'])} | |"
            )
    for said in peers:
        lines += ["", f"### {said['case']} beside others", ""]
        lines += [f"{said['about']} {said['at'][:10]}, `{said['commit']}`.", ""]
        lines.append("| " + " | ".join(said["headings"]) + " |")
        lines.append("| --- " * len(said["headings"]) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in _peer_rows(said, linked=True)]
    lines += ["", *_machines(results)]
    return "\n".join(lines)


def _machines(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """On what it was measured; more than one line if it was not the same for all."""
    seen = []
    for said in results:
        machine, server = said["machine"], said["postgresql"]
        line = (
            f"Measured on {machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, "
            f"{machine['kernel']}; "
            f"PostgreSQL {server['server_version']} with synchronous_commit={server['synchronous_commit']}, "
            f"fsync={server['fsync']}, shared_buffers={server['shared_buffers']}; Python {said['python']}."
        )
        if line not in seen:
            seen.append(line)
            yield line


def recorded() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Our results and those beside others, of `bench/results/`. Other files there are other tools'."""
    found = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    ours = [said for said in found if {"case", "checks", "machine", "postgresql"} <= said.keys()]
    peers = [said for said in found if {"case", "peers", "ours"} <= said.keys()]
    return sorted(ours, key=_place), sorted(peers, key=_place)


def _place(said: dict[str, Any]) -> tuple[int, str]:
    return (ORDER.index(said["case"]) if said["case"] in ORDER else len(ORDER), said["case"])


def placed(readme: str, text: str) -> str:
    """The page with this text between its markers. Raises ValueError if it has none."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page must have the lines {BEGIN} and {END}, in this order")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def write() -> None:
    """README.md anew, between its markers."""
    README.write_text(placed(README.read_text(), markdown(*recorded())))


if __name__ == "__main__":
    write()
