"""What `deploy/` sets is what Tickwise takes, and fits together: graces, ports, versions, what is secret."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.deploy.files import COMPOSE, DEPLOY, ROOT, UNITS, VALUES, VALUES_SCHEMA, granted, load, owners, unit
from tests.deploy.values_schema import written
from tickwise import __version__
from tickwise.config import SETTINGS, Settings
from tickwise.config import load as load_settings
from tickwise.config.files import LOCATION
from tickwise.wiring.private_files import read_private
from tickwise.wiring.storage.databases import addresses

ON_TOP_SECONDS: Final = 5.0
"""What a process that ends gets on top of what it takes at most: it starts to end a little after it is told."""
PARTS: Final = ("api", "search", "identity", "web")
"""Of the API, and the pages, each a service of its own."""
ROLES: Final = (*PARTS, "scheduler", "executor", "recorder")
IN_CLEAR: Final = {"token_key"}
"""Secrets that are no settings: each is a file that a setting names."""


def seconds(text: str) -> float:
    """Of `45s` or `2m`."""
    number, unit_name = re.fullmatch(r"(\d+)([sm])", text).groups()  # type: ignore[union-attr]  # a test: it may raise
    return float(number) * {"s": 1, "m": 60}[unit_name]


def longest_end(settings: Settings) -> float:
    """How long an executor may take to end."""
    return settings.drain_seconds + settings.kill_grace_seconds


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The secrets of the compose file, made as its operator makes them."""
    folder = tmp_path_factory.mktemp("secrets")
    subprocess.run(["sh", str(DEPLOY / "compose" / "secrets.sh"), str(folder)], check=True, capture_output=True)
    return folder


def stack(name: str, secrets: Path, folder: Path) -> Settings:
    """What a service of the compose file runs with: the files that it mounts, and its environment."""
    compose = load(COMPOSE)
    service = compose["services"][name]
    for said in (*service["configs"], *service["secrets"]):
        if said["source"] in IN_CLEAR:
            continue
        target = Path(said["target"])
        assert Path("/etc/tickwise") == target.parent
        source = Path((compose["configs"] | compose["secrets"])[said["source"]]["file"])
        place = secrets / source.name if source.parent.name == "secrets" else COMPOSE.parent / source
        (folder / target.name).write_text(place.read_text())
    # As Docker puts them in where the machine says nothing: the default of each variable.
    said = {name: re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", value) for name, value in service["environment"].items()}
    return load_settings({**said, LOCATION: str(folder)})


@pytest.mark.parametrize("name", [*ROLES, "migrations", "channels"])
def test_the_settings_of_the_compose_file_are_taken(name: str, secrets: Path, tmp_path: Path) -> None:
    """Every service reads its own without complaint, and has what it stands on."""
    settings = stack(name, secrets, tmp_path)
    assert () == settings.warnings
    assert settings.database_url is not None
    if name in ROLES:
        assert settings.signals_url is not None
        assert (name in ("identity", "web")) == (settings.broker_url is None)
        # Both, or a reader of an accepted job is told that there is none.
        assert (name in ("api", "search")) == (settings.ingest == "buffered")
        assert "proxy" == settings.tls_ends_at


HELD = {
    "api": {"bootstrap_key", "requests_keys"}, "search": set(), "identity": set(), "web": set(),
    "scheduler": set(),
    "executor": set(), "recorder": {"requests_keys"}, "migrations": set(), "channels": set(),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_each_service_of_the_compose_file_holds_its_own_secrets_alone(name: str, secrets: Path, tmp_path: Path) -> None:
    """The admin key is the API's, the secret of requests the API's and the recorder's, each user of Kafka one's own."""
    settings = stack(name, secrets, tmp_path)
    found = {held for held in ("bootstrap_key", "requests_keys") if getattr(settings, held)}
    assert HELD[name] == found
    passwords = {place.name: place.read_text() for place in secrets.iterdir() if place.name.startswith("kafka_")}
    text = (tmp_path / "secrets.toml").read_text()
    none: set[str] = set()
    own = {"migrations": none, "identity": none, "web": none, "channels": {"kafka_owner"}}.get(name, {f"kafka_{name}"})
    assert own == {place for place, password in passwords.items() if password in text}


def test_each_service_of_the_compose_file_has_a_database_role_of_its_own(secrets: Path, tmp_path: Path) -> None:
    """The migrations alone log in as the owner of the schema, and grant each role its rights; each has a password of
    its own."""
    addresses, passwords = {}, {}
    for name in HELD:
        (tmp_path / name).mkdir()
        addresses[name] = str(stack(name, secrets, tmp_path / name).database_url)
        login = urlsplit(addresses[name])
        passwords[name] = (login.username, login.password)
    files = {name: f"postgres_{name}" for name in HELD} | {"migrations": "postgres_password"}
    wanted = {name: (f"tickwise_{name}", (secrets / file).read_text()) for name, file in files.items()}
    assert wanted | {"migrations": ("tickwise", wanted["migrations"][1])} == passwords
    owner = addresses.pop("migrations")
    assert [] == owners(owner, addresses, load(COMPOSE)["services"]["migrations"]["command"])


@pytest.mark.parametrize(
    ("services", "wrong"),
    [
        ({"api": "postgresql://tickwise@db/d"}, ["api logs in as tickwise"]),
        (
            {"api": "postgresql://one@db/d", "search": "postgresql://one@db/d"},
            ["api logs in as one", "search logs in as one"],
        ),
        ({"executor": "postgresql://one@db/d"}, ["executor logs in as one"]),
        ({"api": "postgresql://none@db/d"}, ["api logs in as none"]),
        ({"api": "postgresql://one@db/d", "executor": "postgresql://two@db/d"}, []),
    ],
    ids=["the owner", "one role for two", "an executor with the rights of a service", "no rights", "right"],
)  # fmt: skip
def test_a_service_without_a_database_role_of_its_own_is_found(services: dict[str, str], wrong: list[str]) -> None:
    """By what `make deploy-check` and the tests of the compose file ask."""
    command = ["db", "upgrade", "--service-role=one", "--executor-role=two"]
    assert wrong == owners("postgresql://tickwise@db/d", services, command)


def test_the_unit_of_the_migrations_grants_each_service_its_database_role() -> None:
    """As many as there are units, named as in the compose file, and as how-to/deploy.md makes them."""
    (command,) = unit(UNITS / "tickwise-migrations.service")["ExecStart"]
    wanted = {f"tickwise_{role}": "executor" if role == "executor" else "service" for role in ROLES}
    assert wanted == granted(command.split())
    assert set(wanted) == set(load(VALUES)["databaseRoles"].values())


def test_each_secret_of_the_compose_file_is_mounted_where_it_is_needed() -> None:
    """Not one more: what one service mounts of another's, whoever breaks into it has."""
    found: dict[str, set[str]] = {}
    for name, service in load(COMPOSE)["services"].items():
        for said in service.get("secrets", ()):
            found.setdefault(said["source"] if isinstance(said, dict) else said, set()).add(name)
    wanted = {name: {name} for name in HELD} | {
        "postgres_password": {"postgres", "database_roles"},
        **{f"postgres_{name}": {"database_roles"} for name in HELD if name != "migrations"},
        "grafana_password": {"grafana"}, "kafka_users": {"kafka"},
        "redis.conf": {"redis"}, "redis_password": {"redis"}, "token_key": {"identity"},
    }  # fmt: skip
    assert wanted == found


def test_nothing_of_the_compose_file_reaches_what_it_has_no_business_with() -> None:
    """The way in sees the API alone; databases and brokers see roles alone, and no way out."""
    compose = load(COMPOSE)
    members: dict[str, set[str]] = {}
    for name, service in compose["services"].items():
        for network in service["networks"]:
            members.setdefault(network, set()).add(name)
    servers = {"postgres", "kafka", "redis"}
    wanted = {
        "front": {"nginx", *PARTS}, "data": {*ROLES, "migrations", "channels", "database_roles", *servers},
        "out": {"executor"}, "watch": {*ROLES, "prometheus"}, "desk": {"prometheus", "grafana"},
    }  # fmt: skip
    assert wanted == members
    assert {"data", "watch"} == {name for name, said in compose["networks"].items() if said.get("internal")}
    opened = {name for name, service in compose["services"].items() if service.get("ports")}
    assert {"nginx", "prometheus", "grafana"} == opened
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_parts_of_the_compose_file_believe_nginx_alone_about_the_address_of_a_client(
    secrets: Path, tmp_path: Path
) -> None:
    """By the network that it has with them; all clients would be one otherwise."""
    (network,) = load(COMPOSE)["networks"]["front"]["ipam"]["config"]
    for name in PARTS:
        assert (network["subnet"],) == stack(name, secrets, tmp_path).trusted_proxies
    for file in (COMPOSE.with_name("nginx.conf"), UNITS / "apart" / "nginx.conf"):
        assert "proxy_set_header X-Forwarded-For" in file.read_text(), file


def test_the_compose_file_lets_executors_drain(secrets: Path, tmp_path: Path) -> None:
    """Docker kills no executor that still may let its tasks end."""
    grace = seconds(load(COMPOSE)["services"]["executor"]["stop_grace_period"])
    assert grace >= longest_end(stack("executor", secrets, tmp_path)) + ON_TOP_SECONDS


def test_every_role_of_the_compose_file_is_locked_up_and_looked_after() -> None:
    """More than one of each that may be away, none that can write to itself or gain a right, all with limits and a look
    at their health."""
    services = load(COMPOSE)["services"]
    several = {name: services[name]["deploy"].get("replicas", 1) for name in ROLES}
    assert dict.fromkeys(ROLES, 2) | {"recorder": 1} == several
    for name in ROLES:
        role = services[name]
        assert (True, ["ALL"], "10001:10001") == (role["read_only"], role["cap_drop"], role["user"]), name
    for name, service in services.items():
        assert "memory" in service["deploy"]["resources"]["limits"], name
        assert "healthcheck" in service, name
        assert "restart" in service, name


def test_prometheus_looks_at_every_role_where_it_answers() -> None:
    """At its health port, under its name."""
    (job,) = load(DEPLOY / "compose" / "prometheus.yaml")["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    ports = {name: int(load(COMPOSE)["services"][name]["environment"]["TICKWISE_HEALTH_PORT"]) for name in ROLES}
    # With Cassandra; it has all that it does not say from the scheduler.
    assert "keeper:\n    extends: {file: compose.yaml, service: scheduler}" in (
        DEPLOY / "compose" / "cassandra.yaml"
    ).read_text("utf-8")
    ports["keeper"] = ports["scheduler"]
    assert dict.fromkeys(found["names"], found["port"]) == ports


@pytest.mark.parametrize("role", ROLES)
def test_the_settings_of_the_units_are_taken(role: str) -> None:
    """And no two roles of one machine have one port."""
    settings = unit_settings(role)
    assert () == settings.warnings
    others = {unit_settings(other).health_port for other in ROLES if other != role}
    ports = {unit_port(part) for part in PARTS}
    assert settings.health_port is not None
    assert settings.health_port not in others | ports
    assert len(PARTS) == len(ports)


def unit_port(part: str) -> int:
    """The port of the API of a unit."""
    (command,) = unit(UNITS / f"tickwise-{part}.service")["ExecStart"]
    return int(command.partition("--port ")[2].split()[0]) if "--port" in command else Settings().port


def unit_settings(role: str) -> Settings:
    """What a unit of systemd says by itself."""
    given = dict(line.split("=", 1) for line in unit(UNITS / f"tickwise-{role}.service")["Environment"])
    return load_settings({name: value for name, value in given.items() if name != LOCATION})


def test_the_unit_of_executors_lets_them_drain() -> None:
    """TERM goes to the executor alone, and systemd kills what is left only after it had its time."""
    said = unit(UNITS / "tickwise-executor.service")
    assert ["mixed"] == said["KillMode"]
    assert float(said["TimeoutStopSec"][0]) >= longest_end(Settings()) + ON_TOP_SECONDS


@pytest.mark.parametrize("role", [*ROLES, "migrations"])
def test_every_unit_can_write_its_own_folder_alone(role: str) -> None:
    """And has no right that could be used against the machine."""
    said = unit(UNITS / f"tickwise-{role}.service")
    wanted = {
        "User": [f"tickwise-{role}"], "Group": ["tickwise"], "NoNewPrivileges": ["yes"], "CapabilityBoundingSet": [""],
        "ProtectSystem": ["strict"], "ProtectHome": ["yes"], "StateDirectory": [f"tickwise-{role}"],
        "StateDirectoryMode": ["0700"], "WantedBy": ["tickwise.target"],
    }  # fmt: skip
    assert wanted == {key: said.get(key) for key in wanted}
    blobs = "/var/lib/tickwise/blobs"
    shared = {"web": [f"{blobs}/scripts"]} | {each: [blobs] for each in ("api", "scheduler", "executor")}
    assert shared.get(role, []) == said.get("ReadWritePaths", [])


def test_every_unit_runs_as_a_user_of_its_own() -> None:
    """Whom the configuration of sysusers makes: none reads what another one holds."""
    made = re.findall(r"^u (\S+) ", (UNITS / "tickwise.sysusers.conf").read_text(), re.MULTILINE)
    users = [unit(place)["User"][0] for place in sorted(UNITS.glob("*.service"))]
    assert sorted(made) == users
    assert len(users) == len(set(users))


@pytest.mark.parametrize("role", [*ROLES, "migrations"])
def test_every_unit_gets_its_own_secrets_as_credentials(role: str) -> None:
    """And none by its environment, which others may read and tasks inherit."""
    said = unit(UNITS / f"tickwise-{role}.service")
    own = [f"secrets.toml:/etc/tickwise/{role}/secrets.toml"]
    assert [given for given in said["LoadCredential"] if given.startswith("secrets")] == own
    given = dict(line.split("=", 1) for line in said["Environment"])
    assert "%d" == given[LOCATION]
    secret = {setting.variable for setting in SETTINGS.values() if setting.facts.secret}
    assert set() == secret & given.keys()


def test_scripts_can_be_written_by_the_units_of_the_api_and_of_the_pages_alone() -> None:
    """A unit that runs scripts cannot change one for the next run."""
    folders = (UNITS / "tickwise.tmpfiles.conf").read_text()
    assert re.search(r"^d /var/lib/tickwise/blobs/scripts\s+2750 tickwise-api\s", folders, re.MULTILINE)
    (shared,) = re.findall(r"^a\+ /var/lib/tickwise/blobs/scripts(?:\s+-){4} (\S+)$", folders, re.MULTILINE)
    assert ["u:tickwise-web:rwx", "d:u:tickwise-web:rwx", "d:u:tickwise-api:rwx"] == shared.split(",")
    for role in ("scheduler", "executor"):
        said = unit(UNITS / f"tickwise-{role}.service")
        assert ["/var/lib/tickwise/blobs/scripts"] == said["ReadOnlyPaths"]
    assert ["0027"] == unit(UNITS / "tickwise-api.service")["UMask"]


# ------------------------------------------------------------------ the chart


def complaints(values: Mapping[str, Any]) -> list[str]:
    """What the schema says against these values."""
    validator = jsonschema_rs.validator_for(json.loads(VALUES_SCHEMA.read_text(encoding="utf-8")))
    return [error.message for error in validator.iter_errors(dict(values))]


def changed(**sections: Mapping[str, Any]) -> dict[str, Any]:
    """The chart's values with others in some sections."""
    values: dict[str, Any] = load(VALUES)
    return values | {name: {**values[name], **section} for name, section in sections.items()}


def test_the_values_of_the_chart_keep_its_schema() -> None:
    """As they are delivered."""
    assert [] == complaints(load(VALUES))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(changed(settings={"slotz": 4}), id="a setting that does not exist"),
        pytest.param(changed(settings={"slots": "many"}), id="a setting of another kind"),
        pytest.param(changed(settings={"ingest": "later"}), id="a choice that is not offered"),
        pytest.param(changed(settings={"database_url": "postgresql://u:p@h/d"}), id="a password among what is open"),
        pytest.param(changed(secrets={"bootstrap_key": "short"}), id="a key that can be guessed"),
        pytest.param(changed(image={"tag": "latest"}), id="a tag that moves"),
        pytest.param(changed(api={"serve": ["everything"]}), id="a part that the API does not have"),
        pytest.param(changed(executors={"Big Ones": {}}), id="a pool that no object can be named after"),
        pytest.param({**load(VALUES), "replicas": 3}, id="a value that the chart does not know"),
    ],
)
def test_the_chart_refuses(wrong: dict[str, Any]) -> None:
    """What has no effect, or not the one that was meant, is said before anything is changed."""
    assert complaints(wrong)


def test_the_chart_knows_every_setting() -> None:
    """`values.schema.json` says of settings what they say of themselves: `python -m tests.deploy.values_schema`."""
    assert written() == VALUES_SCHEMA.read_text(encoding="utf-8")


def test_the_settings_of_the_chart_are_taken(tmp_path: Path) -> None:
    """Written as the chart writes them, one JSON value a line, they are the TOML that roles read."""
    settings = load(VALUES)["settings"]
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    (tmp_path / "service.toml").write_text(text)
    taken = load_settings({LOCATION: str(tmp_path)})
    assert settings == {name: getattr(taken, name) for name in settings}


def test_what_is_delivered_is_this_version() -> None:
    """The chart, and the image that the compose file builds."""
    chart = load(VALUES.with_name("Chart.yaml"))
    image = load(COMPOSE)["services"]["api"]["image"]
    assert (__version__, f"${{IMAGE_TICKWISE:-tickwise:{__version__}}}") == (chart["appVersion"], image)


# ------------------------------------------------------------------ the image


def pins(name: str) -> set[str]:
    """The exact versions of a lock file."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9][\w.\-\[\]]*==[^\s;\\]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["server.txt", "build.txt"])
def test_the_image_has_the_versions_that_the_tests_have(name: str) -> None:
    """`make lock` resolves them together."""
    assert set() == pins(name) - pins("dev.txt")
    assert pins(name)


def test_the_image_gets_what_it_copies_and_nothing_else() -> None:
    """Nothing that lies about in a checkout, secrets above all, is sent to the builder."""
    copied = set()
    for words in re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        copied |= set(words.split())
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" == next(line for line in ignored if line and not line.startswith("#"))
    assert copied == {line[1:] for line in ignored if line.startswith("!")}


# ------------------------------------------------------------------ the parts of the API


def test_the_key_of_tokens_is_made_well_and_held_by_identity_alone(secrets: Path, tmp_path: Path) -> None:
    """`secrets.sh` makes a key that is taken once nobody else may read it; each process that serves `auth` has it."""
    file = tmp_path / "token.key"
    file.write_bytes((secrets / "token_key").read_bytes())
    file.chmod(0o600)
    private = load_pem_private_key(read_private(file, "the key"), password=None)
    assert isinstance(private, Ed25519PrivateKey)
    service = load(COMPOSE)["services"]["identity"]
    assert "umask 077 && cp /run/secrets/token_key /tmp/token.key" in service["entrypoint"][2]
    assert "/tmp/token.key" == service["environment"]["TICKWISE_TOKEN_KEY_FILE"]
    said = unit(UNITS / "tickwise-identity.service")
    assert "token.key:/etc/tickwise/identity/token.key" in said["LoadCredential"]
    assert "TICKWISE_TOKEN_KEY_FILE=%d/token.key" in said["Environment"]
    for role in set(ROLES) - {"identity"}:
        assert "TOKEN_KEY" not in (UNITS / f"tickwise-{role}.service").read_text(), role


def test_search_changes_no_script_and_no_output() -> None:
    """Its unit may read the blobs; that of identity has no business with them."""
    assert ["/var/lib/tickwise/blobs"] == unit(UNITS / "tickwise-search.service")["ReadOnlyPaths"]
    assert "blobs" not in (UNITS / "tickwise-identity.service").read_text()
    assert [] == load(COMPOSE)["services"]["identity"]["volumes"]


def test_a_stack_of_two_databases_names_both_for_each_service(tmp_path: Path) -> None:
    """The first one first; each service logs in to both as itself, and to each database its server's name leads."""
    script = ["sh", str(DEPLOY / "compose" / "secrets.sh"), str(tmp_path)]
    subprocess.run(script, check=True, capture_output=True, env={**os.environ, "DATABASES": "2"})
    for file in tmp_path.glob("*.toml"):
        found = addresses(tomllib.loads(file.read_text())["database_url"])
        assert ["postgres", "postgres_2"] == [urlsplit(each).hostname for each in found]
        assert 1 == len({urlsplit(each).username for each in found})
    refused = subprocess.run(script, check=False, capture_output=True, text=True, env={**os.environ, "DATABASES": "3"})
    assert (2, "DATABASES is 1 or 2; more: write their addresses into secrets/*.toml\n") == (
        refused.returncode,
        refused.stderr,
    )


def test_a_stack_with_sqs_dispatches_through_it(secrets: Path, tmp_path: Path) -> None:
    """What `sqs.yaml` says comes before the address of Kafka in the files, for each role that has a broker."""
    given = dict(load(COMPOSE.with_name("sqs.yaml"))["services"])
    assert given.pop("kafka") is None
    roles = {"api", "search", "scheduler", "executor", "recorder", "channels"}
    assert {*roles, "elasticmq"} == set(given)
    for name in roles:
        (tmp_path / name).mkdir()
        before = stack(name, secrets, tmp_path / name)
        variables = {
            key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for key, value in given[name]["environment"].items()
        }
        after = load_settings({**variables, LOCATION: str(tmp_path / name)})
        assert (before.broker_url or "").startswith("kafka://")
        assert "sqs://eu-central-1/tickwise?endpoint=http://elasticmq:9324" == after.broker_url
