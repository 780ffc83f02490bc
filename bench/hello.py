"""The limit of T3: the same server, a route that does nothing."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def hello(_: Request) -> Response:
    """The least that an answer can be."""
    return Response(b'{"job_id":"00000000-0000-0000-0000-000000000000"}', 201, media_type="application/json")


app = Starlette(routes=[Route("/", hello, methods=["POST"])])
