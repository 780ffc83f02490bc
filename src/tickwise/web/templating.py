"""Templates: HTML from values. What comes from outside is always escaped, and a name that is not there is an error.

A page asks for one block of its template where a script renews a part of it: the same template serves both, so a part
cannot differ from the page.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.responses import Response

from tickwise.domain.excerpts import cause_line
from tickwise.ports.store import ErrorGroupRow, RunRow
from tickwise.web import texts
from tickwise.web.ansi import plain
from tickwise.web.assets import Assets
from tickwise.web.display import Times
from tickwise.web.headers import PRIVATE

_ENDED: Final = re.compile(r"(?:exit status \d+|ended by signal \S+|status \d{3})(?: |$)")
COMPRESSED_BYTES_MIN: Final = 1_024
PARTS: Final = frozenset({"live", "results", "preview"})
"""The blocks that may be asked for alone."""


class Templates:
    """All templates of the pages."""

    def __init__(self, assets: Assets) -> None:
        self._environment = environment = Environment(
            loader=PackageLoader("tickwise.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=texts.visible,
        )
        environment.globals["asset"] = assets.url
        environment.filters.update(
            absolute=_absolute,
            ago=_ago,
            breakable=texts.breakable,
            clock=_clock,
            duration=texts.duration,
            iso=texts.iso,
            capital=texts.capital,
            cause_line=cause_line,
            cause_title=_cause_title,
            coded=texts.coded,
            plain=plain,
            number=texts.number,
            reasoned=texts.reasoned,
            shell=texts.shell_quoted,
            strip=_strip,
        )
        environment.globals["percent"] = texts.percent

    def names(self) -> list[str]:
        """The names of all templates."""
        return self._environment.list_templates()

    def render(self, template: str, values: Mapping[str, Any], part: str | None = None) -> str:
        """The text of a page, or of one block of it."""
        found = self._environment.get_template(template)
        # A block that is rendered alone sees nothing that a template imports.
        values = {**values, "parts": self._environment.get_template("parts.html").make_module(dict(values))}
        if part in PARTS and part in found.blocks:
            return "".join(found.blocks[part](found.new_context(dict(values))))
        return found.render(values)

    def response(
        self, template: str, values: Mapping[str, Any], part: str | None = None, status: int = 200
    ) -> Response:
        """A page as it is answered."""
        return Response(self.render(template, values, part), status, dict(PRIVATE), media_type="text/html")


def _cause_title(group: ErrorGroupRow) -> str:
    """The exception and the message of a group of errors; how its runs ended, if they said nothing."""
    if not group.message:
        return group.kind or group.reason or "failed"
    exception = _ENDED.sub("", group.kind)
    return f"{exception}: {group.message}" if exception else group.message


@pass_context
def _absolute(context: Context, instant: float) -> str:
    return texts.absolute(instant, context["zone"])


@pass_context
def _ago(context: Context, instant: float | None, now: float) -> Markup:
    """A time beside now, unless the visitor wants all times absolute."""
    if context["display"].times is Times.ABSOLUTE:
        return texts.clock_tag(instant, context["zone"])
    return texts.time_tag(instant, now, context["zone"])


@pass_context
def _strip(context: Context, runs: Sequence[RunRow]) -> Markup:
    return texts.strip(runs, context["visit"].url, context["zone"])


@pass_context
def _clock(context: Context, instant: float | None) -> Markup:
    return texts.clock_tag(instant, context["zone"])


def compressed(response: Response) -> None:
    """Compress the body of an answer, if that is worth it."""
    if len(response.body) < COMPRESSED_BYTES_MIN or "content-encoding" in response.headers:
        return
    response.body = gzip.compress(bytes(response.body), 5)
    response.headers["content-encoding"] = "gzip"
    response.headers["content-length"] = str(len(response.body))
    response.headers.append("vary", "accept-encoding")
