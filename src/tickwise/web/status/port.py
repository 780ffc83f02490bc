"""The route of the public status pages: an answer that is kept, 404, or 503, and the headers of each.

No cookie is read and none is set, nobody is looked up, and no pace is counted: an answer costs what sending it costs.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tickwise.domain.errors import StoreUnavailable
from tickwise.web.assets import takes_gzip
from tickwise.web.status.board import AGAIN_SECONDS, FRESH_SECONDS, HTML, Render, StatusBoard

PATH: Final = "/status/{name}"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Of pages without scripts and forms."""
_KEPT: Final = f"public, max-age={FRESH_SECONDS:.0f}"


class StatusPort:
    """Answers requests for status pages."""

    def __init__(self, board: StatusBoard, render: Render) -> None:
        self._board = board
        none = {"title": "There is no such page", "text": "Look at the address: a letter may be missing."}
        away = {"title": "The state cannot be told now", "text": "Try again in a moment."}
        self._none = render("status_none.html", none).encode()
        self._away = render("status_none.html", away).encode()

    async def answer(self, request: Request) -> Response:
        """The page, in the form that the ending of its address names."""
        try:
            found = await self._board.answer(request.path_params["name"])
        except StoreUnavailable:
            headers = {"cache-control": "no-store", "retry-after": f"{AGAIN_SECONDS:.0f}"}
            return _protected(Response(self._away, 503, headers, HTML.media))
        if found is None:
            return _protected(Response(self._none, 404, {"cache-control": _KEPT}, HTML.media))
        form, made = found
        headers = {"cache-control": _KEPT, "etag": made.tag, "vary": "accept-encoding"}
        if made.tag in request.headers.get("if-none-match", ""):
            return _protected(Response(None, 304, headers))
        content = made.content
        if takes_gzip(request):
            content, headers["content-encoding"] = made.compressed, "gzip"
        return _protected(Response(content, 200, headers, form.media))


def _protected(response: Response) -> Response:
    response.headers.update(
        {
            "content-security-policy": POLICY,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "permissions-policy": "camera=(), geolocation=(), microphone=()",
        }
    )
    return response
