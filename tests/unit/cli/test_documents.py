"""What the documents show is so: command lines can be typed, and answer what is shown; links lead somewhere."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.support.local_up import call_command, environment
from tickwise.cli.main import root
from tickwise.cli.session import Session

ROOT = Path(__file__).resolve().parents[3]
HOW_TO = tuple(sorted(f"docs/how-to/{path.name}" for path in (ROOT / "docs/how-to").glob("*.md")))
SDK = tuple(sorted(f"docs/sdk/{path.name}" for path in (ROOT / "docs/sdk").glob("*.md")))
DOCUMENTS = (
    "README.md", "docs/tutorial/first-job.md", "docs/tutorial/script-with-packages.md",
    "docs/tutorial/folder-of-scripts.md", "docs/reference/schedules.md", "examples/README.md", "examples/hello.py",
    "examples/backup_sqlite.py", "examples/disk_usage.sh", "examples/functions.py", *HOW_TO, *SDK,
)  # fmt: skip
_COMMAND = re.compile(
    r"(?:^|[\s`$])tickwise ((?:up|down|open|backup|restore|status|top|completion|run|jobs|runs|tasks|schedule|simulate|"
    r"blobs|import|export|calendars|windows|db|api|deploy(?!/)|scheduler|executor|recorder|roles|executors|keys|federations|users|namespaces|audit|"
    r"broker|dead-letters|operations|queues|stops|errors|analytics|objectives|doctor|login|config|channels|notify|alerts|"
    r"notices|status-pages|secrets|identity-keys|second-factors|shards)\b[^`\n]*)"
)
OF_SETTINGS = tuple(
    f"docs/how-to/{name}.md"
    for name in ("grafana", "logs", "notices", "secrets-from-elsewhere", "secrets-in-tasks", "sqs", "tracing")
)
"""Pages about settings, and what other programs make of them."""
FILES = ("api.log", "api.log.1", "anchors", "jobs.json", "shop.cron")
"""Files that commands name and that must be there."""
_ENDS = re.compile(r" {3,}| \|\|? | >| <<|,? …")
"""Where a command line ends: at what is said of it, or at another one."""


def _shown(place: str) -> Iterator[str]:
    for line in (ROOT / place).read_text(encoding="utf-8").splitlines():
        if place.endswith(".md") and not line.startswith(("    ", "|")):
            continue
        for found in _COMMAND.finditer(line):
            yield _ENDS.split(found[1])[0].strip()


@pytest.mark.parametrize(
    ("place", "line"),
    [pytest.param(place, line, id=f"{place}: {line}") for place in DOCUMENTS for line in _shown(place)],
)
def test_a_command_that_is_shown_can_be_typed(
    place: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are commands and options that there are, with values that they take."""
    for name in FILES:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    _parse(line.replace("/var/log/tickwise/", ""))


def _parse(line: str) -> None:
    command: click.Command = root
    context = click.Context(root, info_name="tickwise", obj=Session(environ={}))
    words = shlex.split(line)
    while isinstance(command, click.Group) and (words or not command.invoke_without_command):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=name)
    command.make_context(name, words, parent=context)


def _examples(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from ((path, found[1]) for line in paragraph.splitlines() for found in _COMMAND.finditer(line))
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from _examples(below, f"{path} {name}")


@pytest.mark.parametrize(
    ("path", "line"), [pytest.param(*each, id=": ".join(each)) for each in _examples(root, "tickwise")]
)
def test_an_example_of_a_help_text_can_be_typed(path: str, line: str) -> None:
    """It shows the command whose help it is."""
    _parse(_ENDS.split(line)[0])
    assert f"tickwise {line}".startswith(path)


def test_the_documents_show_commands() -> None:
    """The search above finds what it is meant to find."""
    assert 5 <= len(list(_shown("README.md")))
    assert 12 <= len(list(_shown("docs/tutorial/first-job.md")))
    assert [] == [place for place in HOW_TO if not list(_shown(place)) and place not in OF_SETTINGS]


# ------------------------------------------------------------------------------------------ what they answer


class _Dialogue(NamedTuple):
    """A command after `$`, and what is shown below it."""

    line: str
    answer: list[str]


def _dialogues(place: str) -> Iterator[_Dialogue]:
    """Those of an indented block, which goes on over empty lines."""
    found: _Dialogue | None = None
    for line in (ROOT / place).read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ tickwise "):
            if found is not None:
                yield found
            found = _Dialogue(line.removeprefix("    $ tickwise "), [])
        elif found is not None and (not line or line.startswith("    ")):
            found.answer.append(line[4:])
        elif found is not None:
            yield found
            found = None
    if found is not None:
        yield found


def _needs_no_server(line: str) -> bool:
    words = line.split()
    return (
        words[0] == "schedule"
        or (words[0] == "simulate" and "--file" in words)
        or (words[0] == "import" and "--dry-run" in words)
    )


LOCAL = [(place, each) for place in ("README.md", *HOW_TO) for each in _dialogues(place) if _needs_no_server(each.line)]


@pytest.mark.parametrize(("place", "shown"), [pytest.param(*each, id=f"{each[0]}: {each[1].line}") for each in LOCAL])
def test_a_command_answers_what_is_shown(place: str, shown: _Dialogue) -> None:
    """To the letter, where no server has a part in it; of what is said aside, the warnings."""
    line, _, wanted = shown.line.partition(" | grep ")
    words = [word.replace("shop.cron", "docs/how-to/shop.cron") for word in shlex.split(line)]
    ran = call_command(words, environment(TICKWISE_URL="http://127.0.0.1:1"))
    aside = [each for each in ran.err.splitlines() if each.startswith("warning: ")]
    said = [each.rstrip() for each in (*ran.out.splitlines(), *aside) if wanted in each]
    assert (0, "\n".join(shown.answer).rstrip().splitlines()) == (ran.code, said), place


def test_there_are_answers_to_compare() -> None:
    """Each of these pages shows some that need no server."""
    places = {place for place, _ in LOCAL}
    assert {"README.md", "docs/how-to/move-from-crontab.md", "docs/how-to/clock-changes.md"} <= places
    assert 10 <= len(LOCAL)


def test_the_crontab_of_the_page_is_the_one_that_is_imported() -> None:
    """The page shows the whole file."""
    file = (ROOT / "docs/how-to/shop.cron").read_text(encoding="utf-8")
    shown = "".join(f"    {line}".rstrip() + "\n" for line in file.splitlines())
    assert shown in (ROOT / "docs/how-to/move-from-crontab.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------ where they lead

PAGES = ("README.md", "ARCHITECTURE.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _anchors(path: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = _HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("place", PAGES)
def test_links_to_headings_lead_to_one(place: str) -> None:
    """A heading that was changed takes its links along."""
    lost: list[str] = []
    for target in _LINK.findall((ROOT / place).read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        path = (ROOT / place).parent / name if name else ROOT / place
        if anchor and "://" not in target and path.suffix == ".md" and anchor not in _anchors(path):
            lost.append(target)
    assert [] == lost


def test_the_tests_that_show_the_guarantees_are_there() -> None:
    """Each test that the page names is one that is run."""
    page = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")
    named = {*re.findall(r"`(test_\w+)`", page)}
    there: set[str] = set()
    for folder in ("tests", "src/tickwise/testing/contracts"):
        for path in (ROOT / folder).rglob("*.py"):
            there.update(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    assert 20 <= len(named)
    assert [] == sorted(named - there)
