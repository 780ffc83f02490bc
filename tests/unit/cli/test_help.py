"""The help answers at once, says of every command what the command says itself, and matches the reference page."""

from __future__ import annotations

import inspect
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tickwise.cli import reference
from tickwise.cli.main import SECTIONS, main, root

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("asyncpg", "starlette", "httpx2", "rich", "msgspec", "asyncio", "psutil", "zoneinfo")


def test_the_help_imports_nothing_heavy() -> None:
    """What takes time to import is imported by the command that needs it."""
    code = (
        "import sys\nfrom tickwise.cli.main import main\nassert main(['--help']) == 0\n"
        f"print(*sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "" == done.stderr.strip()
    assert "Run everything on this machine" in done.stdout


def test_the_help_answers_at_once() -> None:
    """About 0.1 s of a processor, the best of five: counted in processor time, which a busy machine does not add to."""
    took = []
    for _ in range(5):
        before = _children_seconds()
        subprocess.run([sys.executable, "-m", "tickwise", "--help"], capture_output=True, check=True)
        took.append(_children_seconds() - before)
    assert min(took) < 0.45


def _children_seconds() -> float:
    """Processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, (*path, name))


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*each, id=each[0] or "tickwise") for each in _commands(root)]
)
def test_every_command_explains_itself(path: str, command: click.Command) -> None:
    """A help text of its own, and one for every option."""
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{path} {option.opts}"


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*each, id=each[0] or "tickwise") for each in _commands(root)]
)
def test_no_option_takes_the_value_of_another(path: str, command: click.Command) -> None:
    """Two parameters of one name share what is given for either: `--to NAME` was taken for `--namespace NAME`."""
    names = [option.name for option in command.params]
    assert sorted(names) == sorted(set(names)), path


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_the_summary_in_the_list_is_the_commands_own(name: str) -> None:
    """The list is shown without loading the command; what it says must still be true."""
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.help is not None
    entry = next(section[name] for section in SECTIONS.values() if name in section)
    assert entry.summary == inspect.cleandoc(command.help).split("\n\n")[0]


def test_the_reference_page_is_up_to_date() -> None:
    """Written by `python -m tickwise.cli.reference > docs/reference/cli.md`."""
    assert reference.render() == (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")


def test_a_command_with_a_typo_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    """And with the exit code for usage."""
    assert 2 == main(["job", "list"])
    assert "jobs" in capsys.readouterr().err.split("Did you mean")[1]


@pytest.mark.parametrize("group", ["jobs", "runs", "stops"])
def test_the_help_of_a_group_has_whole_sentences(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each of its commands, however long they are."""
    assert 0 == main([group, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    command = root.get_command(click.Context(root), group)
    assert isinstance(command, click.Group)
    for below in command.commands.values():
        assert " ".join((below.help or "?").partition("\n\n")[0].split()) in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without that shell being installed."""
    assert 0 == main(["completion", shell])
    assert "_TICKWISE_COMPLETE" in capsys.readouterr().out


def test_completion_knows_commands_and_options() -> None:
    """What the shell asks is answered from the same tree."""
    for words, expected in (("tickwise ru", ["run", "runs"]), ("tickwise runs logs --fo", ["--follow"])):
        env = {"_TICKWISE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from tickwise.cli.main import main; sys.exit(main())"],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert expected == [line.partition(",")[2] for line in done.stdout.splitlines()]
