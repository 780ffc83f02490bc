"""`/saved-views`: the filters of the lists of pages under a name, of the caller alone or for all of the namespace."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API
from tickwise.control.jobs.saved_views import NAME_CHARACTERS, QUERY_CHARACTERS, SavedViewService
from tickwise.ports.store import SHARED, SavedView

ListName = Annotated[Literal["jobs", "runs"], Meta(description="The list that it is about.")]
ViewName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS)]
Shared = Annotated[bool, Meta(description="For everybody of the namespace, and not for the caller alone.")]


class SavedViewBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A view to save."""

    list: ListName
    name: ViewName
    query: Annotated[
        str,
        Meta(
            max_length=QUERY_CHARACTERS,
            description="The filters as the address of the page has them: `status=FAILED&label=team%3Ddata`.",
        ),
    ]
    shared: Shared = False


class SavedViewQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The view that is meant."""

    list: ListName
    name: ViewName
    shared: Shared = False


class SavedViewView(msgspec.Struct, kw_only=True):
    """A saved view."""

    list: ListName
    name: str
    query: str
    shared: bool
    saved_by: str
    """The name of the caller who saved it last."""


class SavedViewGone(msgspec.Struct, kw_only=True):
    """A saved view that was removed."""

    list: ListName
    name: str
    shared: bool


_body: Final = msgspec.json.Decoder(SavedViewBody)


def saved_view_view(view: SavedView) -> SavedViewView:
    """A view as it is answered."""
    return SavedViewView(
        list="jobs" if view.path == "/jobs" else "runs",
        name=view.name,
        query=view.query,
        shared=view.owner == SHARED,
        saved_by=view.by,
    )


async def saved_views_list(call: Call) -> Reply:
    """All that the caller sees: at most a hundred."""
    return answer(200, [saved_view_view(each) for each in await call.control.saved_views.page(call.principal)])


async def saved_view_put(call: Call) -> Reply:
    """Save it."""
    body = decode(_body, call.body, field_names(SavedViewBody))
    who = call.principal
    owner = SHARED if body.shared else who.credential_name
    view = SavedView(
        namespace=who.namespace, owner=owner, path=f"/{body.list}", name=body.name, query=body.query, by=who.name
    )  # fmt: skip
    return answer(200, saved_view_view(await call.control.saved_views.save(who, view)))


async def saved_view_remove(call: Call) -> Reply:
    """Remove it."""
    said: SavedViewQuery = call.query
    await call.control.saved_views.remove(call.principal, f"/{said.list}", said.name, shared=said.shared)
    return answer(200, SavedViewGone(list=said.list, name=said.name, shared=said.shared))


SAVED_VIEWS: Final = (
    Endpoint(
        method="GET", path=f"{API}/saved-views", control=SavedViewService.page, name="listSavedViews",
        tag="saved views", summary="The saved views of the caller, and those for everybody of the namespace.",
        handler=saved_views_list, answers=(list[SavedViewView],),
    ),
    Endpoint(
        method="PUT", path=f"{API}/saved-views", control=SavedViewService.save, name="putSavedView",
        tag="saved views", summary="Save the filters of a list under a name, in place of the view of that name.",
        description="A view for everybody needs `jobs:write` or `jobs:operate` for all jobs of the namespace.",
        handler=saved_view_put, body=SavedViewBody, answers=(SavedViewView,), refuses=(409,),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/saved-views", control=SavedViewService.remove, name="deleteSavedView",
        tag="saved views", summary="Remove a saved view.", handler=saved_view_remove, query=SavedViewQuery,
        answers=(SavedViewGone,), refuses=(404,),
    ),
)  # fmt: skip
