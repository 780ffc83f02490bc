"""Passkeys (WebAuthn level 3), checked by `fido2`: options for a browser, and what it answers.

    options: challenge, RP ID, user verification ──► browser ──► signed: challenge, origin, RP ID hash, flags, counter

The place of a passkey is the host (RP ID) and the origin of the pages. A passkey works at its place alone: the browser
sees to it, the authenticator signs it, and it is compared here. Invariants: the origin is compared whole, and a page in
a frame of another origin is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tickwise.ports.identity.factors import Factor
from tickwise.ports.identity.users import UserRow

if TYPE_CHECKING:
    from fido2.server import Fido2Server

CHALLENGE_BYTES: Final = 32
RESPONSE_CHARACTERS_MAX: Final = 16_384
CREDENTIAL_BYTES_MAX: Final = 1_023
"""The longest id of a passkey (WebAuthn, section 4)."""

Options = Mapping[str, Any]
"""The JSON form of options, as `parseCreationOptionsFromJSON` and `parseRequestOptionsFromJSON` of browsers take it."""

_decode: Final = msgspec.json.Decoder(dict[str, Any])


class PasskeyPlace(NamedTuple):
    """The place where passkeys are made and shown."""

    host: str
    """The RP ID."""
    origin: str
    """Scheme, host and port, as browsers write them."""


class NewPasskey(NamedTuple):
    """A passkey that was registered."""

    credential_id: bytes
    public: bytes
    """Its public key with its id, as WebAuthn encodes them (`attestedCredentialData`)."""
    counter: int


class SignedPasskey(NamedTuple):
    """A passkey that signed a challenge."""

    factor: Factor
    counter: int


class PasskeyRefused(Exception):
    """The answer of a browser that is not what was asked for. Its text is for the log."""


def creation_options(place: PasskeyPlace, row: UserRow, known: Iterable[Factor], challenge: bytes) -> Options:
    """Options for a new passkey of a person. Authenticators that have one in `known` make no other."""
    from fido2.webauthn import (
        PublicKeyCredentialDescriptor,
        PublicKeyCredentialType,
        PublicKeyCredentialUserEntity,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    options, _ = _server(place).register_begin(
        PublicKeyCredentialUserEntity(id=row.user_id.bytes, name=row.name, display_name=row.name),
        [
            PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=each.credential_id)
            for each in _at(place, known)
            if each.credential_id is not None
        ],
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.PREFERRED,
        challenge=challenge,
    )
    return dict(dict(options)["publicKey"])


def request_options(place: PasskeyPlace, known: Iterable[Factor] | None, challenge: bytes) -> Options:
    """Options to show a passkey. `known`: those of the person who signs in; None: a passkey that signs in by itself, so
    its owner must be verified by the authenticator."""
    from fido2.webauthn import UserVerificationRequirement

    alone = known is None
    options, _ = _server(place).authenticate_begin(
        None if known is None else [_credential(each) for each in _at(place, known)],
        user_verification=UserVerificationRequirement.REQUIRED if alone else UserVerificationRequirement.PREFERRED,
        challenge=challenge,
    )
    return dict(dict(options)["publicKey"])


def registered(place: PasskeyPlace, challenge: bytes, response: str) -> NewPasskey:
    """The passkey of a registration. Raises `PasskeyRefused`."""
    from fido2.webauthn import RegistrationResponse

    server = _server(place)
    try:
        parsed = RegistrationResponse.from_dict(_json(response))
        _check_frame(parsed.response.client_data)
        found = server.register_complete(_state(challenge, verified=False), parsed).credential_data
        if found is None or found.public_key.get(3) not in {each.alg for each in server.allowed_algorithms}:
            raise PasskeyRefused("its signatures cannot be checked here")
        if len(found.credential_id) > CREDENTIAL_BYTES_MAX:
            raise PasskeyRefused("its id is too long")
        counter = parsed.response.attestation_object.auth_data.counter
    except PasskeyRefused:
        raise
    except Exception as failure:  # bytes of a stranger: parsers of CBOR, COSE and JSON fail in many ways
        raise PasskeyRefused(str(failure)) from failure
    return NewPasskey(found.credential_id, bytes(found), counter)


def credential_of(response: str) -> bytes | None:
    """The id of the passkey that an answer names; None: it cannot be read."""
    from fido2.utils import websafe_decode

    try:
        return websafe_decode(_json(response)["rawId"])
    except Exception:  # noqa: BLE001 - bytes of a stranger
        return None


def signed(
    place: PasskeyPlace, challenge: bytes, known: Sequence[Factor], response: str, *, verified: bool
) -> SignedPasskey:
    """The passkey among `known` that signed the challenge, and its counter. `verified`: its owner must have been
    verified. Raises `PasskeyRefused`."""
    from fido2.webauthn import AuthenticationResponse

    try:
        parsed = AuthenticationResponse.from_dict(_json(response))
        _check_frame(parsed.response.client_data)
        state = _state(challenge, verified=verified)
        found = _server(place).authenticate_complete(state, [_credential(each) for each in _at(place, known)], parsed)
        factor = next(each for each in known if each.credential_id == found.credential_id)
        handle = parsed.response.user_handle
        if handle is not None and handle != factor.user_id.bytes:
            raise PasskeyRefused("it names another person")
    except PasskeyRefused:
        raise
    except Exception as failure:  # bytes of a stranger: parsers of CBOR, COSE and JSON fail in many ways
        raise PasskeyRefused(str(failure)) from failure
    return SignedPasskey(factor, parsed.response.authenticator_data.counter)


def _server(place: PasskeyPlace) -> Fido2Server:
    # A list of all public suffixes is read when it is imported: 30 ms, and only where passkeys are used.
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialRpEntity

    entity = PublicKeyCredentialRpEntity(id=place.host, name="Tickwise")
    return Fido2Server(entity, verify_origin=lambda origin: origin == place.origin)


def _state(challenge: bytes, *, verified: bool) -> Mapping[str, Any]:
    """The state that `fido2` hands out with options and takes back with the answer."""
    from fido2.utils import websafe_encode
    from fido2.webauthn import UserVerificationRequirement

    return {
        "challenge": websafe_encode(challenge),
        "user_verification": UserVerificationRequirement.REQUIRED if verified else None,
    }


def _credential(factor: Factor) -> Any:
    from fido2.webauthn import AttestedCredentialData

    return AttestedCredentialData(factor.secret)


def _at(place: PasskeyPlace, known: Iterable[Factor]) -> list[Factor]:
    return [each for each in known if each.credential_id is not None and each.place == place.host]


def _json(response: str) -> dict[str, Any]:
    if len(response) > RESPONSE_CHARACTERS_MAX:
        raise PasskeyRefused("the answer is too long")
    return _decode.decode(response)


def _check_frame(client_data: Any) -> None:
    if client_data.cross_origin:
        raise PasskeyRefused("it was asked for within a page of another origin")
