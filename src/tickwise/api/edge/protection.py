"""The headers that protect browsers, on every answer.

A browser takes no answer for a page, runs nothing in it, and passes its address to nobody (OWASP REST Security Cheat
Sheet).
"""

from __future__ import annotations

from typing import Final

from tickwise.api.problems import Headers

PROTECTION: Final[Headers] = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
"""Under TLS: a browser that was here once uses no plain HTTP for a year (RFC 6797). Without `includeSubDomains`: other
names of the domain are not ours."""
