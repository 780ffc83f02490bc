"""The certificate of a keeper's process, made at its start, and the endpoint that names it.

    endpoint   host:port/fingerprint      the SHA-256 of the certificate, as hexadecimal digits

The endpoint is in the row of the shard, so who reads the row knows which certificate to expect, and nobody has to give
out certificates. A client sends nothing before it has compared.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tickwise.domain.errors import StoreUnavailable

LIFE: Final = timedelta(days=3_650)
"""It is made anew at each start; its end is judged by nobody."""
NAME: Final = "tickwise keeper"
PORT_MAX: Final = "65535"
FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The place where an owner serves its shard."""

    host: str
    port: int
    fingerprint: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.fingerprint}"

    @property
    def address(self) -> str:
        """The place alone, for people."""
        return str(self).partition("/")[0]

    @classmethod
    def read(cls, text: str) -> Endpoint:
        """Read what an owner has published. Raises `StoreUnavailable`: the next owner publishes another one."""
        address, _, fingerprint = text.partition("/")
        host, _, port = address.rpartition(":")
        is_port = port.isascii() and port.isdecimal() and len(port) <= len(PORT_MAX) and int(port) <= int(PORT_MAX)
        if not (host and is_port and FINGERPRINT.fullmatch(fingerprint)):
            raise StoreUnavailable(f"the owner of the shard has published no endpoint: {text[:SHOWN_CHARACTERS]!r}")
        return cls(host.strip("[]"), int(port), fingerprint)


@dataclass(frozen=True, slots=True)
class KeeperCertificate:
    """The certificate of this process, ready to serve."""

    context: ssl.SSLContext
    fingerprint: str


def make_certificate(now: float) -> KeeperCertificate:
    """A new certificate for this process alone; `now` in seconds since the Unix epoch."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, begin = generate_private_key(SECP256R1()), datetime.fromtimestamp(now, UTC) - timedelta(days=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + LIFE)
        .sign(key, SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory(prefix="tickwise-") as folder:  # only its owner can enter it
        file = Path(folder) / "keeper.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.public_bytes(Encoding.PEM)
        )
        context.load_cert_chain(file)
    return KeeperCertificate(context, _fingerprint(made.public_bytes(Encoding.DER)))


def client_context() -> ssl.SSLContext:
    """The context of a client: the certificate is compared by `check_pinned`, and by nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def check_pinned(certificate: bytes | None, endpoint: Endpoint) -> None:
    """Raise `StoreUnavailable` if this is not the certificate of the endpoint."""
    if certificate is None or not hmac.compare_digest(_fingerprint(certificate), endpoint.fingerprint):
        raise StoreUnavailable(f"another process answers at {endpoint.address} than the owner of the shard")


def _fingerprint(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()
