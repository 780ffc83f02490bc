"""The synchronous client of a Tickwise server.

    with Client("http://127.0.0.1:8470", key) as tickwise:
        job = tickwise.create_job({"name": "hello", "schedule_type": "IMMEDIATE", "task": {...}})

Each operation of the API is a method, written from its description with the types of its body and answer (`calls.py`).
A refusal of the server is raised as `ProblemError`; a server that is away, or says that it is for now, is waited for
up to `patience_seconds` and then raised as `Unreachable`.

A server that buffers requests answers a create, change or cancel with `"status": "pending"` once it is accepted. A read
of what is accepted and not there yet is waited for like an absent server, and then raised as `Pending`.
"""

from __future__ import annotations

from tickwise_sdk.calls import Calls
from tickwise_sdk.plain_client import PlainClient


class Client(PlainClient, Calls):
    """One server, one key. Its connections are kept open until `close`."""
