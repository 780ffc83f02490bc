"""Cases about people and their credentials: what it costs to know a caller, and a flood of sign-ins."""

from typing import Final

from bench.cases.people import identity, sign_in

CASES: Final = (identity.CASE, sign_in.CASE)
