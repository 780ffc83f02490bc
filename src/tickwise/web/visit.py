"""One request of a browser, read: who asks, in which namespace, with which query and form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from tickwise.control.access import access_of, holds_everywhere
from tickwise.control.control import Control
from tickwise.control.live.service import LiveService
from tickwise.domain.callers import Caller
from tickwise.domain.errors import Bug, NotFound
from tickwise.domain.model import Origin, Principal
from tickwise.domain.stops import Stop
from tickwise.web.cookies import Cookies
from tickwise.web.copies import LISTINGS, Copier, Copy
from tickwise.web.display import Display, display_of
from tickwise.web.navigation import DOORS, Door
from tickwise.web.sessions import Sessions
from tickwise.web.templating import Templates
from tickwise.web.transport import Transport
from tickwise.web.vouching.headers import ProxyHeaders

PART: Final = "tickwise-part"
"""The header that asks for one block of a page: `live`, `results`, `preview`."""
EVENTS_PATH: Final = "/live"
NAMESPACE: Final = "namespace"
"""The parameter that names the namespace, if it is not the caller's own."""
NO_FILTERS: Final = frozenset({NAMESPACE, "cursor", "rest", "col"})
"""Parameters of a list that its page alone has, or that a command has in another place."""

LocalFolder = Callable[[str, str | None], str | None]
"""By the address of the server and that of the client: the data folder by which a command on the client's machine finds
this server (`Copier`)."""


@dataclass(slots=True, kw_only=True)
class Visit:
    """A request."""

    control: Control
    templates: Templates
    sessions: Sessions
    cookies: Cookies
    transport: Transport
    local_folder: LocalFolder
    proxies: ProxyHeaders
    request: Request
    origin: Origin
    cookie: str | None = None
    """The session's, also of one that has ended."""
    caller: Caller | None = None
    """None: nobody is signed in."""
    principal: Principal | None = None
    form: Mapping[str, str] = field(default_factory=dict)
    is_stream: bool = False
    """A page asks for it by itself, and for as long as it is open."""
    job_zone: str | None = None
    """The zone of the job that the page is about."""
    spaces: Sequence[str] = ()
    """The names of the namespaces that the visitor can switch to."""
    stops: Sequence[Stop] = ()
    """The stops in force in the namespace: each page says so."""

    @property
    def who(self) -> Principal:
        """The caller in the namespace of the request."""
        if self.principal is None:
            raise Bug("a page that needs a sign-in was served without one")
        return self.principal

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address; of one that comes several times, the last."""
        return self.request.query_params

    @property
    def part(self) -> str | None:
        """The block that is asked for; None: the whole page."""
        return self.request.headers.get(PART)

    @property
    def is_document(self) -> bool:
        """True if a person asks for a whole page, or sends a form."""
        return self.part is None and not self.is_stream

    @property
    def now(self) -> float:
        """The store's time, near enough for people."""
        return self.control.context.time.at_best()

    @property
    def display(self) -> Display:
        """The choices of the visitor for zone, times and colours."""
        return display_of(self.request.cookies)

    def may(self, method: Callable[..., Any]) -> bool:
        """Check whether the visitor has a permission that this method of control asks for: what they may not do is not
        offered. Control checks again."""
        access = access_of(method)
        if access is None or self.principal is None:
            return False
        who = self.principal
        held = any(who.may(permission) for permission in access.permissions)
        return not access.permissions or held or (access.by_labels and bool(who.selector(access.permissions)))

    def _leads(self, door: Door) -> bool:
        """Check whether the visitor may go there."""
        if door.control is None:
            return True
        access = access_of(door.control)
        if door.for_installation and access is not None and self.principal is not None:
            return any(holds_everywhere(self.principal, permission) for permission in access.permissions)
        return self.may(door.control)

    def uuid(self, name: str, what: str) -> UUID:
        """An id from the path. One that is malformed names nothing."""
        text = self.request.path_params[name]
        try:
            return UUID(text)
        except ValueError:
            raise NotFound(f"there is no {what} {text[:100]!r}") from None

    def url(self, path: str, **query: object) -> str:
        """The address of a page in the namespace of this one. A parameter that is None is left out."""
        pairs: list[tuple[str, str]] = []
        for key, value in query.items():
            pairs += [
                (key, str(each)) for each in (value if isinstance(value, list | tuple) else [value]) if each is not None
            ]
        if self.principal is not None and self.caller is not None and self.principal.namespace != self.caller.home:
            pairs.append((NAMESPACE, self.principal.namespace))
        return f"{path}?{urlencode(pairs)}" if pairs else path

    def events(self, **query: object) -> str:
        """The address of the stream that tells a page when something has changed of what it shows; empty if the visitor
        may not have it."""
        return self.url(EVENTS_PATH, **query) if self.may(LiveService.events) else ""

    @property
    def address(self) -> str:
        """The address of this page: where a form that changes no page leads back to."""
        url = self.request.url
        return url.path + (f"?{url.query}" if url.query else "")

    def copies(self) -> Sequence[Copy]:
        """The list or the thing of this page as commands."""
        if self.principal is None:
            return ()
        base = str(self.request.base_url)
        copier = Copier(base, self.principal.namespace, self.local_folder(base, self.origin.address))
        path = self.request.url.path
        kind, _, name = path.strip("/").partition("/")
        if path in LISTINGS:
            query = [(key, value) for key, value in self.request.query_params.multi_items() if key not in NO_FILTERS]
            listing = copier.listing(path, query)
            return () if listing is None else (listing,)
        found = name.partition("/")[0]
        if kind == "errors" and "error_id" in self.request.path_params:
            return copier.of_error(found)
        if kind in ("jobs", "runs") and {"job_id", "run_id"} & self.request.path_params.keys():
            return copier.of_job(found) if kind == "jobs" else copier.of_run(found)
        return ()

    def page(self, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        """The page, or the block of it that is asked for."""
        path = self.request.url.path
        doors = [door for door in DOORS if self._leads(door)]
        display = self.display
        own = {
            "visit": self,
            "display": display,
            "theme": display.forced_theme,
            "zone": display.zone_for(self.job_zone),
            "address": self.address,
            "now": self.now,
            "doors": doors if self.principal is not None else [],
            "here": next((door.path for door in DOORS if door.path == f"/{path.split('/')[1]}"), ""),
            "spaces": self.spaces,
            "listings": [door.path for door in doors],
            "copies": self.copies(),
        }
        return self.templates.response(template, {**own, **values}, self.part, status)
