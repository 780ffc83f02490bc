"""The options of a job that say what surrounds its task.

--isolation sandbox                                   ──► isolation
--allow-network api.example.com:443 · any · none      ──► allow_network
--run-as backup                                       ──► run_as
--resource gpu=1                                      ──► resources
--identity-token sts.amazonaws.com                    ──► identity_token
--image python:3.12                                   ──► container_image, and isolation container
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from tickwise.cli import work
from tickwise.cli.session import Decorated, Session
from tickwise.domain.rules.confinement import ISOLATED_KINDS, Isolation

ANY: Final = "any"
"""As the value of `--allow-network`: all that the executor reaches."""
NONE: Final = "none"
"""As the value of an option: take away what the job has."""
ISOLATIONS: Final = ("sandbox", "process", "container")
_OPTIONS: Final = ("isolation", "allow_network", "run_as", "resource", "identity_token", "image")


def confinement_options(command: Decorated) -> Decorated:
    """Add all options of what surrounds a task."""
    options = [
        click.option(
            "--isolation", type=click.Choice(ISOLATIONS),
            help="Run the task in a sandbox, as a plain process, or in a container. "
            "[default: sandbox where executors offer it]",
        ),
        click.option(
            "--allow-network", multiple=True, metavar="HOST:PORT",
            help="Let a sandboxed task reach this; repeat it for more; any for the whole network.",
        ),
        click.option("--run-as", metavar="USER", help="Run the task as this system user, if the executors allow it."),
        click.option(
            "--resource", multiple=True, metavar="NAME=N",
            help="Reserve this much of a counted resource of the executor: gpu=1.",
        ),
        click.option(
            "--identity-token", multiple=True, metavar="AUDIENCE",
            help="Give each attempt a signed token for this audience: sts.amazonaws.com; repeat it for more.",
        ),
        click.option("--image", metavar="IMAGE", help="Run the script in a container of this image: python:3.12."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def fields(session: Session, options: dict[str, Any]) -> dict[str, Any]:
    """The fields that the options say; they are taken out."""
    said = {name: options.pop(name) for name in _OPTIONS}
    body: dict[str, Any] = {}
    if said["isolation"] is not None:
        body["isolation"] = said["isolation"]
        work.blame(session, "/isolation", "--isolation", said["isolation"])
    if said["image"] is not None:
        body["container_image"] = None if said["image"] == NONE else said["image"]
        body.setdefault("isolation", Isolation.PROCESS if said["image"] == NONE else Isolation.CONTAINER)
        work.blame(session, "/container_image", "--image", said["image"])
    if said["allow_network"]:
        body["allow_network"] = _network(said["allow_network"])
        work.blame(session, "/allow_network", "--allow-network", " ".join(said["allow_network"]))
        for place, text in enumerate(said["allow_network"]):
            work.blame(session, f"/allow_network/{place}", "--allow-network", text)
    if said["run_as"] is not None:
        body["run_as"] = None if said["run_as"] == NONE else said["run_as"]
        work.blame(session, "/run_as", "--run-as", said["run_as"])
    if said["resource"]:
        body["resources"] = _resources(said["resource"])
        work.blame(session, "/resources", "--resource", " ".join(said["resource"]))
    if said["identity_token"]:
        body["identity_token"] = _identity_token(said["identity_token"])
        work.blame(session, "/identity_token", "--identity-token", " ".join(said["identity_token"]))
    return body


def isolation_words(session: Session, job_id: str) -> str | None:
    """The sentence on the isolation that a created job got; None: its task can have none, or the caller may not see."""
    from tickwise.sdk.client import ProblemError

    try:
        job = session.client.job_get(job_id)
    except ProblemError as error:
        if error.status not in (403, 404):
            raise
        return None
    return described(job)


def described(job: Mapping[str, Any]) -> str | None:
    """The sentence on the isolation of a job as it is answered; None: its task can have none."""
    if (job.get("task") or {}).get("kind") not in ISOLATED_KINDS:
        return None
    if job["isolation"] == Isolation.CONTAINER:
        has = "the engine's network" if job["allow_network"] else "no network (--allow-network any)"
        return f"It runs in a container of {job['container_image']}, with {has}."
    if job["isolation"] != Isolation.SANDBOX:
        return "It runs as a plain process, without a sandbox."
    network = job["allow_network"]
    if network is True:
        return "It runs in a sandbox, with the network of its executor."
    reaches = ", ".join(network) if network else "no network (--allow-network)"
    return f"It runs in a sandbox that reaches {reaches}."


def _network(texts: tuple[str, ...]) -> Any:
    for word, value in ((ANY, True), (NONE, None)):
        if word in texts:
            if len(texts) > 1:
                raise click.UsageError(f"--allow-network {word} stands alone")
            return value
    return list(texts)


def _identity_token(audiences: tuple[str, ...]) -> dict[str, Any] | None:
    if audiences == (NONE,):
        return None
    return {"audience": audiences[0] if len(audiences) == 1 else list(audiences)}


def _resources(texts: tuple[str, ...]) -> dict[str, int] | None:
    if texts == (NONE,):
        return None
    found: dict[str, int] = {}
    for text in texts:
        name, _, amount = text.partition("=")
        if amount and not amount.isdecimal():
            raise click.UsageError(f"--resource {text!r}: write NAME=N, such as gpu=1")
        found[name] = int(amount or 1)
    return found
