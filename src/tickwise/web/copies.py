"""Commands to copy for the list or the thing of a page: curl, the command line, Python.

A page has the path and the parameters of the API, so its address says what to ask for. Invariant: each text is quoted
for its language, so any value of an address is a value there.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

API: Final = "/api/v1"
OF_COMMANDS: Final = ("http://127.0.0.1:8470", "http://localhost:8470")
"""The addresses of a local `up` by default, which commands find by themselves."""


class CopiedList(NamedTuple):
    """A list that the API has under the path of the page."""

    command: str
    options: Mapping[str, str]
    """The options of the command line by the parameters that they stand for."""
    has_pages: bool = True
    """False: the answer is one thing, with all there is."""


LISTINGS: Final = {
    "/jobs": CopiedList(
        "jobs list",
        {
            "name": "--name", "label": "--label", "status": "--status", "schedule_type": "--type",
            "task_kind": "--kind", "owner": "--owner",
        },
    ),
    "/runs": CopiedList(
        "runs list",
        {
            "job_id": "--job", "job_name": "--name", "status": "--status", "reason": "--reason", "queue": "--queue",
            "executor_id": "--executor", "label": "--label", "due_after": "--since", "due_before": "--until",
        },
    ),
    "/dead-letters": CopiedList(
        "dead-letters list", {"status": "--status", "reason": "--reason", "task_kind": "--kind"}
    ),
    "/analytics": CopiedList(
        "analytics",
        {
            "group_by": "--group-by", "from": "--since", "until": "--until", "sort": "--sort", "top": "--top",
            "job_id": "--job", "job_name": "--name", "status": "--status", "reason": "--reason", "queue": "--queue",
            "trigger": "--trigger", "executor_id": "--executor", "label": "--label",
        },
        has_pages=False,
    ),
    "/objectives": CopiedList("objectives list", {}),
    "/executors": CopiedList("executors list", {}),
    "/queues": CopiedList("queues list", {}),
    "/audit": CopiedList("audit list", {"actor": "--actor", "action": "--action", "target": "--target"}),
    "/users": CopiedList("users list", {}),
    "/keys": CopiedList("keys list", {}),
}  # fmt: skip


class Copy(NamedTuple):
    """One thing to ask for, in three languages."""

    title: str
    curl: str
    command: str
    python: str


class Copier:
    """Writes them for a server and a namespace."""

    def __init__(self, base: str, namespace: str, data_dir: str | None = None) -> None:
        """`base`: the address of the server as the browser knows it. `data_dir`: the data folder by which a command on
        this machine finds the server and its key; empty: the usual one, which needs no option; None: there is none, or
        the browser is elsewhere."""
        self._base = base.rstrip("/")
        self._namespace = namespace
        self._data_dir = data_dir

    def listing(self, path: str, query: Sequence[tuple[str, str]]) -> Copy | None:
        """A list with its filters. None: the command line has no such filter."""
        listing = LISTINGS[path]
        pairs = [(name, value) for name, value in query if value]
        if not all(name in listing.options for name, _ in pairs):
            return None
        words = [word for name, value in pairs for word in (f"{listing.options[name]}={value}",)]
        asked: dict[str, list[str]] = {}
        for name, value in pairs:
            asked.setdefault(name, []).append(value)
        given = f", {asked!r}" if asked else ""
        lines = [f"for page in client.pages({path!r}{given}):", "    for item in page:", "        print(item)"]
        if not listing.has_pages:
            lines = [f'print(client.request("GET", {path!r}{given.replace(", ", ", query=", 1)}).body)']
        return Copy(
            "This list" if listing.has_pages else "This answer",
            self._curl("GET", path, pairs),
            self._command(listing.command, *words),
            self._python(*lines),
        )

    def read(self, title: str, path: str, command: str, *words: str) -> Copy:
        """One thing."""
        return Copy(
            title,
            self._curl("GET", path, ()),
            self._command(command, *words),
            self._python(f'print(client.request("GET", {path!r}).body)'),
        )

    def act(self, title: str, path: str, command: str, *words: str) -> Copy:
        """An action on one thing, without a body."""
        return Copy(
            title,
            self._curl("POST", path, ()),
            self._command(command, *words),
            self._python(f'print(client.request("POST", {path!r}, body={{}}).body)'),
        )

    def of_job(self, job_id: object) -> list[Copy]:
        """A job, and what is done with it most."""
        path, word = f"/jobs/{job_id}", str(job_id)
        return [
            self.read("This job", path, "jobs show", word),
            self.act("Run it now", f"{path}/runNow", "jobs run-now", word),
            self.act("Pause it", f"{path}/pause", "jobs pause", word),
        ]

    def of_run(self, run_id: object) -> list[Copy]:
        """A run, and what is done with it most."""
        path, word = f"/runs/{run_id}", str(run_id)
        return [
            self.read("This run", path, "runs show", word),
            self.act("Cancel it", f"{path}/cancel", "runs cancel", word),
            self.act("Run it again", f"{path}/retry", "runs retry", word),
        ]

    def of_error(self, group_id: object) -> list[Copy]:
        """A group of errors."""
        return [self.read("This error", f"/errors/{group_id}", "errors show", str(group_id))]

    def _curl(self, method: str, path: str, pairs: Sequence[tuple[str, str]]) -> str:
        address = self._base + API + quote(path) + (f"?{urlencode(pairs)}" if pairs else "")
        words = ["curl", "-sS"]
        if method != "GET":
            words += ["-X", method, "-H", "Content-Type: application/json", "-d", "{}"]
        words += ["-H", f"Tickwise-Namespace: {self._namespace}"]
        # The variable stays one for the shell.
        return f'{shlex.join(words)} -H "Authorization: Bearer $TICKWISE_API_KEY" {shlex.quote(address)}'

    def _command(self, command: str, *words: str) -> str:
        if self._data_dir is not None:
            server = ["--data-dir", self._data_dir] if self._data_dir else []
        else:
            server = [] if self._base in OF_COMMANDS else ["--url", self._base]
        return f"tickwise {command} {shlex.join([*words, *server, '--namespace', self._namespace])}"

    def _python(self, *lines: str) -> str:
        opened = (
            f'with Client({self._base!r}, os.environ["TICKWISE_API_KEY"], namespace={self._namespace!r}) as client:'
        )
        return "\n".join(
            ["import os", "from tickwise_sdk import Client", "", opened, *(f"    {line}" for line in lines)]
        )
