"""Every metric, event, error code and endpoint is declared once, has one meaning, and is in the reference."""

from __future__ import annotations

import re
from collections import Counter
from types import ModuleType

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.style import api_page, errors_page, events_page, messages_page, metrics_page, runs_page, source, tree
from tickwise.api.resources import RESOURCES
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.observability.metrics import Metrics
from tickwise.ports.store import StoreStats
from tickwise.roles.shared import messages


@pytest.mark.takes_up_to(300)  # one is all sources read, 25 s on a busy machine
@pytest.mark.parametrize(
    "generator",
    [api_page, errors_page, events_page, messages_page, metrics_page, runs_page],
    ids=lambda generator: generator.__name__.rpartition(".")[2],
)
def test_the_reference_says_what_the_declarations_say(generator: ModuleType) -> None:
    """The page is what its generator writes: run `python -m tests.style.…_page` after a change."""
    assert generator.page() == tree.read(generator.PLACE)


def _twice(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


# ------------------------------------------------------------------------------------------------------- metrics


def test_every_metric_is_declared_once() -> None:
    """In three modules that `Metrics` puts together, so that its name, labels and meaning cannot differ from place to
    place."""
    metrics = source.metrics()
    assert [] == _twice([metric.name for metric in metrics])
    modules = {f"src/tickwise/observability/{name}.py" for name in ("keepers", "metrics", "warm_containers")}
    assert modules == {metric.place.split(":")[0] for metric in metrics}
    assert [] == [metric.name for metric in metrics if len(metric.meaning) < 15]


def test_what_is_scraped_is_what_is_declared() -> None:
    """The page is read from the source; the registry knows the same names."""
    scraped = {family.name for family in text_string_to_metric_families(Metrics().render().decode())}
    # Those of the process are of the library, and the same in every program.
    assert {metric.name for metric in source.metrics()} == {name for name in scraped if not name.startswith("process_")}


def test_every_figure_of_the_store_is_a_metric() -> None:
    """One that is asked of the store and shown to nobody would cost a count at each scrape."""
    text = tree.read("src/tickwise/observability/metrics.py")
    assert [] == [name for name in StoreStats.__dataclass_fields__ if f"stats.{name}" not in text]


# -------------------------------------------------------------------------------------------------------- events


def test_every_event_has_one_place_and_one_meaning() -> None:
    """Two places that log the same name would mean two things by it."""
    names = [event.name for event in source.events()]
    assert [] == _twice(names)
    assert set(events_page.MEANINGS) == set(names)


def test_events_have_names_and_fields() -> None:
    """A name that programs can look for; what varies is in the fields."""
    events = source.events()
    assert [] == [event for event in events if not re.fullmatch(r"[a-z][a-z0-9_]*", event.name)]
    assert [] == [event for event in events if "…" in event.fields]


# --------------------------------------------------------------------------------------------------------- codes


def test_every_error_code_has_a_meaning() -> None:
    """A class says it in its docstring; a narrower code says it in the table of the page."""
    assert [] == [code for code, (_, meaning) in errors_page.table().items() if len(meaning) < 15]


def test_no_meaning_is_left_of_a_code_that_is_gone() -> None:
    """What the page explains is raised somewhere."""
    used = {code for code, _, _ in errors_page.narrowed()}
    assert set(errors_page.MEANINGS) == used
    assert set(errors_page.LOCAL) <= source.codes_of_command_line()


def test_a_code_belongs_to_one_kind_of_error() -> None:
    """The same code under two statuses would ask programs to do two things."""
    by_code: dict[str, set[int]] = {}
    for kind in errors_page.classes():
        if "code" in vars(kind):
            by_code.setdefault(kind.code, set()).add(errors_page.status_of(kind))
    for code, kind, _ in errors_page.narrowed():
        by_code.setdefault(code, set()).add(errors_page.status_of(kind))
    assert {} == {code: statuses for code, statuses in by_code.items() if len(statuses) > 1}


# ----------------------------------------------------------------------------------------------------- endpoints


def test_every_endpoint_is_on_the_page() -> None:
    """With its method, as it is declared."""
    page = api_page.page()
    declared = [f"### {endpoint.method} {endpoint.path}\n" for endpoint in RESOURCES]
    assert [] == [title for title in declared if title not in page]


# ---------------------------------------------------------------------------------------------------------- runs


def test_states_and_variables_have_a_meaning() -> None:
    """Each, and none that is gone."""
    assert set(RunState) == set(runs_page.STATES)
    assert set(JobStatus) == set(runs_page.STATUSES)
    assert set(runs_page.variables()) == set(runs_page.VARIABLES)


def test_reasons_have_a_meaning() -> None:
    """What a runner or the executor gives as a reason is explained, and what is explained can occur."""
    assert set() == source.reasons() - set(runs_page.REASONS)
    assert [] == [reason for reason in runs_page.REASONS if not source.literal_anywhere(reason)]


# ------------------------------------------------------------------------------------------------------ messages


def test_every_field_of_a_message_has_a_meaning() -> None:
    """Its name says it, as it does of a job or a run, or the text after it."""
    assert [] == messages_page.missing()


def test_every_message_is_on_the_page() -> None:
    """With a channel and a key; the example is read as it was written."""
    assert set(messages.KINDS) == {said.kind for said in messages_page.PAGES}


# --------------------------------------------------------------------------------------------------------- links


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link of a page names a file or a folder that is there."""
    links = [
        (place, target)
        for place in tree.committed_files()
        if place.endswith(".md")
        for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", tree.read(place))
    ]
    assert [] == [
        (place, target) for place, target in links if not (tree.ROOT / place).parent.joinpath(target).exists()
    ]
