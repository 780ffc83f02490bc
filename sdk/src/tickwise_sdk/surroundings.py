"""The server that the surroundings of a program name: its environment, else the `tickwise up` of this machine.

    TICKWISE_URL, TICKWISE_API_KEY, TICKWISE_CA_FILE, TICKWISE_NAMESPACE  >  <data folder>/client.json

Without a key, the token of a pipeline or a cluster is exchanged for one of the server (`federated`): where
TICKWISE_FEDERATED_TOKEN_FILE names it, or GitHub gives one.

The same places as those of the command line, but for sign-ins of people: a program has a key of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from tickwise_sdk.data_folder import data_folder
from tickwise_sdk.errors import ClientError
from tickwise_sdk.exchange import ServerTrust
from tickwise_sdk.federated import TOKEN_FILE, FederatedKey, has_federated_token

CLIENT_FILE: Final = "client.json"


class ServerFound(NamedTuple):
    """A server, and what a client of it needs."""

    url: str
    key: str | FederatedKey | None
    namespace: str | None
    trust: ServerTrust


def find_server(environ: Mapping[str, str] | None = None) -> ServerFound:
    """The server to talk to. Raises `ClientError`, with how to name one, if there is none."""
    environ = os.environ if environ is None else environ
    url, key = environ.get("TICKWISE_URL") or None, environ.get("TICKWISE_API_KEY") or None
    namespace, ca_file = environ.get("TICKWISE_NAMESPACE") or None, environ.get("TICKWISE_CA_FILE") or None
    local = {} if url and key else _local(data_folder(environ))
    server_name, is_own = None, key is None
    if local and (url is None or url.rstrip("/") == str(local["url"]).rstrip("/")):
        # The key of the local server is for that one alone.
        url, key = str(local["url"]), key or local.get("key")
        if ca_file is None:
            ca_file, server_name = local.get("ca_file"), local.get("server_name")
    if url is None:
        raise ClientError(
            "there is no server to talk to: set TICKWISE_URL and TICKWISE_API_KEY, or start one on this machine with "
            f"`tickwise up` (looked in {data_folder(environ)})"
        )
    trust = ServerTrust(ca_file, server_name)
    if has_federated_token(environ) and (key is None or (is_own and environ.get(TOKEN_FILE))):
        return ServerFound(url, FederatedKey(url, environ, trust=trust), namespace, trust)
    return ServerFound(url, key, namespace, trust)


def _local(folder: Path) -> dict[str, Any]:
    """The record that a running `up` wrote about itself; empty if there is none that is whole and readable."""
    try:
        value = json.loads((folder / CLIENT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    found = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return found if isinstance(found.get("url"), str) else {}
