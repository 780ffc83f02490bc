"""What the files of `deploy/` name is there: settings, metrics, commands, and each other. Needs no program but ours."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import click
import pytest

from tests.deploy.files import CHART, COMPOSE, DEPLOY, ROOT, UNITS, load, unit
from tickwise.cli.main import root
from tickwise.config import RESERVED, SETTINGS
from tickwise.observability.metrics import Metrics

VARIABLE: Final = re.compile(r"\bTICKWISE_[A-Z_]+\b")
METRIC: Final = re.compile(r"\btickwise_[a-z_]+\b")
ROLES: Final = ("api", "scheduler", "executor", "recorder")
PARTS: Final = ("search", "identity", "web")
"""Of the API, beside `api`, and the pages."""
SAMPLES: Final = {
    ("keeper", "port"): "8472", ("api", "serve"): "jobs,search", ("recorder", "serve"): "requests,results",
    ("executor", "queues"): "a,b",
    ("executor", "labels"): "gpu,zone=a", ("executor", "slots"): "4",
    ("executor", "resources"): "gpu=2,license=1",
}  # fmt: skip
"""A value for each option that the chart gives a role."""


def texts() -> Iterator[tuple[str, str]]:
    """Every file that is delivered, by its place."""
    for file in sorted(DEPLOY.rglob("*")):
        if file.is_file() and (DEPLOY / "compose" / "secrets") not in file.parents:
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def services() -> dict[str, Any]:
    """Of the compose file; YAML fills in what they have in common."""
    found: dict[str, Any] = load(COMPOSE)["services"]
    return found


def exported() -> set[str]:
    """The name of every series that a process shows."""
    names = set()
    for line in Metrics().render().decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            names |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


def refusal(words: list[str]) -> str:
    """What our program says against these words; empty if it would carry them out."""
    command: click.Command = root
    context: click.Context | None = None
    try:
        while isinstance(command, click.Group) and (words or not command.invoke_without_command):
            context = click.Context(command, parent=context, info_name=command.name)
            _, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
        command.make_context(command.name, words, parent=context)
    except click.UsageError as usage:
        return usage.format_message()
    return ""


def test_every_variable_is_a_setting() -> None:
    """A name that a later version does not know any more would be refused at the start, or have no effect."""
    known = {setting.variable for setting in SETTINGS.values()} | RESERVED
    named = {(place, name) for place, text in texts() for name in VARIABLE.findall(text)}
    assert set() == {(place, name) for place, name in named if name not in known}
    assert len(named) >= 10


def test_every_metric_that_scales_is_exported() -> None:
    """A scaling by a name that nobody exports never scales."""
    named = set(METRIC.findall((CHART / "templates" / "scaling.yaml").read_text(encoding="utf-8")))
    assert set() == named - exported()
    assert named


def test_pages_that_are_named_exist() -> None:
    """Whoever is paged at night finds what the alarm names."""
    named = {page for _, text in texts() for page in re.findall(r"docs/[\w/-]+\.md", text)}
    assert set() == {page for page in named if not (ROOT / page).exists()}
    assert named


@pytest.mark.parametrize("name", [*ROLES, *PARTS, "migrations", "channels"])
def test_the_commands_of_the_compose_file_exist(name: str) -> None:
    """With these options."""
    assert "" == refusal(list(services()[name]["command"]))


@pytest.mark.parametrize("name", [*ROLES, *PARTS, "migrations"])
def test_the_commands_of_the_units_exist(name: str) -> None:
    """With these options, and each role has its unit."""
    ((program, *words),) = (shlex.split(line) for line in unit(UNITS / f"tickwise-{name}.service")["ExecStart"])
    assert ("/opt/tickwise/bin/tickwise", "") == (program, refusal(words))


def test_the_commands_of_the_chart_exist() -> None:
    """Each role as its template calls it, with every option that a value may bring."""
    text = (CHART / "templates" / "roles.yaml").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for line in text.replace("concat $command (list ", 'list "executor" ').splitlines():
        for words in re.findall(r'\blist ("\w+".*)', line):
            role, *options = re.findall(r'"(?:--)?([a-z]\w*)"', re.sub(r'"(search|users,auth|web)"', "", words))
            given = [word for option in options for word in (f"--{option}", SAMPLES[role, option])]
            found[role] = found.get(role, "") + refusal([role, *given])
    assert dict.fromkeys((*ROLES, "keeper"), "") == found
    assert "" == refusal(of_the_migrations())


def of_the_migrations() -> list[str]:
    """The arguments of the chart's migrations, with every option that a value may bring."""
    text = (CHART / "templates" / "migrations.yaml").read_text(encoding="utf-8")
    (words,) = re.findall(r"\$command := list (.*) }}", text)
    form, shards = re.findall(r'printf "(--.*?)" ', text)
    assert '"executor" | ternary "executor" "service"' in text
    return [*shlex.split(words), *(form % (kind, f"tickwise_{kind}") for kind in ("executor", "service")), shards % 4]


@pytest.mark.parametrize("place", ["docs/how-to/deploy.md", "deploy/helm/tickwise/templates/NOTES.txt"])
def test_what_people_are_told_to_type_is_understood(place: str) -> None:
    """Each line of ours that they are to copy."""
    lines = re.findall(r"^ +tickwise (.+)$", (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE)
    assert {} == {line: why for line in lines if (why := refusal(shlex.split(line)))}
    assert lines


def test_images_are_pinned() -> None:
    """No tag that moves: what was tried is what is run. Each may be named otherwise, as by its digest."""
    images = {service["image"] for service in services().values()}
    wrong = {image for image in images if not re.fullmatch(r"\$\{IMAGE_[A-Z]+:-[\w./-]+:v?\d+\.\d+[\w.-]*\}", image)}
    (base,) = re.findall(r"^ARG BASE=(.*)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert (set(), True) == (wrong, bool(re.fullmatch(r"python:3\.\d+-slim-\w+", base)))
