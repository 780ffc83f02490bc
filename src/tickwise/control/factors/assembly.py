"""`SecondFactors`: the services of second factors, put together with the parts of sign-ins that they share."""

from __future__ import annotations

from tickwise.control.context import ControlContext
from tickwise.control.factors.enrolments import Enrolments
from tickwise.control.factors.own_password import OwnPassword
from tickwise.control.factors.pace import CodePace
from tickwise.control.factors.service import FactorService
from tickwise.control.factors.sign_ins import FactorSignInService
from tickwise.control.factors.steps import SecondSteps
from tickwise.control.people.second_step import SecondStep, SignInParts
from tickwise.domain.accounts.second_factor import FactorPolicy


class SecondFactors:
    """The services. `assemble` makes them."""

    service: FactorService
    sign_ins: FactorSignInService

    def __init__(self, context: ControlContext, policy: FactorPolicy) -> None:
        self._context = context
        self._policy = policy

    def assemble(self, parts: SignInParts) -> SecondStep:
        """Make the services of these parts; the step after the password."""
        context, store, policy = self._context, self._context.store, self._policy
        pace = CodePace(context.clock, parts.pace, parts.limits)
        steps = SecondSteps(
            context,
            factors=store.factors,
            stored_steps=store.factor_steps,
            users=store.users,
            callers=parts.callers,
            pace=parts.pace,
            codes_pace=pace,
            policy=policy,
            denials=parts.denials,
        )
        enrolments = Enrolments(
            context,
            factors=store.factors,
            stored_steps=store.factor_steps,
            sessions=store.sessions,
            browsers=store.browser_sessions,
            steps=steps,
            pace=pace,
            policy=policy,
        )
        own = OwnPassword(store.users, parts.passwords, parts.pace, parts.denials)
        self.service = FactorService(
            context, factors=store.factors, stored_steps=store.factor_steps, enrolments=enrolments, steps=steps, own=own
        )
        self.sign_ins = FactorSignInService(
            steps=steps, enrolments=enrolments, opening=parts.opening, users=store.users
        )
        return steps
