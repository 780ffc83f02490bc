"""`tickwise tasks …`: scripts and task definitions kept on the server, each content once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from tickwise.cli import moments, output, surroundings, work
from tickwise.cli.following import write_bytes
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Session, list_options, server_options, view_options


@click.group()
def tasks() -> None:
    """Store scripts and task definitions on the server.

    A job names one by its id: {"taskId": "backup", "cron": "0 3 * * *"}.
    """


@tasks.command()
@click.argument("file")
@click.option("--id", "task_id", metavar="ID", help="The id by which jobs name it.  [made by the server]")
@click.option("--name", help="The name of the task.  [from the file]")
@surroundings.options()
@server_options
@click.pass_obj
def put(session: Session, /, file: str, task_id: str | None, name: str | None, **options: Any) -> None:
    """Store a script, or a task definition (.json), as a new version if it is new."""
    path, around = Path(file), surroundings.taken(options)
    if path.suffix == ".json" or file == "-":
        body = work.read_json(file, "", file)
        if not isinstance(body, dict):
            raise click.UsageError(f"{file} must hold a JSON object.")
        # A whole body of the route, or a bare task: what people copy out of a job.
        body = {"task": body} if "kind" in body else body
        if around.given:
            body["task"] = surroundings.of_task(session, around, body.get("task") or {})
    else:
        script = work.read_script(path)
        work.blame_script(session, script)
        body = {"task": surroundings.of_task(session, around, work.script_task(script), script=script)}
    body |= {field: value for field, value in (("taskId", task_id), ("name", name)) if value is not None}
    body.setdefault("name", path.stem if file != "-" else "task")
    work.blame(session, "/taskId", "--id", task_id or "")
    stored = session.client.task_put(body)
    if session.as_json:
        session.show_json(stored)
        return
    session.say(f"Task {stored['taskId']} is stored as version {stored['version']}.")
    session.say(f'A job names it like this: {{"taskId": "{stored["taskId"]}", "cron": "0 3 * * *"}}')


@tasks.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_tasks(session: Session, limit: int) -> None:
    """List the newest version of each stored task."""
    found, more = first_of(session, "/tasks", {}, limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (task["taskId"], task["name"], str(task["version"]), session.age(task["created_at"], seen_at=seen_at))
        for task in found
    ]
    output.table(
        session,
        ("TASK", "NAME", "VERSION", "STORED"),
        rows,
        empty="No tasks are stored: tickwise tasks put SCRIPT",
        more=more,
    )


@tasks.command()
@click.argument("task")
@click.option("--version", type=click.IntRange(1), help="The version.  [the newest]")
@view_options
@click.pass_obj
def show(session: Session, task: str, version: int | None) -> None:
    """Show a stored task, with the text of its script."""
    found: dict[str, Any] = session.client.task_get(task, version)
    if session.as_json:
        session.show_json(found)
        return
    fields = {
        name.replace("_", " "): session.time(value) if name == "created_at" else value
        for name, value in found.items()
        if name != "task"
    }
    fields["task"] = work.compact(found["task"])
    output.record(session, fields)
    if _is_script(found):
        source = session.client.script_get(found["taskId"], found["version"]).decode(errors="replace")
        click.echo()
        click.echo("\n".join(output.safe(line.replace("\t", "    ")) for line in source.splitlines()))


def _is_script(task: dict[str, Any]) -> bool:
    return bool(task["task"].get("kind") == "python")


@tasks.command()
@click.argument("task")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def versions(session: Session, task: str, limit: int) -> None:
    """List the versions of a stored task, newest first."""
    found, more = first_of(session, f"/tasks/{quote(task, safe='')}/versions", {}, limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (str(each["version"]), each["name"], each["created_by"], session.age(each["created_at"], seen_at=seen_at))
        for each in found
    ]
    output.table(session, ("VERSION", "NAME", "BY", "STORED"), rows, empty="No versions.", more=more)


@tasks.command()
@click.argument("task")
@click.option("--version", type=click.IntRange(1), help="The version.  [the newest]")
@click.option("--output", "-o", "file", metavar="FILE", help="Write it there.  [standard output]")
@server_options
@click.pass_obj
def source(session: Session, task: str, version: int | None, file: str | None) -> None:
    """Download the script of a stored task, byte for byte as it is kept."""
    if version is None:
        version = session.client.task_get(task)["version"]
    content = session.client.script_get(task, version)
    if file is None:
        write_bytes(content)
        return
    Path(file).write_bytes(content)
    session.say(f"Version {version} of {task} is in {file}.")
