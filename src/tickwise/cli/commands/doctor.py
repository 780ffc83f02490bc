"""`tickwise doctor`: looks over the set-up and says what to do."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import output
from tickwise.cli.commands.up import running_up
from tickwise.cli.failures import Exit
from tickwise.cli.session import Session, data_dir_option, json_option


@click.command()
@click.option(
    "--database", "database_url", metavar="URL", help="The store.  [TICKWISE_DATABASE_URL or the settings files]"
)
@data_dir_option
@json_option
@click.pass_obj
def doctor(session: Session, database_url: str | None) -> int:
    """Check this set-up and say what to do.

    Beside a running `up` it looks at that one's port and database, unless --database names another.

    The exit code is 1 if something is broken.
    """
    from tickwise import config
    from tickwise.wiring.doctor import Running
    from tickwise.wiring.doctor import doctor as examine

    given = {"data_dir": session.data_dir, "database_url": database_url}
    settings = config.load(session.environ, given)
    local = running_up(settings.data_dir)
    running = None if local is None else Running(local.url, local.pid, local.database_url)
    findings: list[dict[str, Any]] = [
        {"name": found.name, "level": found.level, "detail": found.detail, "advice": found.advice}
        for found in examine(settings, running, database_given=database_url is not None)
    ]
    if session.as_json:
        session.show_json(findings)
    else:
        rows = [(found["level"], found["name"], found["detail"], found["advice"] or "") for found in findings]
        output.table(session, ("LEVEL", "WHAT", "FOUND", "WHAT TO DO"), rows, empty="Nothing was checked.")
    return Exit.JOB_FAILED if any(found["level"] == "error" for found in findings) else Exit.OK
