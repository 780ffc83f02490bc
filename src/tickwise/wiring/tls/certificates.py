"""The certificate of the ports: read from its files, and read again when they are replaced.

    start ──► load: a fault ends the start
    every 2 s ──► did a file change? ──► load ──► good: new connections get it
                                            └──► not: the one before stays, an error is logged, the next change is tried

A pair is good if the key is the certificate's own and nobody else may read the key; so a pair that is half written, or
half replaced, is never served. Replacing a file, a symbolic link or a folder above it is all the same: what counts is
the file that the name leads to. Connections that are open keep the certificate that they began with.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.roles.shared.service import wait_for
from tickwise.wiring.private_files import read_private

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

LOOK_SECONDS: Final = 2.0
WARN_SECONDS: Final = 14 * 86_400.0
"""Certificates are usually renewed a third of their time before they end, so the renewal of one that gets this close
has failed. Of a short-lived one, the last sixth of its time counts."""
REMIND_SECONDS: Final = 86_400.0

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

logger = structlog.get_logger("tickwise.wiring")


class LoadedCertificate(NamedTuple):
    """A certificate that is served."""

    context: ssl.SSLContext
    name: str
    """One of the names that it is for."""
    begins_at: float
    ends_at: float
    """Unix seconds."""

    def ends_soon(self, now: float) -> bool:
        """Check whether it should have been renewed by now."""
        return self.ends_at - now < min(WARN_SECONDS, (self.ends_at - self.begins_at) / 6)


class Certificates:
    """The certificate in force."""

    def __init__(self, certificate: Path, key: Path, *, version_least: str = "1.2") -> None:
        """Raises `Misconfigured` for files that cannot be served."""
        self.certificate = certificate
        self._key = key
        self._version_least = _VERSIONS[version_least]
        self._clock = SystemClock()
        self._reminded_at = float("-inf")
        self._observe: Callable[[float], None] | None = None
        self._seen = self._state()
        self.loaded = self._load()
        self._remind()

    def context(self) -> ssl.SSLContext:
        """For a connection that begins now."""
        return self.loaded.context

    def observe(self, ends_at: Callable[[float], None]) -> None:
        """Tell this the end of the certificate in force, now and whenever there is another one."""
        self._observe = ends_at
        ends_at(self.loaded.ends_at)

    async def watch(self, stop: asyncio.Event) -> None:
        """Look at the files until `stop` is set."""
        while not stop.is_set():
            await wait_for(stop, LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Take the files if they have changed. The files are read in a thread: they may lie on a network."""
        loaded = await asyncio.to_thread(self._changed)
        if loaded is not None:
            self.loaded = loaded
            self._reminded_at = float("-inf")
            logger.info("certificate_replaced", file=str(self.certificate), name=loaded.name, ends_at=loaded.ends_at)
            if self._observe is not None:
                self._observe(loaded.ends_at)
        self._remind()

    def _changed(self) -> LoadedCertificate | None:
        """Another pair that is good. A pair that is not good is logged once."""
        state = self._state()
        if state == self._seen:
            return None
        self._seen = state
        try:
            return self._load()
        except Misconfigured as failure:
            logger.error("certificate_unusable", reason=failure.detail, served=self.loaded.name)
            return None

    def _state(self) -> tuple[tuple[int, ...] | None, ...]:
        return _state_of(self.certificate), _state_of(self._key)

    def _load(self) -> LoadedCertificate:
        """Raises `Misconfigured`."""
        read_private(self._key, "the key of TLS")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._version_least
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.certificate, self._key, password=_no_password)
            first = _first_of(self.certificate)
        except (OSError, ValueError) as failure:  # an error of OpenSSL is an OSError
            raise Misconfigured(
                f"{self.certificate} and {self._key} cannot be used for TLS: {_reason(failure)}. They must be a "
                "certificate and its own private key, both PEM, the key without a password."
            ) from failure
        return LoadedCertificate(
            context, _name_of(first), first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp()
        )

    def _remind(self) -> None:
        """Say once a day that the certificate ends soon, or has ended."""
        now, loaded = self._clock.now(), self.loaded
        if not loaded.ends_soon(now) or now - self._reminded_at < REMIND_SECONDS:
            return
        self._reminded_at = now
        logger.warning(
            "certificate_ends",
            file=str(self.certificate),
            name=loaded.name,
            days=round((loaded.ends_at - now) / 86_400, 1),
        )


def read_certificates(settings: Settings) -> Certificates | None:
    """The certificate that the settings name; None if they name none. Raises `Misconfigured`."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return Certificates(settings.tls_cert_file, settings.tls_key_file, version_least=settings.tls_version_least)


def tls_of(settings: Settings, certificates: Certificates | None, port: str) -> Callable[[], ssl.SSLContext] | None:
    """The source of the certificate for connections of a port, `api` or `health`; None: it speaks plain HTTP."""
    return certificates.context if certificates is not None and port in settings.tls_ports else None


@contextlib.asynccontextmanager
async def open_certificates(settings: Settings) -> AsyncIterator[Certificates | None]:
    """The certificate that the settings name, watched while the block lasts. Raises `Misconfigured`."""
    certificates = read_certificates(settings)
    if certificates is None:
        yield None
        return
    stop = asyncio.Event()
    watching = asyncio.create_task(certificates.watch(stop))
    try:
        yield certificates
    finally:
        stop.set()
        await watching


def _state_of(file: Path) -> tuple[int, ...] | None:
    """A value that changes when another file is there or its content is written; None if there is none."""
    try:
        facts = os.stat(file)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _first_of(file: Path) -> Certificate:
    from cryptography import x509

    return x509.load_pem_x509_certificates(file.read_bytes())[0]


def _name_of(certificate: Certificate) -> str:
    """A name that a client may ask for; of a wildcard, one that it covers."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    named = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    return named[0].replace("*", "tickwise", 1) if named else ""


def _no_password() -> str:
    raise ValueError("the key has a password")


def _reason(failure: Exception) -> str:
    if isinstance(failure, ssl.SSLError):
        return (failure.reason or str(failure)).replace("_", " ").lower()
    return getattr(failure, "strerror", None) or str(failure)
