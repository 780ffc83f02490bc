"""The rule of second factors, and the sealer of their seeds, from the settings."""

from __future__ import annotations

from tickwise.config import Settings
from tickwise.control.factors.assembly import FactorOptions
from tickwise.domain.accounts.second_factor import read_second_factor
from tickwise.ports.sealing import Sealer


def factor_options(settings: Settings, sealer: Sealer) -> FactorOptions:
    """The rule of this process, and what keeps the seeds of apps."""
    return FactorOptions(read_second_factor(settings.second_factor), sealer)
