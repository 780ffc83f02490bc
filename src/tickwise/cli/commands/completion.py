"""`tickwise completion SHELL`: what a shell needs to complete our commands and options."""

from __future__ import annotations

import click

_HOW = {
    "bash": 'eval "$(tickwise completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(tickwise completion zsh)"    in ~/.zshrc',
    "fish": "tickwise completion fish > ~/.config/fish/completions/tickwise.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(list(_HOW)))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    from tickwise.cli.main import root

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}.")
    completer = found(root, {}, "tickwise", "_TICKWISE_COMPLETE")
    # The template, not `source()`: that one starts the shell to look at its version.
    click.echo(completer.source_template % completer.source_vars())
