"""Settings: where they come from, which place wins, and how a mistake is answered."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tickwise.config import RESERVED, SETTINGS, Settings, load
from tickwise.config.described import MASKED, Setting
from tickwise.domain.errors import Misconfigured

KEY = "k" * 32


@pytest.fixture
def location(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    return folder


def _write(folder: Path, service: str | None = None, secrets: str | None = None) -> dict[str, str]:
    """Files in the folder; the environment that names it."""
    if service is not None:
        (folder / "service.toml").write_text(service)
    if secrets is not None:
        (folder / "secrets.toml").write_text(secrets)
    return {"TICKWISE_CONFIG_LOCATION": str(folder)}


def _refusal(environ: dict[str, str], **flags: object) -> str:
    with pytest.raises(Misconfigured) as caught:
        load(environ, flags)
    return caught.value.detail


def test_without_anything_the_defaults_are_in_force() -> None:
    """An empty environment is enough, and gives what the declarations say."""
    settings = load({})
    assert Settings() == settings
    assert (8470, "127.0.0.1", 3.0, 10.0, 16) == (
        settings.port,
        settings.host,
        settings.heartbeat_seconds,
        settings.lease_seconds,
        settings.slots,
    )
    assert {"default"} == {shown.origin for shown in settings.describe()}


def test_the_later_place_wins(location: Path) -> None:
    """Default, service.toml, secrets.toml, environment, option: each is overridden by the next."""
    environ = _write(
        location,
        service="slots = 2\nport = 2\npoll_seconds = 2\nclaim_batch = 2\n",
        secrets="port = 3\npoll_seconds = 3\nclaim_batch = 3\n",
    )
    environ |= {"TICKWISE_POLL_SECONDS": "4", "TICKWISE_CLAIM_BATCH": "4"}
    settings = load(environ, {"claim_batch": 5, "held_limit": None})
    assert (2, 3, 4.0, 5, 60_000) == (
        settings.slots,
        settings.port,
        settings.poll_seconds,
        settings.claim_batch,
        settings.held_limit,
    )
    origins = {shown.name: shown.origin for shown in settings.describe()}
    assert [
        str(location / "service.toml"),
        str(location / "secrets.toml"),
        "TICKWISE_POLL_SECONDS",
        "--claim-batch",
        "default",
    ] == [origins[name] for name in ("slots", "port", "poll_seconds", "claim_batch", "held_limit")]


@pytest.mark.parametrize("name", ["service.toml", "secrets.toml"])
def test_one_file_is_enough(location: Path, name: str) -> None:
    """Either file may be absent."""
    (location / name).write_text("slots = 3\n")
    assert load({"TICKWISE_CONFIG_LOCATION": str(location)}).slots == 3


PROVIDER = {
    "TICKWISE_OIDC_ISSUER": "https://sso.example.com", "TICKWISE_OIDC_CLIENT_ID": "tickwise",
    "TICKWISE_PUBLIC_URL": "https://tickwise.example.com",
}  # fmt: skip
FORMS = {
    "memory": "8GB",
    "oidc_issuer": "https://sso.example.com",
    "oidc_roles": "dev=viewer",
    "proxy_roles": "dev=viewer",
    "proxy_sign_in_from": "10.0.7.5,10.1.0.0/16",
    "second_factor": "required:admin",
    "container_warm": "python:3.12=2,ghcr.io/acme/etl:1=4",
}
"""A value of settings that take no other text."""


def _another_value(setting: Setting, folder: Path) -> str:
    """A text that the setting accepts, and that is not its default."""
    if setting.facts.choices:
        return setting.facts.choices[-1]
    match setting.kind:
        case "Path":
            return str(folder)
        case "tuple[str, ...]":
            if setting.facts.networks:
                return "10.0.0.0/8,127.0.0.1"
            if setting.name in FORMS:
                return FORMS[setting.name]
            return f"{KEY},{KEY}more" if setting.facts.shortest else "one,two"
        case "int":
            return str((setting.default or max(8, setting.facts.least or 0)) + 1)
        case "float":
            return str((setting.default or 0.0) * 0.99 or (setting.facts.most or 1.0) / 2)
    if setting.name in FORMS:
        return FORMS[setting.name]
    return f"{setting.facts.schemes[0]}:///x" if setting.facts.schemes else KEY


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_is_read_from_the_environment(name: str, tmp_path: Path) -> None:
    """For each, a value other than the default arrives in its field, under its own variable."""
    setting = SETTINGS[name]
    text = _another_value(setting, tmp_path)
    needed = {"TICKWISE_BROKER_URL": "kafka://host:9092"}
    needed |= {f"TICKWISE_TLS_{file}_FILE": "/a" for file in ("CERT", "KEY") if name.startswith("tls_")}
    if name == "heartbeat_fail_url":
        needed |= {"TICKWISE_HEARTBEAT_URL": "https://a"}
    if name in ("oidc_issuer", "password_sign_in"):
        needed |= {"TICKWISE_OIDC_CLIENT_ID": "tickwise", "TICKWISE_PUBLIC_URL": "https://tickwise.example.com"}
        needed |= {"TICKWISE_OIDC_ISSUER": "https://sso.example.com"}
    if name == "oidc_scopes":
        text = "openid,groups"
    if name == "smtp_url":
        needed |= {"TICKWISE_SMTP_FROM": "tickwise@example.com"}
    settings = load(needed | {setting.variable: text})
    value = getattr(settings, name)
    assert value != setting.default
    assert text in (",".join(value) if isinstance(value, tuple) else str(value))
    assert setting.variable == settings.origins[name]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"TICKWISE_PASSWORD_SIGN_IN": "off"}, "nobody could"),
        ({"TICKWISE_OIDC_ISSUER": "https://a"}, "set TICKWISE_OIDC_CLIENT_ID too"),
        ({"TICKWISE_OIDC_ISSUER": "https://a", "TICKWISE_OIDC_CLIENT_ID": "b"}, "set TICKWISE_PUBLIC_URL too"),
        ({"TICKWISE_OIDC_ISSUER": "http://sso.example.com"}, "an address with https"),
        ({"TICKWISE_OIDC_ISSUER": "https://a/?b"}, "an address with https"),
        ({"TICKWISE_OIDC_ROLES": "ops"}, "entries such as"),
        ({**PROVIDER, "TICKWISE_OIDC_SCOPES": "profile"}, "lacks openid"),
        ({**PROVIDER, "TICKWISE_OIDC_CLIENT_SECRET": "a", "TICKWISE_OIDC_CLIENT_SECRET_FILE": "/a"}, "keep one"),
    ],
)
def test_a_sign_in_by_a_provider_has_all_that_it_needs(fields: dict[str, str], why: str) -> None:
    """Or the program does not start, and says what is missing."""
    with pytest.raises(Misconfigured, match=why):
        load(fields)


def test_failures_are_told_where_heartbeats_go() -> None:
    """Without those a receiver could not tell that all is well from silence."""
    with pytest.raises(Misconfigured, match="set TICKWISE_HEARTBEAT_URL too"):
        load({"TICKWISE_HEARTBEAT_FAIL_URL": "https://a/fail"})


def test_lists_are_written_as_lists_in_files_and_with_commas_in_the_environment(location: Path) -> None:
    """Both forms give the same; blanks around a comma and repeated names do not matter."""
    from_file = load(_write(location, service='queues = ["mail", "default"]\n'))
    from_environment = load({"TICKWISE_QUEUES": "mail, default,mail"})
    assert ("mail", "default") == from_file.queues == from_environment.queues


def test_an_empty_variable_counts_as_not_set() -> None:
    """Compose files and shells pass empty ones on."""
    assert load({"TICKWISE_DATABASE_URL": "", "TICKWISE_PORT": ""}) == load({})


def test_an_unknown_key_is_refused_with_its_file_and_the_nearest_name(location: Path) -> None:
    """A slip in a file says where it is and what was probably meant."""
    detail = _refusal(_write(location, service="lease_second = 5\n"))
    assert f"{location / 'service.toml'}: there is no setting 'lease_second'. Did you mean lease_seconds?" == detail
    detail = _refusal(_write(location, service="", secrets="bootstrapkey = 1\n"))
    assert f"{location / 'secrets.toml'}: there is no setting 'bootstrapkey'. Did you mean bootstrap_key?" == detail


def test_an_unknown_key_that_is_like_none_is_refused_without_a_guess(location: Path) -> None:
    """A wrong hint is worse than none; a table is a key like any other."""
    detail = _refusal(_write(location, service="[zzz]\nx = 1\n"))
    assert f"{location / 'service.toml'}: there is no setting 'zzz'." == detail


def test_a_slip_in_a_variable_is_refused_with_the_nearest_name() -> None:
    """It would otherwise leave the default in force, and nobody would know."""
    detail = _refusal({"TICKWISE_LEASE_SECOND": "5"})
    assert (
        "The environment sets TICKWISE_LEASE_SECOND, and there is no such setting. "
        "Did you mean TICKWISE_LEASE_SECONDS?" == detail
    )


def test_a_variable_like_none_of_ours_is_reported_and_does_no_harm() -> None:
    """It may belong to somebody else's program, so it is no reason not to start."""
    settings = load({"TICKWISE_ZZZ": "1"})
    assert ("The environment sets TICKWISE_ZZZ, and there is no such setting; it has no effect.",) == settings.warnings


@pytest.mark.parametrize(
    "variable",
    [
        *sorted(RESERVED - {"TICKWISE_CONFIG_LOCATION"}),
        "TICKWISE_TEST_DATABASE_URL",
        "TICKWISE_SERVICE_HOST",
        "TICKWISE_API_SERVICE_PORT_HTTP",
        "TICKWISE_PORT_8470_TCP_ADDR",
        "PATH",
    ],
)
def test_names_that_others_own_pass_in_silence(variable: str) -> None:
    """The context of a task, the client's names, the tests' own and Kubernetes' service links are no settings."""
    settings = load({variable: "anything"})
    assert Settings() == settings
    assert settings.warnings == ()


def test_a_service_link_does_not_become_the_port() -> None:
    """Kubernetes sets TICKWISE_PORT to an address for a service called tickwise; the default stays in force."""
    assert load({"TICKWISE_PORT": "tcp://10.0.0.7:8470"}).port == 8470


def test_no_setting_has_a_reserved_name() -> None:
    """Else a task's context would configure a Tickwise that the task starts (SPEC C3)."""
    assert set() == {setting.variable for setting in SETTINGS.values()} & RESERVED


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("TICKWISE_PORT", "http", "port is 'http', and must be a whole number from 0 to 65535"),
        ("TICKWISE_PORT", "65536", "port is '65536', and must be a whole number from 0 to 65535"),
        ("TICKWISE_PORT", "8470.5", "port is '8470.5', and must be a whole number from 0 to 65535"),
        ("TICKWISE_SLOTS", "0", "slots is '0', and must be a whole number from 1 to 4096"),
        ("TICKWISE_POLL_SECONDS", "soon", "poll_seconds is 'soon', and must be a number from 0.005 to 60"),
        ("TICKWISE_POLL_SECONDS", "nan", "poll_seconds is 'nan', and must be a number from 0.005 to 60"),
        ("TICKWISE_POLL_SECONDS", "inf", "poll_seconds is 'inf', and must be a number from 0.005 to 60"),
        ("TICKWISE_LOG_FORMAT", "xml", "log_format is 'xml', and must be one of auto, console, json"),
        ("TICKWISE_BLOBS_URL", "/var", "must be an address that begins with file:// or memory://"),
        ("TICKWISE_QUEUES", "a b,c", "must be a list of names (in the environment with commas between)"),
        ("TICKWISE_QUEUES", "a,,c", "must be a list of names (in the environment with commas between)"),
        ("TICKWISE_HOST", "a\nb", "must be a text of one line"),
    ],
)
def test_a_value_out_of_its_limits_is_refused(variable: str, value: str, allowed: str) -> None:
    """The message names the variable, what was found, and what is allowed."""
    detail = _refusal({variable: value})
    assert detail.startswith(f"{variable}: ")
    assert allowed in detail


@pytest.mark.parametrize(
    "line", ["port = true", 'port = "x"', "port = 1.5", "host = 5", "queues = [1]", "data_dir = 1", "poll_seconds = {}"]
)
def test_a_value_of_the_wrong_type_in_a_file_is_refused(location: Path, line: str) -> None:
    """TOML has types, and they are taken seriously: `true` is not 1."""
    assert str(location / "service.toml") in _refusal(_write(location, service=line + "\n"))


def test_an_option_out_of_its_limits_is_refused_by_its_name() -> None:
    """The command line's options pass the same limits."""
    assert _refusal({}, held_limit=0) == "--held-limit: held_limit is 0, and must be a whole number from 1 to 200000."


@pytest.mark.parametrize("value", ["short", KEY[:-1], ""])
def test_a_secret_that_is_refused_is_not_shown(location: Path, value: str) -> None:
    """A refused key may be a real one with a slip in it, and logs are read by many."""
    detail = _refusal(_write(location, secrets=f'bootstrap_key = "{value}"\n'))
    assert "must be a text of at least 32 characters" in detail
    assert not value or value not in detail


@pytest.mark.parametrize("key", [KEY, "correct horse battery staple, and then some", "ü" * 32, "0" * 32])
def test_a_bootstrap_key_may_have_any_form(key: str) -> None:
    """Only its length counts."""
    assert key == load({"TICKWISE_BOOTSTRAP_KEY": key}).bootstrap_key


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"TICKWISE_LEASE_SECONDS": "5"}, ("lease_seconds is 5.0 (TICKWISE_LEASE_SECONDS)", "heartbeat_seconds")),
        (
            {"TICKWISE_CLAIM_AHEAD_SECONDS": "4"},
            ("claim_ahead_seconds is 4.0", "horizon_seconds, which is 3.0 (default)"),
        ),
        ({"TICKWISE_BATCH_BODY_LIMIT_BYTES": "2048"}, ("batch_body_limit_bytes", "body_limit_bytes")),
        ({"TICKWISE_HELD_LIMIT": "10"}, ("claim_batch is 500 (default)", "held_limit, which is 10")),
    ],
)
def test_values_that_contradict_each_other_are_refused(environ: dict[str, str], named: tuple[str, str]) -> None:
    """Both settings are named, with where each came from."""
    detail = _refusal(environ)
    assert all(part in detail for part in named), detail


def test_a_shorter_horizon_alone_contradicts_nothing() -> None:
    """The default of how far ahead runs are taken follows it."""
    assert 1.0 == load({"TICKWISE_HORIZON_SECONDS": "1"}).horizon_seconds


def test_a_location_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    """A mistyped folder must not start a service with its defaults."""
    for location in (tmp_path / "absent", tmp_path):
        detail = _refusal({"TICKWISE_CONFIG_LOCATION": str(location)})
        assert str(location) in detail
        assert "service.toml" in detail


def test_a_file_that_is_no_toml_is_refused_with_the_line(location: Path) -> None:
    """The parser's own words say where."""
    detail = _refusal(_write(location, service="port = 1\nslots =\n"))
    assert "service.toml is not valid TOML" in detail
    assert "line 2" in detail


def test_the_token_in_the_path_of_an_address_is_masked() -> None:
    """Whoever knows the address of a receiver of heartbeats can say that all is well."""
    url = "https://user:pw@hc-ping.com/7b1f-token/fail?key=more"
    settings = load({"TICKWISE_HEARTBEAT_URL": url, "TICKWISE_HEARTBEAT_FAIL_URL": url})
    shown = {each.name: each.value for each in settings.describe()}
    assert "https://********@hc-ping.com/********" == shown["heartbeat_url"] == shown["heartbeat_fail_url"]
    assert "7b1f" not in repr(settings)


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    """In the description, in the representation; of an address its host and database stay visible."""
    settings = load(
        {
            "TICKWISE_BOOTSTRAP_KEY": KEY,
            "TICKWISE_DATABASE_URL": "postgresql://ada:p@ss?w0rd@db.example:5432/jobs?password=hidden",
        }
    )
    shown = {each.name: each.value for each in settings.describe()}
    assert MASKED == shown["bootstrap_key"]
    assert f"postgresql://{MASKED}@db.example:5432/jobs" == shown["database_url"]
    for secret in (KEY, "w0rd", "hidden", "ada"):
        assert secret not in repr(settings)


def test_settings_cannot_be_changed_after_the_start() -> None:
    """What was checked together stays together."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        load({}).port = 1  # type: ignore[misc]  # the very thing that must not work


def test_the_module_imports_little() -> None:
    """It is on the path of `tickwise --help`, which has 150 ms in all."""
    program = "import sys, tickwise.config; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set() == {"asyncio", "platformdirs", "tomllib", "logging", "msgspec"} & set(loaded)


def test_an_option_of_another_name_is_called_what_people_typed() -> None:
    """The store's address is `--database` on the command line."""
    assert _refusal({}, database_url="mysql://x").startswith("--database: database_url is a secret that is not shown")


@pytest.mark.parametrize(("variable", "value"), [("TICKWISE_INGEST", "buffered"), ("TICKWISE_RESULTS", "broker")])
def test_what_goes_through_a_broker_needs_one(variable: str, value: str) -> None:
    """Refused at the start with what is missing, and taken as soon as it is there."""
    with pytest.raises(Misconfigured, match=f"{value}.*{variable}.*needs a broker: set TICKWISE_BROKER_URL"):
        load({variable: value})
    load({variable: value, "TICKWISE_BROKER_URL": "kafka://host:9092"})


@pytest.mark.parametrize(
    ("name", "words", "allowed"),
    [
        ("api_serve", "jobs,websites", "one or more of jobs, search, users, auth, web."),
        ("recorder_serve", "jobs", "one or more of requests, results."),
    ],
)
def test_what_nobody_serves_is_refused_with_the_list(name: str, words: str, allowed: str) -> None:
    """`--serve` with a name that is none, or that this version does not have yet."""
    with pytest.raises(Misconfigured, match=f"--serve: {name} is '{words}', and must be {re.escape(allowed)}$"):
        load({}, {name: words})


def test_a_part_may_be_served_alone() -> None:
    """One name, or several with commas between."""
    assert ("search",) == load({}, {"api_serve": "search"}).api_serve
    assert ("search", "jobs") == load({"TICKWISE_API_SERVE": "search,jobs"}).api_serve


@pytest.mark.parametrize("value", ["nginx", "10.0.0.0/99", "10.0.0.5/8", "127.0.0.1,nginx"])
def test_a_proxy_is_a_network_or_an_address(value: str) -> None:
    """`tickwise config` says so before a server does."""
    with pytest.raises(Misconfigured, match=r"a list of networks \(10\.0\.0\.0/8\) and addresses"):
        load({"TICKWISE_TRUSTED_PROXIES": value})


def test_a_secret_list_that_is_not_set_is_shown_as_unset() -> None:
    """A mask would say that there is one."""
    shown = {each.name: each.value for each in load({}).describe()}
    assert "(unset)" == shown["requests_keys"]
