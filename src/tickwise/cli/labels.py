"""Labels on the command line: `NAME=VALUE`, how they are shown, and the options that give them to jobs.

--label NAME=VALUE · --remove-label NAME  ──► labels, of the job itself
--requires NAME[=VALUE]                   ──► requires, of the executors that may run it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from tickwise.cli import work
from tickwise.cli.session import Decorated, Session

NONE: Final = "none"
"""As the only value of `--requires`: take away what the job has."""


def read_labels(labels: Sequence[str], option: str = "--label") -> dict[str, str]:
    """The labels of an option that is given for each. Raises `click.UsageError`."""
    found = {}
    for label in labels:
        name, sign, value = label.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{option} {label!r}: write NAME=VALUE")
        found[name] = value
    return found


def labels_text(labels: Mapping[str, str]) -> str:
    """`env=prod,team=billing`."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def job_label_options(*, editing: bool = False) -> Callable[[Decorated], Decorated]:
    """`--label` and `--requires` of a job; `editing`: and `--remove-label`."""
    help_of_label = "Give the job this label; repeat it for more."
    options = [
        click.option(
            "--label", "labels", multiple=True, metavar="NAME=VALUE",
            help=f"{help_of_label} Its other labels stay." if editing else help_of_label,
        ),
        click.option(
            "--requires", multiple=True, metavar="NAME[=VALUE]",
            help="Only executors with this label run it; repeat it for more."
            + (" In place of what it has; `none` is none." if editing else ""),
        ),
    ]  # fmt: skip
    if editing:
        options.insert(
            1,
            click.option(
                "--remove-label", "unlabels", multiple=True, metavar="NAME", help="Take a label away; repeat it."
            ),
        )

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def job_label_fields(
    session: Session, options: dict[str, Any], *, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields that these options say; they are taken out. `before`: the job that they change, whose other labels
    stay. Raises `click.UsageError`."""
    body: dict[str, Any] = {}
    given, removed = read_labels(options.pop("labels")), options.pop("unlabels", ())
    if given or removed:
        kept = (before or {}).get("labels") or {}
        missing = [name for name in removed if name not in kept]
        if missing:
            raise click.UsageError(f"--remove-label {missing[0]}: the job has no such label")
        body["labels"] = {name: value for name, value in kept.items() if name not in removed} | given
        for name, value in given.items():
            place = name.replace("~", "~0").replace("/", "~1")
            work.blame(session, f"/labels/{place}", "--label", f"{name}={value}")
        work.blame(session, "/labels", "--label", labels_text(given))
    requires = options.pop("requires")
    if requires:
        none = before is not None and tuple(requires) == (NONE,)
        body["requires"] = [] if none else list(requires)
        for number, text in enumerate(requires):
            work.blame(session, f"/requires/{number}", "--requires", text)
        work.blame(session, "/requires", "--requires", " ".join(requires))
    return body
