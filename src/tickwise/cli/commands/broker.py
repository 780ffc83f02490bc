"""`tickwise broker …`: the topics of a broker, and the rights on them."""

from __future__ import annotations

import re

import click

from tickwise.cli.session import Session, json_option, keep_quiet

ROLES = ("api", "search", "scheduler", "executor", "recorder")


@click.group()
def broker() -> None:
    """Prepare the broker for roles that may not make topics.

    The broker is that of TICKWISE_BROKER_URL or the settings files, here by a user who may make topics and ACLs; the
    store that of TICKWISE_DATABASE_URL.
    """


def _users(_context: click.Context, _option: click.Parameter, said: tuple[str, ...]) -> dict[str, str]:
    users: dict[str, str] = {}
    for text in said:
        found = re.fullmatch(r"(\w+)=(\S+)", text)
        if found is None or found[1] not in ROLES:
            raise click.BadParameter(f"{text!r}: write ROLE=USER, with a role of {', '.join(ROLES)}")
        if found[1] in users:
            raise click.BadParameter(f"{text!r}: the role has a user already")
        users[found[1]] = found[2]
    return users


@broker.command()
@click.option(
    "--allow",
    "users",
    metavar="ROLE=USER",
    multiple=True,
    callback=_users,
    help="Give a user of Kafka the rights of a role: api, search, scheduler, executor or recorder. May be repeated.",
)
@json_option
@click.pass_obj
def prepare(session: Session, users: dict[str, str]) -> None:
    """Make the topics, and give users the least rights that their roles need. Safe to run twice."""
    from tickwise import config
    from tickwise.wiring import channels

    keep_quiet()
    done = channels.prepare(config.load(session.environ), users)
    if session.as_json:
        session.show_json({"cluster": done.cluster, "rights": done.rights, "users": users})
        return
    session.say(f"The topics are there, for the store {done.cluster}.")
    for role, user in users.items():
        session.say(f"{user} has all rights that the role {role} needs.")
