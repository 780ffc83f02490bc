"""`make security`: run every probe and print the table of what was tried and what stopped it.

Exits 0 if every attack was stopped, or comes to what is stated of it, else not. A probe that was skipped counts as not
stopped. ONLY="words of pytest -k" runs a part; a path as the argument, another file or folder of probes. All attacks on
the levels of isolation are made, where `make test` makes the quick ones.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.security.probes import Row, name_of, row_of, table


class Table:
    """A pytest plugin that counts the cases of each probe."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._names: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Name the rows, in the order of the files."""
        for item in session.items:
            name = name_of(item)
            self._names[item.nodeid] = name
            self.rows.setdefault(name, row_of(item)).cases += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a case whose attack was stopped. One that fails after its call, in a fixture, is not."""
        row = self.rows[self._names[report.nodeid]]
        if report.when == "call" and report.passed:
            row.passed += 1
        elif report.when == "teardown" and report.failed:
            row.passed -= 1


def main(paths: list[str]) -> int:
    """Run the probes; the status of the process."""
    seen = Table()
    os.environ.setdefault("ATTACKS", "all")
    only = ["-k", os.environ["ONLY"]] if os.environ.get("ONLY") else []
    status = pytest.main(["-q", *(paths or [str(Path(__file__).parent)]), *only], plugins=[seen])
    print(table(seen.rows.values()))
    stopped = sum(row.held for row in seen.rows.values())
    is_open = sum(row.held and row.is_open for row in seen.rows.values())
    by_design = f"; {is_open} of them are open by design, as stated" if is_open else ""
    print(f"\n{stopped} of {len(seen.rows)} probes stopped{by_design}")
    return int(status) or int(stopped != len(seen.rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
