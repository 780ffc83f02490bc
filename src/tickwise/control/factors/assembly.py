"""`SecondFactors`: the services of second factors, put together with the parts of sign-ins that they share."""

from __future__ import annotations

from typing import NamedTuple

from tickwise.control.context import ControlContext
from tickwise.control.factors.enrolments import Enrolments
from tickwise.control.factors.own_password import OwnPassword
from tickwise.control.factors.pace import CodePace
from tickwise.control.factors.service import FactorService
from tickwise.control.factors.sign_ins import FactorSignIns
from tickwise.control.factors.steps import SecondSteps
from tickwise.control.people.second_step import SecondStep, SignInParts
from tickwise.domain.accounts.second_factor import FactorPolicy
from tickwise.ports.sealing import Sealer


class FactorOptions(NamedTuple):
    """The rule of the installation, and what keeps the seeds of apps."""

    policy: FactorPolicy = FactorPolicy()
    sealer: Sealer | None = None
    """None: apps with codes cannot be enrolled."""


class SecondFactors:
    """The services. `assemble` makes them."""

    service: FactorService
    sign_ins: FactorSignIns

    def __init__(self, context: ControlContext, options: FactorOptions) -> None:
        self._context = context
        self._options = options

    def assemble(self, parts: SignInParts) -> SecondStep:
        """Make the services of these parts; the step after the password."""
        context, store, options = self._context, self._context.store, self._options
        pace = CodePace(context.clock, parts.pace, parts.limits)
        steps = SecondSteps(
            context,
            factors=store.factors,
            users=store.users,
            callers=parts.callers,
            pace=parts.pace,
            codes_pace=pace,
            sealer=options.sealer,
            policy=options.policy,
            denials=parts.denials,
        )
        enrolments = Enrolments(
            context,
            factors=store.factors,
            sessions=store.sessions,
            browsers=store.browser_sessions,
            steps=steps,
            pace=pace,
            sealer=options.sealer,
            policy=options.policy,
        )
        own = OwnPassword(store.users, parts.passwords, parts.pace, parts.denials)
        self.service = FactorService(context, factors=store.factors, enrolments=enrolments, steps=steps, own=own)
        self.sign_ins = FactorSignIns(steps=steps, enrolments=enrolments, opening=parts.opening, users=store.users)
        return steps
