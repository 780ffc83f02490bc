"""The TLS settings of http tasks, made of their certificates and remembered: to make one takes milliseconds.

    tls of a task ──texts──► context        a key that comes as a text is in memory alone, also while it is loaded
                  ──names──► files in FOLDER/NAMESPACE, read for each attempt: a renewed certificate is used at once

Invariant: a namespace gets no context, and no file, of another one. Contexts decide which connections are shared, so
neither does a connection with a certificate reach another namespace.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
import stat
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import closing
from io import FileIO
from pathlib import Path
from typing import Final

import msgspec

from tickwise.adapters.outgoing.exchange import TlsFailure
from tickwise.adapters.runner.calls.tls_fields import FILE_NAME, TEXTS
from tickwise.domain.names import clean_namespace

MAX_CONTEXTS: Final = 128
FILE_BYTES_MAX: Final = 1 << 20
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class TlsContexts:
    """The contexts of one runner."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: holds a folder for each namespace, with the files that its tasks may name."""
        self._folder = folder
        self._known: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    async def of(self, namespace: str, tls: Mapping[str, str], *, with_certificate: bool) -> ssl.SSLContext:
        """The context of these settings, with the client's certificate or without. Raises `TlsFailure`."""
        texts = await asyncio.to_thread(self._texts, namespace, tls, with_certificate)
        identity = hashlib.sha256(msgspec.json.encode([namespace, sorted(texts.items())])).digest()
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = await asyncio.to_thread(_made, texts)
            while len(self._known) > MAX_CONTEXTS:
                self._known.popitem(last=False)
        self._known.move_to_end(identity)
        return known

    def _texts(self, namespace: str, tls: Mapping[str, str], with_certificate: bool) -> Mapping[str, str]:
        found = {}
        for name in TEXTS if with_certificate else ("ca",):
            if name in tls:
                found[name] = tls[name]
            elif f"{name}_file" in tls:
                found[name] = self._read(namespace, tls[f"{name}_file"])
        return {**found, "minimum_version": tls.get("minimum_version", "1.2")}

    def _read(self, namespace: str, name: str) -> str:
        """A file that the operator laid out. Its content is in no message."""
        if self._folder is None:
            raise TlsFailure(
                f"the task names the file {name!r}, and this executor has no folder of certificates: set "
                "http_tls_folder, or give the text"
            )
        # Both were checked when they came in. They make a path here, so they are looked at here, too.
        if not FILE_NAME.fullmatch(name):
            raise TlsFailure("a file of certificates is named by letters, digits and . _ -")
        path = self._folder / clean_namespace(namespace, "") / name
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with closing(FileIO(descriptor)) as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise TlsFailure(f"{name!r} in the executor's folder for {namespace} is no file")
                content = file.read(FILE_BYTES_MAX + 1) or b""
        except OSError as error:
            raise TlsFailure(
                f"the executor cannot read {name!r} in its folder for {namespace} (http_tls_folder): {error.strerror}"
            ) from None
        if len(content) > FILE_BYTES_MAX:
            raise TlsFailure(f"{name!r} in the executor's folder for {namespace} is larger than {FILE_BYTES_MAX} bytes")
        return content.decode("ascii", "replace")


def _made(texts: Mapping[str, str]) -> ssl.SSLContext:
    """A context that checks the server's name and certificate. Raises `TlsFailure`."""
    context = _trusting(texts["ca"]) if "ca" in texts else ssl.create_default_context()
    context.minimum_version = _VERSIONS[texts["minimum_version"]]
    context.set_alpn_protocols(("http/1.1",))
    if "certificate" in texts and "key" in texts:
        try:
            _load(context, f"{texts['certificate']}\n{texts['key']}\n".encode())
        except (ssl.SSLError, OSError) as error:
            why = getattr(error, "reason", None) or error.strerror or "unreadable"
            raise TlsFailure(
                "the client's certificate cannot be used with its key: "
                f"{why.replace('_', ' ').lower()}; a key has no password, and belongs to the first certificate"
            ) from None
    return context


def _trusting(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError):
        raise TlsFailure("the certificates of `tls.ca` cannot be read as PEM") from None


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Load a certificate and its key. The library reads files alone: this one is in memory, where the system can."""
    descriptor = os.memfd_create("tickwise-tls", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else _nameless_file()
    with closing(FileIO(descriptor, "r+")) as file:
        file.write(pem)
        file.seek(0)
        # An empty password: else the library would ask for one on the terminal.
        context.load_cert_chain(f"/dev/fd/{descriptor}", password="")


def _nameless_file() -> int:
    descriptor, name = tempfile.mkstemp()
    os.unlink(name)
    return descriptor
