"""Reads passwords: typed unseen on a terminal, or the first line of stdin with `--password-stdin`."""

from __future__ import annotations

import sys

import click

from tickwise.cli.session import Decorated


def password_option(command: Decorated) -> Decorated:
    """`--password-stdin`, for scripts: a password in the arguments could be read by everybody on the machine."""
    return click.option("--password-stdin", "from_stdin", is_flag=True, help="Read the password from stdin.")(command)


def read_password(prompt: str, *, from_stdin: bool, twice: bool = False) -> str:
    """One password. `twice`: a new one, which is typed two times. Raises `click.UsageError`."""
    if not from_stdin:
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to type a password on; give it with --password-stdin.")
        found: str = click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
        return found
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise click.UsageError("stdin has no password.")
    return line
