"""Writes the table of attacks into `docs/explanation/isolation.md`, between its marks:
`python -m tests.security.isolation.page`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.security.isolation.attacks import GROUPS, Attack, Expected, Verdict
from tests.security.isolation.catalogue import ALL
from tickwise.domain.rules.confinement import Isolation

PLACE: Final = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "isolation.md"
BEGIN: Final = "<!-- attacks: written by tests/security/isolation/page.py -->\n"
END: Final = "<!-- end of attacks -->\n"
WORDS: Final = {Verdict.STOPPED: "stopped", Verdict.OPEN: "**open**", Verdict.DEPENDS: "*depends on the machine*"}


def page(text: str) -> str:
    """The page with its table as it must be."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{_table()}{END}{tail}"


def _table() -> str:
    lines = []
    for group in GROUPS:
        lines += ["", f"### {group}", "", "| tried | `process` | `sandbox` |", "| --- | --- | --- |"]
        lines += [_row(each) for each in ALL if each.group == group]
    return "\n".join([*lines, "", ""])


def _row(attack: Attack) -> str:
    process = _cell(attack.expected[Isolation.PROCESS, "root"])
    ordinary = attack.expected.get((Isolation.PROCESS, "ordinary"))
    if ordinary is not None and ordinary.verdict is not attack.expected[Isolation.PROCESS, "root"].verdict:
        process += f"<br>an ordinary user's executor: {_cell(ordinary)}"
    return f"| {attack.tried} | {process} | {_cell(attack.expected[Isolation.SANDBOX, 'root'])} |"


def _cell(expected: Expected) -> str:
    return f"{WORDS[expected.verdict]}: {expected.because}"


if __name__ == "__main__":
    PLACE.write_text(page(PLACE.read_text(encoding="utf-8")), encoding="utf-8")
