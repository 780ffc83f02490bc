"""What the pages name is there: commands with their options, permissions, reasons of skipped occurrences."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from tests.style import tree
from tickwise.cli.main import root
from tickwise.domain.decision import SkipReason
from tickwise.domain.permissions import Permission

CALL = re.compile(r"(?:^ {4,}(?:\$ )?|`|\.venv/bin/)tickwise ([a-z][^`\n#|]*)")
"""A command in an indented block, or in code within a sentence."""
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def _pages() -> list[str]:
    pages = [place for place in tree.committed_files() if place.endswith(".md") and "/decisions/" not in place]
    return [place for place in pages if place.startswith(("README", "docs/", "examples/"))]


def _faults(call: str) -> Iterator[str]:
    """The first word of a call that names no command, or each option that the command does not have."""
    context = click.Context(root, info_name="tickwise")
    command: click.Command = root
    known = {option for parameter in root.params for option in parameter.opts}
    for word in call.split():
        if not isinstance(command, click.Group):
            break
        if not re.fullmatch(r"[a-z][\w-]*", word):
            return
        found = command.get_command(context, word)
        if found is None:
            yield f"no command {word!r} in {call!r}"
            return
        command = found
        known |= {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    if not isinstance(command, click.Group):
        yield from (f"no option {option} in {call!r}" for option in OPTION.findall(call) if option not in known)


def test_each_command_that_a_page_names_is_there() -> None:
    """With its options, also within sentences and tables; `tests/unit/cli/test_documents.py` types those in blocks."""
    calls = [
        (f"{place}:{number}", match[1].strip())
        for place in _pages()
        for number, line in enumerate(tree.read(place).splitlines(), 1)
        for match in CALL.finditer(line)
    ]
    assert len(calls) > 500
    assert [] == [f"{place}: {fault}" for place, call in calls for fault in _faults(call)]


def test_a_command_or_an_option_that_is_missing_is_found() -> None:
    """The rule above, on three samples."""
    assert [] == [*_faults("jobs list --label team=billing")]
    assert 1 == len([*_faults("jobs export")])
    assert 1 == len([*_faults("jobs list --colour")])


def test_the_page_about_keys_lists_each_permission() -> None:
    """A permission that it leaves out is one that nobody gives."""
    text = tree.read("docs/how-to/keys.md")
    assert [] == [permission for permission in Permission if f"`{permission}`" not in text]


def test_the_reference_lists_each_reason_of_a_skip() -> None:
    """Records have them, and programs decide by them."""
    table = tree.read("docs/reference/schedules.md").partition("## Reasons in records")[2].partition("\n## ")[0]
    assert {reason.value for reason in SkipReason} == {*re.findall(r"`([a-z]+)`", table)} - {"reason"}
