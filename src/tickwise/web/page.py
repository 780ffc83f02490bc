"""A page, declared as data, so that its permissions can be checked for all pages.

WebPage(method, path, name, handler, control=…)  ◄── views declare them
    ├──► app      serves them
    └──► a test   walks them: page × role × namespace
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from tickwise.web.visit import Visit

Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page, or the target of a form."""

    method: str
    path: str
    name: str
    """It is told in the log and in metrics by its path, and in tests by this."""
    handler: Handler
    control: tuple[Callable[..., Any], ...] = ()
    """The methods of control that it cannot do without: the visitor needs a permission of each."""
    query: tuple[str, ...] = ()
    """The parameters of its address, beside the namespace. Others are refused."""
    takes_any_query: bool = False
    """Its address is made elsewhere, with parameters that are not known here."""
    is_open: bool = False
    """It needs no sign-in."""
    is_stream: bool = False
    """Its answer goes on for as long as a page is open. The page asks for it by itself, so it is no use of the
    session."""
