"""`People`: the services of users and tokens, put together, with what they share."""

from __future__ import annotations

from typing import NamedTuple

from tickwise.control.audit.denials import Denials
from tickwise.control.callers import Callers
from tickwise.control.context import ControlContext
from tickwise.control.federations.exchange import FederationExchange
from tickwise.control.keys.forms import SecretForms
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.people.auth import AuthService
from tickwise.control.people.bearers import TokenBearers
from tickwise.control.people.browsers import BrowserService
from tickwise.control.people.devices import DeviceService
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.password_check import PasswordCheck, PasswordSignIn
from tickwise.control.people.passwords import Passwords
from tickwise.control.people.roles import RoleService
from tickwise.control.people.second_step import SecondStepOf, SignInParts
from tickwise.control.people.session_opening import BrowserLimits, SessionOpening
from tickwise.control.people.sso.accounts import ProviderAccounts
from tickwise.control.people.sso.identities import IdentityService
from tickwise.control.people.sso.proxy import ProxyConfig, ProxySignInService
from tickwise.control.people.sso.rules import ProviderRules, SsoConfig
from tickwise.control.people.sso.service import SsoService
from tickwise.control.people.tokens import AccessTokens
from tickwise.control.people.users import SelfRegistration, UserService
from tickwise.ports.identity import Keys
from tickwise.ports.identity.federations import AssertionVerifier
from tickwise.ports.limits import RateLimits


class SignInRules(NamedTuple):
    """The parts that all ways to sign in share."""

    pace: SignInPace
    denials: Denials
    passwords: PasswordSignIn
    """The people that sign in with a password."""
    opening: SessionOpening


class People:
    """The services of users and tokens. `close` ends the threads that hash."""

    def __init__(
        self,
        context: ControlContext,
        keys: Keys,
        directory: NamespaceDirectory,
        registration: SelfRegistration | None,
        forms: SecretForms,
        denials: Denials,
        limits: RateLimits | None,
        browser_limits: BrowserLimits | None,
        sso: SsoConfig | None,
        proxy: ProxyConfig | None,
        password_sign_in: PasswordSignIn,
        verifier: AssertionVerifier | None,
        second_step: SecondStepOf,
    ) -> None:
        """`second_step` makes the step after the password of the parts that it shares with it."""
        store, clock = context.store, context.clock
        self._passwords = Passwords()
        pace = SignInPace(clock, limits)
        tokens = AccessTokens(lambda: store.upkeep.cluster_id, clock)
        joining = registration or SelfRegistration()
        self.users = UserService(context, store.users, store.roles, self._passwords, directory, joining, pace, denials)
        self.roles = RoleService(context, store.roles, directory)
        self.callers = Callers(keys, store.users, store.roles)
        self.bearers = TokenBearers(tokens, self.callers, users=store.users, sessions=store.sessions, clock=clock)
        check = PasswordCheck(store.users, self.callers, self._passwords, pace, denials, admits=password_sign_in)
        opening = SessionOpening(context, store.browser_sessions, store.users, browser_limits or BrowserLimits())
        step = second_step(SignInParts(self.callers, self._passwords, pace, opening, denials, limits))
        self.browsers = BrowserService(
            context,
            sessions=store.browser_sessions,
            users=store.users,
            callers=self.callers,
            check=check,
            pace=pace,
            forms=forms,
            denials=denials,
            opening=opening,
            second_step=step,
        )
        self._begin_sso(context, (sso, proxy), directory, SignInRules(pace, denials, password_sign_in, opening))
        self.auth = AuthService(
            context,
            users=store.users,
            sessions=store.sessions,
            browsers=store.browser_sessions,
            check=check,
            second_step=step,
            tokens=tokens,
            callers=self.callers,
            bearers=self.bearers,
            directory=directory,
            pace=pace,
            forms=forms,
            denials=denials,
            exchange=FederationExchange(context, self.callers, verifier),
        )
        self.devices = DeviceService(context, users=store.users, pace=pace)

    def _begin_sso(
        self,
        context: ControlContext,
        vouching: tuple[SsoConfig | None, ProxyConfig | None],
        directory: NamespaceDirectory,
        rules: SignInRules,
    ) -> None:
        store, (sso, proxy) = context.store, vouching
        users, identities, roles = store.users, store.identities, store.roles

        def accounts_of(by: ProviderRules) -> ProviderAccounts:
            return ProviderAccounts(context, by, users=users, identities=identities, roles=roles, directory=directory)

        accounts = None if sso is None else accounts_of(sso.rules)
        self.proxy = ProxySignInService(
            proxy,
            accounts=None if proxy is None else accounts_of(proxy.rules),
            users=users,
            opening=rules.opening,
            denials=rules.denials,
        )
        self.sso = SsoService(
            context,
            sso,
            accounts=accounts,
            identities=identities,
            users=users,
            opening=rules.opening,
            pace=rules.pace,
            denials=rules.denials,
            passwords=rules.passwords,
        )
        self.identities = IdentityService(context, sso, identities=identities, users=users, roles=roles)

    def close(self) -> None:
        """End the threads; hashes under way are waited for."""
        self._passwords.close()
