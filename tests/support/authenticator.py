"""An authenticator in software: keys of its own, real signatures, and the answers of a browser at an origin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import Aaguid, AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

FLAG = AuthenticatorData.FLAG


class Authenticator:
    """One passkey at most, made at the first `create`."""

    def __init__(self, *, counter: int = 0, verifies: bool = True) -> None:
        """`verifies`: it verifies its owner. `counter` 0: it counts no signatures."""
        self.counter = counter
        self.verifies = verifies
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.credential_id = uuid4().bytes
        self.user_handle = b""

    def create(self, options: Mapping[str, Any], origin: str, **client: Any) -> str:
        """The answer to `navigator.credentials.create`."""
        self.user_handle = websafe_decode(options["user"]["id"])
        public = ES256.from_cryptography_key(self.key.public_key())  # type: ignore[no-untyped-call]  # fido2 gives it none
        attested = AttestedCredentialData.create(Aaguid.NONE, self.credential_id, public)
        data = AuthenticatorData.create(
            sha256(options["rp"]["id"].encode()).digest(), self._flags() | FLAG.AT, self.counter, attested
        )
        client_data = self._client_data("webauthn.create", options, origin, client)
        attestation = AttestationObject.create("none", data, {})
        return self._answer(
            {"clientDataJSON": websafe_encode(client_data), "attestationObject": websafe_encode(attestation)}
        )

    def get(self, options: Mapping[str, Any], origin: str, *, rp_id: str | None = None, **client: Any) -> str:
        """The answer to `navigator.credentials.get`; `rp_id`: another one than the options name."""
        if self.counter:
            self.counter += 1
        host = rp_id or options["rpId"]
        data = AuthenticatorData.create(sha256(host.encode()).digest(), self._flags(), self.counter)
        client_data = self._client_data("webauthn.get", options, origin, client)
        signature = self.key.sign(data + client_data.hash, ec.ECDSA(SHA256()))
        return self._answer(
            {
                "clientDataJSON": websafe_encode(client_data),
                "authenticatorData": websafe_encode(data),
                "signature": websafe_encode(signature),
                "userHandle": websafe_encode(self.user_handle),
            }
        )

    def _flags(self) -> FLAG:
        return FLAG.UP | FLAG.UV if self.verifies else FLAG.UP

    def _client_data(
        self, kind: str, options: Mapping[str, Any], origin: str, client: Mapping[str, Any]
    ) -> CollectedClientData:
        fields = {"type": kind, "challenge": options["challenge"], "origin": origin, "crossOrigin": False, **client}
        return CollectedClientData(json.dumps(fields).encode())

    def _answer(self, response: Mapping[str, str]) -> str:
        name = websafe_encode(self.credential_id)
        return json.dumps(
            {"id": name, "rawId": name, "type": "public-key", "clientExtensionResults": {}, "response": response}
        )
