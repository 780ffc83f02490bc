"""Label selectors: permissions that hold for some jobs alone, those that have certain labels.

    grant: permissions, labels ──► a job that has all of these labels ──► the permissions hold for it
    several grants             ──► a job that any of them is about

A run, a dead letter and a log belong to their job: the labels that count are those that the job has now.

Invariant: `None` is no restriction, and an empty selector is about no job. Neither is ever taken for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name; each name once."""

Selector = tuple[Labels, ...]
"""The jobs that have all labels of one of these."""


class RestrictedGrant(NamedTuple):
    """Permissions for the jobs that have certain labels."""

    permissions: frozenset[str]
    """With those that they imply."""
    labels: Labels
    is_everywhere: bool
    """It holds in each namespace."""


def labels_from(labels: Mapping[str, str]) -> Labels:
    """The labels in their sorted form."""
    return tuple(sorted(labels.items()))


def matches(labels: Mapping[str, str], selector: Selector | None) -> bool:
    """Check whether a selector is about a job with these labels."""
    return selector is None or any(all(labels.get(name) == value for name, value in each) for each in selector)


def combined(one: Labels, other: Labels) -> Labels | None:
    """The labels of both; None: they contradict each other, so no job has all of them."""
    both = dict(one)
    for name, value in other:
        if both.setdefault(name, value) != value:
            return None
    return labels_from(both)


def is_narrower(labels: Labels, wide: Labels) -> bool:
    """Check whether each job with the labels has those of `wide`, too."""
    return set(wide) <= set(labels)


def is_inside(selector: Selector, wide: Selector) -> bool:
    """Check whether each job of one selector is a job of the other."""
    return all(any(is_narrower(each, other) for other in wide) for each in selector)


def alternatives(labels: Mapping[str, str], selector: Selector | None) -> Sequence[Mapping[str, str]] | None:
    """The hits of a search for these labels within a selector: the jobs that have all labels of one of the answers.
    None: all jobs. Empty: none."""
    if selector is None:
        return [labels] if labels else None
    both = (combined(labels_from(labels), each) for each in selector)
    return [dict(each) for each in dict.fromkeys(both) if each is not None]


def in_words(selector: Selector) -> str:
    """The selector for people: `env=prod, team=billing or team=ops`."""
    return " or ".join(", ".join(f"{name}={value}" for name, value in each) for each in selector)
