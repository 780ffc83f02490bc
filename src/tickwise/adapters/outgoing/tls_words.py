"""A failure of TLS in words: what is wrong with which certificate, and where to mend it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

# Of X.509 (RFC 5280), as OpenSSL numbers them in `x509_vfy.h`.
_VERIFY: Final[Mapping[int, str]] = MappingProxyType({
    9: "the server's certificate is not valid yet: look at the clocks of both machines",
    10: "the server's certificate has expired",
    18: "the server's certificate is signed by itself and not trusted: name it in `tls.ca`",
    19: "the server's certificate comes from an authority that is not trusted here: name that in `tls.ca`",
    20: "the server's certificate comes from an authority that is not trusted here: name that in `tls.ca`",
    21: "the server's certificate comes from an authority that is not trusted here, or its chain is not whole: name "
    "the authority in `tls.ca`, or let the server send the whole chain",
    23: "the server's certificate was revoked",
    26: "the server's certificate is made for another purpose than a server's",
    62: "the server's certificate is made for another host",
    64: "the server's certificate is made for another address: call the server by its name",
})  # fmt: skip

# Alerts and local refusals, by OpenSSL's names for them.
_REASONS: Final = (
    ("CERTIFICATE_REQUIRED", "the server wants a certificate of the client, and the task has none: give `tls`"),
    ("ALERT_CERTIFICATE_EXPIRED", "the server says that the client's certificate has expired"),
    ("ALERT_CERTIFICATE_REVOKED", "the server says that the client's certificate was revoked"),
    ("ALERT_UNKNOWN_CA", "the server does not trust the authority of the client's certificate"),
    ("ALERT_BAD_CERTIFICATE", "the server refuses the client's certificate"),
    ("ALERT_CERTIFICATE_UNKNOWN", "the server refuses the client's certificate"),
    ("ALERT_UNSUPPORTED_CERTIFICATE", "the server does not take certificates of this kind"),
    ("ALERT_ACCESS_DENIED", "the server refuses the client's certificate"),
    ("ALERT_PROTOCOL_VERSION", "the server speaks no version of TLS that the task allows (`tls.minimum_version`)"),
    ("UNSUPPORTED_PROTOCOL", "the server speaks no version of TLS that the task allows (`tls.minimum_version`)"),
    ("ALERT_HANDSHAKE_FAILURE", "the server refuses the connection: it wants a certificate, or other ciphers"),
    ("WRONG_VERSION_NUMBER", "the server does not speak TLS on this port: call it with http://, or another port"),
    ("HTTP_REQUEST", "the server does not speak TLS on this port: call it with http://, or another port"),
)  # fmt: skip


def tls_words(error: BaseException) -> str | None:
    """Describe a failure of TLS; None: the error has another cause."""
    for one in _chain(error):
        # The library's own error is of this class too, without these attributes: it has the real one in itself.
        code = getattr(one, "verify_code", None) if isinstance(one, ssl.SSLCertVerificationError) else None
        if code is not None:
            said = _VERIFY.get(code)
            return said or f"the server's certificate is not accepted: {getattr(one, 'verify_message', code)}"
        if isinstance(one, ssl.SSLError) and (reason := getattr(one, "reason", None)):
            said = next((words for name, words in _REASONS if name in reason), None)
            return said or f"the connection could not be secured: {str(reason).replace('_', ' ').lower()}"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it comes from. A library keeps some of them in attributes."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        kept = (getattr(one, name, None) for name in ("certificate_error", "os_error"))
        waiting.extend((one.__context__, one.__cause__, *(each for each in kept if isinstance(each, BaseException))))
