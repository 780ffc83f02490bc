"""The headers of all pages: what a browser may load and keep, and where a page may be shown.

Nothing comes from another server, no script or style stands in the page, and no other page frames it (OWASP Content
Security Policy Cheat Sheet).
"""

from __future__ import annotations

from typing import Final

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
PROTECTION: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
PRIVATE: Final = {"cache-control": "no-store"}
"""Of pages: they show what the visitor may see now, and no copy outlives the sign-out."""
