"""`tickwise open`: the pages in a browser of this machine, signed in by a link that works once."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.session import Session, view_options


@click.command("open")
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open no browser.")
@view_options
@click.pass_obj
def open_pages(session: Session, print_only: bool) -> None:
    """Open the pages in a browser of this machine, signed in with the key of the command line.

    The link works once, for some minutes, on the machine of the server. Elsewhere sign in at /login.
    """
    link: dict[str, Any] = session.client.session_link()
    url = session.client.url + link["path"]
    if session.as_json:
        session.show_json({"url": url, "expires_in": link["expires_in"]})
        return
    if print_only:
        session.say(url)
        return
    import webbrowser

    if not webbrowser.open(url):
        raise CommandFailure(
            "no browser could be started.",
            Exit.REFUSED,
            advice=f"Open this link within {link['expires_in'] // 60} minutes; it works once: {url}",
        )
    session.say("The pages are open in your browser.")
