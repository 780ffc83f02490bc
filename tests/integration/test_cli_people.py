"""The command line for people: sign-ins, users, namespaces and keys with roles, against a whole Tickwise."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_up import Local, local_up

PASSWORD = "four quiet herons wade"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory: what is tested here is the terminal."""
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://") as up:
        yield up


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The settings of a person with no sign-in."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def file_of(home: dict[str, str]) -> Path:
    """Where the sign-ins are."""
    return Path(home["XDG_CONFIG_HOME"]) / "tickwise" / "sign-ins.json"


def person(local: Local, name: str, *roles: str) -> dict[str, Any]:
    """A person with a password."""
    options = [word for role in roles for word in ("--role", role)]
    made = local.tickwise("users", "add", name, *options, "--password-stdin", "--json", stdin=PASSWORD)
    assert 0 == made.code, made.err
    found: dict[str, Any] = made.json
    return found


def sign_in(local: Local, home: dict[str, str], name: str) -> None:
    """A sign-in that must succeed."""
    ran = local.tickwise("login", name, "--password-stdin", stdin=PASSWORD + "\n", env=home)
    assert 0 == ran.code, ran.err


def test_a_person_signs_in_works_with_the_role_and_signs_out(local: Local, home: dict[str, str]) -> None:
    """Commands use the sign-in instead of the local administrator's key, until it is over."""
    person(local, "Ada", "viewer")
    sign_in(local, home, "ada")
    who = local.tickwise("whoami", "--json", env=home).json
    assert ("Ada", "default", False) == (who["name"], who["namespace"], "jobs:write" in who["permissions"])
    assert 0 == local.tickwise("jobs", "list", env=home).code
    refused = local.tickwise("run", "--shell", "true", "--now", env=home)
    assert (4, True) == (refused.code, "jobs:write" in refused.err)
    assert 0o600 == stat.S_IMODE(file_of(home).stat().st_mode)
    assert 0 == local.tickwise("logout", env=home).code
    assert [] == json.loads(file_of(home).read_text())
    assert "admin" == local.tickwise("whoami", "--json", env=home).json["name"]
    again = local.tickwise("logout", env=home)
    assert (5, True) == (again.code, "not signed in" in again.err)


def test_the_one_that_gives_a_role_is_told_that_a_link_is_needed(local: Local, home: dict[str, str]) -> None:
    """The administrator of one namespace chose the password, and could not give the role."""
    person(local, "Alice", "admin@default")
    sign_in(local, home, "alice")
    added = ("users", "add", "Paul", "--role", "viewer", "--password-stdin")
    assert 0 == local.tickwise(*added, stdin=PASSWORD, env=home).code
    given = local.tickwise("users", "change", "Paul", "--role", "operator@*")
    assert (0, True) == (given.code, "tickwise users reset 'Paul'" in given.err)
    refused = local.tickwise("login", "Paul", "--password-stdin", stdin=PASSWORD + "\n", env=home)
    assert (False, True) == (refused.code == 0, "ask an administrator" in refused.err)


def test_an_invited_person_chooses_a_password_with_the_link(local: Local, home: dict[str, str]) -> None:
    """The link is printed alone on stdout, works once, and the password is never shown."""
    made = local.tickwise("users", "add", "Grace", "--email", "grace@example.org", "--role", "operator")
    assert (0, True) == (made.code, "shown only once" in made.err)
    link = made.out.strip()
    assert "invited" in local.tickwise("users", "show", "grace@example.org").out
    chosen = local.tickwise("users", "accept", link, "--password-stdin", stdin=PASSWORD, env=home)
    assert (0, False) == (chosen.code, PASSWORD in chosen.out + chosen.err)
    assert 4 == local.tickwise("users", "accept", link, "--password-stdin", stdin=PASSWORD, env=home).code
    sign_in(local, home, "grace@example.org")
    assert "operator@default" in local.tickwise("users", "list").out


@pytest.mark.parametrize("words", [("login", "nobody"), ("login",), ("users", "password")])
def test_no_password_is_asked_for_where_nobody_can_type(
    local: Local, home: dict[str, str], words: tuple[str, ...]
) -> None:
    """The command says how to give one."""
    assert 2 == local.tickwise(*words, env=home).code


def test_a_wrong_password_is_refused(local: Local, home: dict[str, str]) -> None:
    """And leaves no sign-in."""
    ran = local.tickwise("login", "nobody", "--password-stdin", stdin="a wrong password", env=home)
    assert (4, False) == (ran.code, file_of(home).exists())


def test_commands_at_the_same_time_refresh_a_sign_in_once(local: Local, home: dict[str, str]) -> None:
    """A refresh token that is used twice would end the session."""
    person(local, "Joan", "viewer")
    sign_in(local, home, "joan")
    stored = json.loads(file_of(home).read_text())
    file_of(home).write_text(json.dumps([{**stored[0], "expires_at": 0.0}]))
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda _: local.tickwise_with("jobs", "list", **home), range(4)))
    assert [0] * 4 == [each.code for each in ran], [each.err for each in ran]
    assert stored[0]["refresh_token"] != json.loads(file_of(home).read_text())[0]["refresh_token"]


def test_a_sign_in_that_was_ended_says_how_to_go_on(local: Local, home: dict[str, str]) -> None:
    """A changed password ends it."""
    person(local, "Mary", "viewer")
    sign_in(local, home, "mary")
    stale = json.loads(file_of(home).read_text())[0]
    changed = local.tickwise(
        "users", "password", "--password-stdin", stdin=f"{PASSWORD}\nfive grey herons wade\n", env=home
    )
    assert 0 == changed.code, changed.err
    file_of(home).write_text(json.dumps([{**stale, "expires_at": 0.0}]))
    ran = local.tickwise("jobs", "list", env=home)
    assert (4, True, True) == (ran.code, "has ended" in ran.err, "tickwise login" in ran.err)


def test_a_deactivated_person_cannot_sign_in(local: Local, home: dict[str, str]) -> None:
    """Until somebody activates them."""
    person(local, "Edith", "viewer")
    assert "deactivated" in local.tickwise("users", "change", "edith", "--deactivated").out
    assert 4 == local.tickwise("login", "edith", "--password-stdin", stdin=PASSWORD, env=home).code
    assert 0 == local.tickwise("users", "change", "edith", "--active", "--role", "developer").code
    sign_in(local, home, "edith")
    assert 0 == local.tickwise("run", "--shell", "true", "--now", env=home).code


def test_namespaces_keep_jobs_apart(local: Local) -> None:
    """A command is about one; a key works in those that it names."""
    assert 0 == local.tickwise("namespaces", "add", "team-a", "--display-name", "Team A").code
    made = local.tickwise("jobs", "create", "--json", "--namespace", "team-a", stdin=json.dumps(
        {"name": "apart", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "true"}}
    ))  # fmt: skip
    assert 0 == made.code, made.err
    job_id = made.json["job_id"]
    assert 5 == local.tickwise("jobs", "show", job_id).code
    assert 0 == local.tickwise("jobs", "show", job_id, env={"TICKWISE_NAMESPACE": "team-a"}).code
    key = local.tickwise("keys", "create", "ci", "--role", "viewer", "--in", "team-a").out.strip()
    assert 0 == local.tickwise("jobs", "show", job_id, "--api-key", key).code
    assert 4 == local.tickwise("jobs", "list", "--api-key", key, "--namespace", "default").code
    assert 0 == local.tickwise("namespaces", "close", "team-a").code
    assert "closing" in local.tickwise("namespaces", "list").out
    assert "active" in local.tickwise("namespaces", "open", "team-a").out


def test_a_namespace_is_removed_with_all_that_it_holds(local: Local) -> None:
    """Not without a yes; watched until it is gone, also by one who comes later."""
    is_late = True
    while is_late:  # it is gone within seconds: where this process stood still that long, once more
        assert 0 == local.tickwise("namespaces", "add", "team-b").code
        made = local.tickwise("run", "--shell", "sleep 600", "--now", "--namespace", "team-b")
        assert 0 == made.code, made.err
        unsure = local.tickwise("namespaces", "remove", "team-b", "--json")
        assert (2, True) == (unsure.code, "--yes" in unsure.err)
        begun = local.tickwise("namespaces", "remove", "team-b", "--yes", "--no-wait")
        assert (0, True) == (begun.code, "namespaces show team-b" in begun.out), begun.err
        shown = local.tickwise("namespaces", "show", "team-b")
        done = local.tickwise("namespaces", "remove", "team-b")
        is_late = 5 in (shown.code, done.code)
    assert "removing" in shown.out
    assert (0, True) == (done.code, "removed" in done.out), done.err
    assert 5 == local.tickwise("namespaces", "show", "team-b").code
    assert 0 == local.tickwise("namespaces", "add", "team-b").code


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("keys", "create", "ci"), "--role or --permission"),
        (("keys", "create", "ci", "--role", "viewer", "--expires", "30"), "such as 30d"),
        (("keys", "create", "ci", "--role", "viewer", "--expires", "2027"), "'2027-01-31 10:00'"),
        (("keys", "create", "ci", "--role", "viewer", "--expires", "400000d"), "10 years"),
        (("keys", "create", "ci", "--role", "viewer", "--permission", "jobs:read"), "one of both"),
        (("users", "change", "admin"), ""),
        (("users", "add", "Ann", "--role", "emperor"), "emperor"),
        (("namespaces", "add", "Team A"), "NAME"),
        (("namespaces", "show", "nowhere"), "nowhere"),
    ],
)
def test_a_wrong_command_says_what_to_do(local: Local, words: tuple[str, ...], hint: str) -> None:
    """In words of the command line."""
    ran = local.tickwise(*words)
    assert ran.code in {2, 4, 5}
    assert hint in ran.err, ran.err


def test_quotas_of_a_namespace_are_shown_set_and_taken_away(local: Local) -> None:
    """Those that are not named stay; what it uses stands beside them."""
    assert 0 == local.tickwise("namespaces", "add", "team-q").code
    path = ("namespaces", "quota", "team-q")
    ran = local.tickwise(*path, "--jobs", "1_000", "--concurrent-runs", "3", "--requests-per-second", "0.5")
    assert (0, "") == (ran.code, ran.err)
    shown = {row[0]: row[1:] for row in table(ran.out)}
    assert ["0", "1,000"] == shown["jobs"]
    assert ["0", "3"] == shown["concurrent runs"]
    assert ["-", "0.5"] == shown["requests per second"]
    assert ["-", "none"] == shown["runs per day"]
    assert 0 == local.tickwise(*path, "--jobs", "none", "--lanes", "2").code
    found = local.tickwise(*path, "--json").json
    assert (None, 2, 3, 0.5) == tuple(
        found["quotas"][name] for name in ("jobs", "lanes", "concurrent_runs", "requests_per_second")
    )
    assert 0 == found["concurrent_runs"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [(("--jobs", "many"), 2, "write a number, or none, not 'many'"), (("--jobs", "-1"), 4, "--jobs -1"),
     (("--windows", "201"), 4, "--windows 201")],
    ids=str,
)  # fmt: skip
def test_a_quota_that_means_nothing_names_its_option(
    local: Local, words: tuple[str, ...], code: int, told: str
) -> None:
    """As text that is no number, and as a number that no quota can be."""
    ran = local.tickwise("namespaces", "quota", "default", *words)
    assert (code, True) == (ran.code, told in ran.err), ran.err


def test_a_list_of_keys_warns_of_those_that_expire_soon(local: Local) -> None:
    """By name, apart from the table; of one that lasts, was revoked or has expired, nothing is said."""
    for name, until in (("soon", "10d"), ("late", "90d"), ("revoked", "9d")):
        made = local.tickwise("keys", "create", name, "--role", "viewer", "--expires", until)
        assert 0 == made.code, made.err
    listed = {key["name"]: key["key_id"] for key in local.tickwise("keys", "list", "--json").json}
    assert 0 == local.tickwise("keys", "revoke", listed["revoked"]).code
    ran = local.tickwise("keys", "list")
    warned = [line for line in ran.err.splitlines() if "expires" in line]
    assert 1 == len(warned), ran.err
    assert f"Key {listed['soon']} (soon) expires" in warned[0]
    assert "make another one" in warned[0]
    assert "" == local.tickwise("keys", "list", "--json").err


def table(text: str) -> list[list[str]]:
    """The cells of each row."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]


def test_a_job_is_moved_from_the_named_namespace_to_another(local: Local) -> None:
    """`--namespace` says where the job is, `--to` where it goes, in either order. From elsewhere it is not found."""
    for name in ("move-a", "move-b"):
        assert 0 == local.tickwise("namespaces", "add", name).code
    made = local.tickwise("run", "--shell", "true", "--every", "1d", "--namespace", "move-a", "--json")
    job_id = made.json["job_id"]
    for words in (("--to", "move-b", "--namespace", "move-a"), ("--namespace", "move-b", "--to", "move-a")):
        ran = local.tickwise("jobs", "move", job_id, *words)
        goal = words[words.index("--to") + 1]
        assert (0, True) == (ran.code, f"is in {goal} now" in ran.out), ran
        assert 0 == local.tickwise("jobs", "show", job_id, "--namespace", goal).code
    missing = local.tickwise("jobs", "move", job_id, "--to", "move-b")
    assert (5, True) == (missing.code, "default" in missing.err), missing


def test_labels_are_set_changed_and_taken_away(local: Local) -> None:
    """By `run`, `jobs create` (beside those of the file) and `jobs edit`, where the other labels stay."""
    made = local.tickwise("run", "--shell", "true", "--on-demand", "--label", "team=billing", "--label", "env=prod",
                          "--requires", "zone=eu", "--requires", "gpu", "--json")  # fmt: skip
    assert 0 == made.code, made.err
    job_id = made.json["job_id"]

    def seen(job: str) -> tuple[Any, Any]:
        found = local.tickwise("jobs", "show", job, "--json").json
        return found["labels"], found["requires"]

    assert ({"team": "billing", "env": "prod"}, ["gpu", "zone=eu"]) == (seen(job_id)[0], sorted(seen(job_id)[1]))
    words = ("--label", "env=test", "--label", "tier=1", "--remove-label", "team", "--requires", "none")
    assert 0 == local.tickwise("jobs", "edit", job_id, *words).code
    assert ({"env": "test", "tier": "1"}, []) == (seen(job_id)[0], seen(job_id)[1] or [])
    absent = local.tickwise("jobs", "edit", job_id, "--remove-label", "team")
    assert (2, True) == (absent.code, "no such label" in absent.err)
    body = {
        "name": "labelled",
        "every": "1d",
        "labels": {"team": "a", "env": "b"},
        "task": {"kind": "shell", "command": "true"},
    }
    made = local.tickwise("jobs", "create", "--label", "env=c", "--json", stdin=json.dumps(body))
    assert {"team": "a", "env": "c"} == seen(made.json["job_id"])[0]
    assert made.json["job_id"] in local.tickwise("jobs", "list", "--label", "env=c").out


def test_custom_roles_are_made_given_and_removed(local: Local) -> None:
    """Beside the built-in ones, in the namespace of the command or in a named one; a wrong permission is told."""
    made = local.tickwise(
        "users", "roles", "set", "rerunner", "--permission", "jobs:read", "--permission", "runs:write",
        "--label", "team=billing",
    )  # fmt: skip
    assert (0, True) == (made.code, "is made" in made.out), made.err
    assert "is replaced" in local.tickwise("users", "roles", "set", "rerunner", "--permission", "runs:write").out
    listed = local.tickwise("users", "roles", "list")
    assert all(word in listed.out for word in ("viewer", "built-in", "rerunner", "custom")), listed
    person(local, "Rita", "rerunner@default:team=billing")
    assert "rerunner@default" in local.tickwise("users", "show", "rita").out
    assert 4 == local.tickwise("users", "roles", "remove", "rerunner").code
    assert 0 == local.tickwise("users", "change", "rita", "--role", "viewer").code
    assert 0 == local.tickwise("users", "roles", "remove", "rerunner").code
    wrong = local.tickwise("users", "roles", "set", "rerunner", "--permission", "job:read")
    assert (4, True, True) == (wrong.code, "--permission" in wrong.err, "jobs:read" in wrong.err), wrong
    assert 0 == local.tickwise("users", "roles", "set", "everywhere", "--permission", "jobs:read", "--in", "*").code
    assert "everywhere" in local.tickwise("users", "roles", "list", "--in", "*").out
    nowhere = local.tickwise("users", "roles", "list", "--in", "nowhere")
    assert (5, True) == (nowhere.code, "nowhere" in nowhere.err)
