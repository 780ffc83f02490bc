"""Static files under names that have a hash of their content: a browser keeps them for a year.

    app.css ──► /static/app.3f2a9c41d07e.css      another content is another name

They are read and compressed once, when the process starts. `vendor/` is copied from npm at set-up (`make setup`):
where it is missing, pages are not live and work all the same.
"""

from __future__ import annotations

import gzip
import mimetypes
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).with_name("static")
PREFIX: Final = "/static/"
HASH_CHARACTERS: Final = 12
KEPT: Final = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """A static file."""

    content: bytes
    compressed: bytes | None
    """None: it gets no smaller."""
    media: str


class Assets:
    """All static files of the pages."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._urls: dict[str, str] = {}
        self._assets: dict[str, Asset] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                self._add(path, str(path.relative_to(folder)))

    def url(self, name: str) -> str | None:
        """The address of a file, such as `app.css`; None: there is none of the name."""
        return self._urls.get(name)

    def response(self, request: Request) -> Response:
        """The file of a request, 404 if its name is of no content that is here."""
        asset = self._assets.get(request.url.path)
        if asset is None:
            return Response("there is no such file here", 404, media_type="text/plain")
        headers = {"cache-control": KEPT, "vary": "accept-encoding"}
        content = asset.content
        if asset.compressed is not None and takes_gzip(request):
            content, headers["content-encoding"] = asset.compressed, "gzip"
        return Response(content, headers=headers, media_type=asset.media)

    def _add(self, path: Path, name: str) -> None:
        content = path.read_bytes()
        place = Path(name)
        hashed = f"{place.stem}.{sha256(content).hexdigest()[:HASH_CHARACTERS]}{place.suffix}"
        url = PREFIX + str(place.with_name(hashed))
        compressed = gzip.compress(content, 9, mtime=0)
        media = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._urls[name] = url
        self._assets[url] = Asset(content, compressed if len(compressed) < len(content) else None, media)


def takes_gzip(request: Request) -> bool:
    """Check whether the browser takes compressed answers."""
    return "gzip" in request.headers.get("accept-encoding", "")
