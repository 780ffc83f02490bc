"""Completion of names by the shell: jobs, runs and queues of the server that a command would ask.

A person waits for it with a finger on the key, so it asks once, for a second at most, and answers nothing where that
does not help: an error has no place on a half-typed line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from tickwise.cli.lookup.names import LIVE
from tickwise.cli.session import Session

ASK_SECONDS: Final = 1.0
MAX_OFFERED: Final = 50


class _Offered(click.ParamType[str, str]):
    """A word that the server knows names for; any word is taken."""

    name = "text"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str  # noqa: ARG002  # the signature is click's
    ) -> list[CompletionItem]:  # fmt: skip
        """The names that begin with what is typed."""
        try:
            offered = self.offered(_asker(ctx), incomplete)
        except Exception:  # noqa: BLE001  # a half-typed line is no place for an error
            return []
        return [each for each in offered if each.value.startswith(incomplete)]

    def offered(self, ask: Callable[..., Any], incomplete: str) -> list[CompletionItem]:
        """The names that the server offers."""
        raise NotImplementedError


class JobName(_Offered):
    """The name of a job that will run again."""

    def offered(self, ask: Callable[..., Any], incomplete: str) -> list[CompletionItem]:
        """Each name once, with its schedule."""
        found = ask("/jobs", name=incomplete or None, status=list(LIVE), limit=500)
        names = {job["name"]: job["cron_expression"] or job["schedule_type"].lower() for job in found}
        return [CompletionItem(name, help=said) for name, said in list(names.items())[:MAX_OFFERED]]


class RunName(JobName):
    """A run: the end of its id, or the name of its job."""

    def offered(self, ask: Callable[..., Any], incomplete: str) -> list[CompletionItem]:
        """The newest runs, then the jobs."""
        runs = [
            CompletionItem(run["run_id"][-8:], help=run["status"].lower()) for run in ask("/runs", limit=MAX_OFFERED)
        ]
        return [*runs, *super().offered(ask, incomplete)]


class QueueName(_Offered):
    """The name of a queue."""

    def offered(self, ask: Callable[..., Any], incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - all are few
        """All queues."""
        return [CompletionItem(each["queue"]) for each in ask("/queues")]


JOB: Final = JobName()
RUN: Final = RunName()
QUEUE: Final = QueueName()


def _asker(ctx: click.Context) -> Callable[..., Any]:
    """A function that asks the server of this command line once. Raises what the client raises."""
    from tickwise.sdk.client import Client

    session = ctx.find_object(Session) or Session()
    credential, target = session.credential, session.target

    def ask(path: str, **query: Any) -> Any:
        with Client(
            target.url, credential, namespace=target.namespace, timeout_seconds=ASK_SECONDS, patience_seconds=0.0,
            trust=session.trust,
        ) as client:  # fmt: skip
            return client.request("GET", path, query=query).body

    return ask
