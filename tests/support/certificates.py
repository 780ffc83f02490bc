"""Certificates of real openssl, as operators have them: signed by themselves, or by an authority."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.x509 import load_der_x509_certificate

NAME: Final = "tickwise.test"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path

    def number(self) -> int:
        """The serial number of the certificate."""
        said = _openssl("x509", "-in", str(self.certificate), "-noout", "-serial")
        return int(said.strip().removeprefix("serial="), 16)


def make(folder: Path, *, name: str = NAME, days: int = 90, rsa: bool = False, addresses: str = "127.0.0.1") -> Pair:
    """A pair in a folder, signed by itself; `days` may be 0: it has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = Pair(folder / "tls.crt", folder / "tls.key")
    kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    _openssl(
        "req", "-x509", "-newkey", *kind, "-nodes", "-days", str(days), "-subj", f"/CN={name}", "-addext",
        f"subjectAltName=DNS:{name},IP:{addresses}", "-keyout", str(pair.key), "-out", str(pair.certificate),
    )  # fmt: skip
    pair.key.chmod(0o600)
    return pair


def trust(certificate: Path) -> ssl.SSLContext:
    """A client that takes this certificate alone."""
    return ssl.create_default_context(cafile=str(certificate))


async def number_of(host: str, port: int) -> int:
    """The serial number of the certificate that a new connection gets."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=anybody, server_hostname=NAME)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return load_der_x509_certificate(shown).serial_number
    finally:
        writer.close()


def _openssl(*words: str) -> str:
    return subprocess.run(["openssl", *words], check=True, capture_output=True, text=True).stdout
