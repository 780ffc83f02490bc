"""Identity: keys, people, namespaces and sessions.

keys        API keys, each a principal of a namespace
users       people, their roles, custom roles, links that admit once
namespaces  tenants
sessions    refresh tokens, and the public keys of access tokens
tokens      identity tokens of runs, and their signing keys
browser_sessions  cookies of the pages, and links that sign in once
device_sign_ins  sign-ins of terminals that a person approves in a browser
federations  trust in tokens of other issuers, for programs without a stored key
identities  people at providers, sign-ins under way, logouts that a provider tells
oidc        the provider that signs people in, and tokens that an issuer signs
factors     second factors of people, and steps of sign-ins that wait for one
"""

from __future__ import annotations

from tickwise.ports.identity.browser_sessions import BrowserSessionStore
from tickwise.ports.identity.device_sign_ins import DeviceSignInStore
from tickwise.ports.identity.factors import FactorStepStore, FactorStore
from tickwise.ports.identity.federations import FederationStore
from tickwise.ports.identity.identities import IdentityStore
from tickwise.ports.identity.keys import (
    MAX_KEYS,
    FoundKey,
    KeyOrigin,
    KeyRotation,
    KeyRow,
    Keys,
    NewKey,
    check_keys_room,
    key_kept,
    key_replaced,
)
from tickwise.ports.identity.namespaces import NamespaceStore, RemovalStore
from tickwise.ports.identity.quotas import QuotaStore
from tickwise.ports.identity.sessions import SessionStore
from tickwise.ports.identity.tokens import IdentityKeyStore
from tickwise.ports.identity.users import RoleStore, UserStore

__all__ = [
    "MAX_KEYS",
    "BrowserSessionStore",
    "DeviceSignInStore",
    "FactorStepStore",
    "FactorStore",
    "FederationStore",
    "FoundKey",
    "IdentityKeyStore",
    "IdentityStore",
    "KeyOrigin",
    "KeyRotation",
    "KeyRow",
    "Keys",
    "NamespaceStore",
    "NewKey",
    "QuotaStore",
    "RemovalStore",
    "RoleStore",
    "SessionStore",
    "UserStore",
    "check_keys_room",
    "key_kept",
    "key_replaced",
]
