"""The client of the command line with a method for each operation, for the commands that hand it to `tickwise_sdk`."""

from __future__ import annotations

from tickwise.sdk.client import Client
from tickwise_sdk.calls import Calls


class TypedClient(Client, Calls):
    """One server, one key."""
