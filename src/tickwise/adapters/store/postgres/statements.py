"""The statements of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tickwise.adapters.statements import Statements
from tickwise.adapters.store.postgres.codes import NUMBERS

statement: Final = Statements(Path(__file__).parent, NUMBERS)
