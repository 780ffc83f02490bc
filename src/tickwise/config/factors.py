"""The setting of second factors. `Settings` has it as its own."""

from __future__ import annotations

from dataclasses import dataclass

from tickwise.config.facts import declared_field
from tickwise.domain.accounts.second_factor import FORM, read_second_factor


@dataclass(frozen=True, kw_only=True)
class FactorSettings:
    """The rule for second factors."""

    second_factor: str = declared_field(
        "offered",
        "Second factors of people with passwords: `off`; `offered` (people who enrolled one are asked for it); "
        "`required` (everybody must enrol one), or `required:admin,auditor` (people with one of these roles must; a "
        "built-in role stands for the wider ones, too). People whom a provider signs in have theirs there "
        "(`docs/how-to/second-factors.md`).",
        check=read_second_factor,
        form=FORM,
    )
