"""Labels on the command line: `NAME=VALUE`, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click


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
