"""Writes the reference of the command line from the commands themselves: `python -m tickwise.cli.reference`.

A test compares what is written here with docs/reference/cli.md, so that the page cannot fall behind.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tickwise.cli.failures import MEANINGS
from tickwise.cli.main import SECTIONS, root
from tickwise.cli.session import Session

HEAD = """\
# The command line

<!-- Written by `python -m tickwise.cli.reference > docs/reference/cli.md`; a test compares. -->

`--json`, `--url`, `--api-key`, `--namespace` and `--data-dir` may stand before or after the command's name. With
`--json` a command writes one JSON value to stdout, messages go to stderr, and an error is an object with the one member
`error`.

A local `tickwise up` writes the file `client.json` to its data folder.

| | comes from the first of these that is there |
| --- | --- |
| the server | `--url`, `TICKWISE_URL`, `client.json`, the last `tickwise login` |
| the key | `--api-key`, `TICKWISE_API_KEY`, the sign-in at that server, `client.json` |
| the namespace | `--namespace`, `TICKWISE_NAMESPACE`, the first one of the key or of the roles |

On a terminal, and where `COLUMNS` says how wide the output is, tables fit: names and errors are shortened, of ids the
end is shown, times are ages. In a pipe they are whole, as with `-o wide`. How jobs and runs are named, and how times
are written: [work in the terminal](../how-to/terminal.md).

Times are shown in this machine's zone (or that of `TZ`), in another with `--timezone`, or in UTC with `--utc`.
`NO_COLOR` turns colours off, `TICKWISE_DEBUG=1` shows tracebacks.

## Exit codes

| code | meaning |
| --- | --- |
"""


def render() -> str:
    """The whole page."""
    lines = [HEAD.rstrip("\n")]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    context = click.Context(root, info_name="tickwise", obj=Session())
    for title, section in SECTIONS.items():
        lines += ["", f"## {title}"]
        for name in section:
            command = root.get_command(context, name)
            if command is not None:
                lines += _command(command, click.Context(command, parent=context, info_name=name))
    return "\n".join(lines) + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """A command and, of a group, its commands."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from ("", f"### `{context.command_path}`", "", f"    {usage}", "")
    yield "\n\n".join(map(_paragraph, inspect.cleandoc(command.help or "").split("\n\n")))
    options = [record for option in command.get_params(context) if (record := option.get_help_record(context))]
    # Arguments stand in the usage line; help is the same for every command.
    options = [(names, text) for names, text in options if text and names not in {"-h, --help", "--help"}]
    if options and not (isinstance(command, click.Group) and not command.invoke_without_command):
        yield from ("", "| option | meaning |", "| --- | --- |")
        yield from (f"| `{_cell(names)}` | {_cell(text)} |" for names, text in options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _command(below, click.Context(below, parent=context, info_name=name))


def _paragraph(text: str) -> str:
    """A paragraph of a help text; what click must not wrap are lines to type."""
    marked, mark, lines = text.rpartition("\b\n")
    return text if not mark else marked + "\n".join(f"    {line}" for line in lines.splitlines())


def _cell(text: str) -> str:
    """A text inside a cell of a table."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


if __name__ == "__main__":
    click.echo(render(), nl=False)
