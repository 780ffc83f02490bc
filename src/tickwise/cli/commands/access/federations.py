"""`tickwise federations …`: trust in the tokens of pipelines and clusters, in place of stored keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.labels import labels_text, read_labels
from tickwise.cli.lookup.endings import listed_id
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Decorated, Session, list_options, view_options

Json = dict[str, Any]

GITHUB: Final = "https://token.actions.githubusercontent.com"
GITLAB: Final = "https://gitlab.com"
KUBERNETES: Final = "https://kubernetes.default.svc.cluster.local"


@click.group()
def federations() -> None:
    """Accept tokens of GitHub Actions, GitLab, Kubernetes and others in place of a stored key."""


@federations.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_federations(session: Session, limit: int) -> None:
    """List federations, newest first."""
    found, more = first_of(session, "/federations", {"namespace": session.client.namespace}, limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            session.short(each["federation_id"]),
            each["name"],
            each["issuer"],
            _conditions(each),
            " ".join(each["namespaces"]),
            _permissions(each),
            session.age(each["last_used_at"], seen_at=seen_at) if each["last_used_at"] else "never",
        )
        for each in found
    ]
    columns = ("FEDERATION", "NAME", "ISSUER", "IF", "IN", "PERMISSIONS", "LAST USED")
    output.table(session, columns, rows, empty="No federations.", more=more)


@federations.command()
@click.argument("federation")
@view_options
@click.pass_obj
def remove(session: Session, federation: str) -> None:
    """End a federation, with the access tokens that it gave."""
    found = listed_id(session, "/federations", "federation_id", federation, namespace=session.client.namespace)
    answer = session.client.request("DELETE", f"/federations/{found}").body
    if session.as_json:
        session.show_json(answer)
        return
    session.say(f"Federation {found} is removed: its tokens are refused from now on.")


@federations.group()
def add() -> None:
    """Accept the tokens of an issuer that meet conditions."""


def _given(command: Decorated) -> Decorated:
    """The options of every kind: what the tokens get."""
    for option in (
        click.option("--name", help="The name for people.  [made of the conditions]"),
        click.option("--role", help="The permissions of a token, by a role: viewer, operator, developer or admin."),
        click.option("--permission", "permissions", multiple=True, help="One permission, such as jobs:create."),
        click.option(
            "--in", "places", multiple=True, metavar="NAMESPACE",
            help="A namespace in which it works; `*`: all of them, and the installation.  [that of the command]",
        ),
        click.option(
            "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Only for jobs with this label."
        ),
        click.option(
            "--claim", "claims", multiple=True, metavar="CLAIM=PATTERN",
            help="A further claim that a token must have; `*` stands for any characters.",
        ),
        click.option("--audience", help="The `aud` of the tokens.  [the address of the server]"),
        click.option("--expires", metavar="TIME", help="Expires then.  [with the key that makes it]"),
    ):  # fmt: skip
        command = option(command)
    return view_options(command)


@add.command()
@click.option("--repository", required=True, metavar="OWNER/NAME", help="The repository; acme/* is each one of acme.")
@click.option("--ref", help="Such as refs/heads/main.  [any]")
@click.option("--environment", help="The environment of the job.  [any]")
@click.option("--issuer", default=GITHUB, show_default=True, help="Another one for GitHub Enterprise Server.")
@_given
@click.pass_obj
def github(
    session: Session, /, repository: str, ref: str | None, environment: str | None, issuer: str, **given: Any
) -> None:
    """Accept the tokens of GitHub Actions."""
    conditions = {"repository": repository, "ref": ref, "environment": environment}
    _make(session, issuer, conditions, f"github {repository}", single_use=True, **given)


@add.command()
@click.option("--project", required=True, metavar="GROUP/NAME", help="The project; acme/* is each one of acme.")
@click.option("--ref", help="The branch or tag, such as main.  [any]")
@click.option("--protected", is_flag=True, help="Only for protected branches and tags.")
@click.option("--issuer", default=GITLAB, show_default=True, help="The address of another GitLab.")
@_given
@click.pass_obj
def gitlab(session: Session, /, project: str, ref: str | None, protected: bool, issuer: str, **given: Any) -> None:
    """Accept the ID tokens of GitLab's pipelines."""
    conditions = {"project_path": project, "ref": ref, "ref_protected": "true" if protected else None}
    # One token serves the whole job of a pipeline.
    _make(session, issuer, conditions, f"gitlab {project}", single_use=False, **given)


@add.command()
@click.option("--account", required=True, metavar="NAMESPACE/NAME", help="The service account of the pods.")
@click.option("--issuer", default=KUBERNETES, show_default=True, help="The issuer of the cluster.")
@click.option(
    "--keys", "key_file", type=click.Path(dir_okay=False),
    help="The cluster's public keys, by `kubectl get --raw /openid/v1/jwks`.  [read from the issuer]",
)  # fmt: skip
@_given
@click.pass_obj
def kubernetes(session: Session, /, account: str, issuer: str, key_file: str | None, **given: Any) -> None:
    """Accept the tokens of a service account of Kubernetes."""
    place, slash, name = account.partition("/")
    if not slash or not place or not name:
        raise click.UsageError("write --account NAMESPACE/NAME, such as ci/deployer.")
    conditions = {"sub": f"system:serviceaccount:{place}:{name}"}
    # A projected token is read again and again until it is replaced.
    _make(session, issuer, conditions, f"kubernetes {account}", single_use=False, key_file=key_file, **given)


@add.command()
@click.argument("issuer")
@click.option(
    "--keys", "key_file", type=click.Path(dir_okay=False),
    help="The issuer's public keys as a JWKS.  [read from the issuer]",
)  # fmt: skip
@click.option("--many-uses", is_flag=True, help="Accept a token more than once, even one that has an id (jti).")
@_given
@click.pass_obj
def issuer(session: Session, /, issuer: str, key_file: str | None, many_uses: bool, **given: Any) -> None:
    """Accept the tokens of any issuer, such as service accounts of your provider; give the conditions with --claim."""
    _make(session, issuer, {}, issuer, single_use=not many_uses, key_file=key_file, **given)


def _make(
    session: Session,
    issuer: str,
    conditions: Mapping[str, str | None],
    usual_name: str,
    *,
    single_use: bool,
    name: str | None,
    role: str | None,
    permissions: tuple[str, ...],
    places: tuple[str, ...],
    labels: tuple[str, ...],
    claims: tuple[str, ...],
    audience: str | None,
    expires: str | None,
    key_file: str | None = None,
) -> None:
    if bool(role) == bool(permissions):
        raise click.UsageError("give --role or --permission, one of both.")
    body: Json = {
        "name": (name or usual_name)[:100],
        "issuer": issuer,
        "audience": audience or session.target.url.rstrip("/"),
        "conditions": {claim: value for claim, value in conditions.items() if value is not None} | _claims(claims),
        "single_use": single_use,
    }
    if role:
        body["role"] = role
    else:
        body["permissions"] = list(permissions)
    if places:
        body["namespaces"] = list(places)
    if labels:
        body["labels"] = read_labels(labels)
    if expires is not None:
        body["expires_at"] = instant(session, "--expires", expires)
    if key_file is not None:
        body["key_set"] = _key_set(key_file)
    work.blame(session, "/name", "--name", name or "")
    work.blame(session, "/role", "--role", role or "")
    work.blame(session, "/issuer", "--issuer", issuer)
    work.blame(session, "/expires_at", "--expires", expires or "")
    made = session.client.request("POST", "/federations", body=body).body
    if session.as_json:
        session.show_json(made)
        return
    output.record(
        session,
        {
            "federation": made["federation_id"],
            "name": made["name"],
            "issuer": made["issuer"],
            "audience": made["audience"],
            "if": _conditions(made),
            "in": " ".join(made["namespaces"]),
            "permissions": _permissions(made),
        },
    )


def _claims(claims: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in claims:
        name, sign, pattern = each.partition("=")
        if not sign or not name or not pattern:
            raise click.UsageError(f"--claim {each!r}: write CLAIM=PATTERN, such as ref=refs/heads/main.")
        found[name] = pattern
    return found


def _key_set(file: str) -> Any:
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--keys {file}: it cannot be read as JSON: {error}.") from None


def _conditions(federation: Json) -> str:
    return " ".join(f"{claim}={pattern}" for claim, pattern in federation["conditions"].items())


def _permissions(federation: Json) -> str:
    said, labels = " ".join(federation["permissions"]), federation.get("labels")
    return f"{said} for {labels_text(labels)}" if labels else said
