"""Identity tokens from the command line to the task: others check them by the published documents, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from tests.services.packages import program
from tests.services.server import free_port
from tests.support.local_up import OWN_TASKS, Local, local_up

AUDIENCE = "https://vault.example.com"
SHOW = (
    'f="$TICKWISE_IDENTITY_TOKEN_FILE"; stat -c "%a %u" "$f"; id -u; '
    'python3 -c \'import base64, os; print(base64.b85encode(open(os.environ["TICKWISE_IDENTITY_TOKEN_FILE"], '
    '"rb").read()).decode())\'; env | grep -c "$(cat "$f")"; cat /proc/self/cmdline | grep -c "$(cat "$f")"; true'
)
"""Mode and owner, the task's user, the token in a form that no masking knows, and how often the environment and the
arguments have it."""


@pytest.fixture(scope="module")
def issuing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Local, str]]:
    """An installation whose public address is that of its API."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    given = {"TICKWISE_IDENTITY_ISSUER": f"{address}/", "TICKWISE_ISOLATION": "auto"}
    with local_up(tmp_path_factory.mktemp("up") / "data", "--port", str(port), **given) as local:
        yield local, address


def checked(address: str, token: str, **given: Any) -> dict[str, Any]:
    """The claims, as another side checks them that knows the address of the issuer alone."""
    document = httpx2.get(f"{address}/.well-known/openid-configuration").json()
    assert address == document["issuer"]
    key = jwt.PyJWKClient(document["jwks_uri"], cache_keys=False, cache_jwk_set=False).get_signing_key_from_jwt(token)
    said = {"algorithms": document["id_token_signing_alg_values_supported"], "audience": AUDIENCE, "issuer": address}
    claims: dict[str, Any] = jwt.decode(
        token, key, options={"require": ["exp", "iat", "nbf", "sub", "jti"]}, **said | given
    )
    return claims


def shown(local: Local, *options: str) -> tuple[str, list[str]]:
    """The token that a task has, and what else it says of it."""
    import base64

    ran = local.tickwise("run", "--shell", SHOW, "--now", "--follow", "--identity-token", AUDIENCE, *options)
    assert 0 == ran.code, ran.err
    mode, user, text, *counts = ran.out.split("\n")
    return base64.b85decode(text).decode(), [mode, user, *counts]


@pytest.mark.parametrize("isolation", ["process", "sandbox"])
def test_a_real_run_has_a_token_that_others_check(issuing: tuple[Local, str], isolation: str) -> None:
    """In a file of its user, mode 400, and nowhere else; in a sandbox too. A rotation in between changes nothing."""
    if isolation == "sandbox":
        program("bwrap")
    local, address = issuing
    key = f"nightly-{isolation}"
    token, (mode, user, in_environment, in_arguments, _) = shown(local, "--isolation", isolation, "--key", key)
    assert f"400 {user}" == mode
    assert ("0", "0") == (in_environment, in_arguments)
    claims = checked(address, token)
    run_id, job_id = claims["run_id"], claims["job_id"]
    assert f"ns:default:job:{key}:run:{run_id}" == claims["sub"]
    assert run_id in {each["run_id"] for each in local.tickwise("runs", "list", "--json").json}
    assert 0 < claims["exp"] - claims["iat"] <= 3_600
    assert 0 == local.tickwise("identity-keys", "rotate").code
    assert claims == checked(address, token)
    again, _ = shown(local, "--isolation", isolation)
    assert job_id != checked(address, again)["job_id"]
    with pytest.raises(jwt.InvalidAudienceError):
        checked(address, token, audience="sts.amazonaws.com")
    job = local.tickwise("jobs", "show", job_id, "--json")
    for place in (job.out, local.tickwise("runs", "show", run_id, "--json").out, _logs(local)):
        assert token not in place
        assert token.split(".")[2] not in place


def test_a_warm_script_has_its_token(issuing: tuple[Local, str], tmp_path: Path) -> None:
    """Forked from an interpreter that had begun before."""
    local, address = issuing
    script = tmp_path / "show.py"
    script.write_text(
        "import base64, os, pathlib\n"
        "token = pathlib.Path(os.environ['TICKWISE_IDENTITY_TOKEN_FILE']).read_bytes()\n"
        "print(base64.b85encode(token).decode())\n"
    )
    import base64

    for _ in range(3):
        ran = local.tickwise("run", script, "--now", "--follow", "--isolation", "process", "--identity-token", AUDIENCE)
        assert 0 == ran.code, ran.err
        assert AUDIENCE == checked(address, base64.b85decode(ran.out.strip()).decode())["aud"]


def test_a_rotation_at_once_takes_earlier_tokens_out_of_use(issuing: tuple[Local, str]) -> None:
    """The published keys have that of the token no more."""
    local, address = issuing
    token, _ = shown(local, "--isolation", "process")
    checked(address, token)
    rotated = local.tickwise("identity-keys", "rotate", "--at-once", "--json").json
    with pytest.raises(jwt.PyJWKClientError):
        checked(address, token)
    listed = local.tickwise("identity-keys", "list", "--json").json
    assert [rotated["kid"]] == [each["kid"] for each in listed if each["algorithm"] == "RS256"]


def test_an_eddsa_token_of_the_job_alone_is_checked_too(issuing: tuple[Local, str], tmp_path: Path) -> None:
    """Algorithm and subject are the job's choice, in its JSON."""
    import base64

    local, address = issuing
    body = {
        "name": "a", "key": "etl:eu", "schedule_type": "ON_DEMAND", "isolation": "process",
        "task": {"kind": "shell", "command": SHOW},
        "identity_token": {"audience": [AUDIENCE, "other"], "algorithm": "EdDSA", "subject": "job"},
    }  # fmt: skip
    file = tmp_path / "job.json"
    file.write_text(json.dumps(body))
    assert 0 == local.tickwise("jobs", "create", file).code
    ran = local.tickwise("jobs", "run-now", "etl:eu", "--follow")
    token = base64.b85decode(ran.out.split("\n")[2]).decode()
    assert "EdDSA" == jwt.get_unverified_header(token)["alg"]
    claims = checked(address, token)
    assert "ns:default:job:etl%3Aeu" == claims["sub"]
    assert [AUDIENCE, "other"] == claims["aud"]
    assert "etl:eu" == claims["job_key"]


def test_a_token_is_no_key_of_the_api(issuing: tuple[Local, str]) -> None:
    """Neither does the API take it, nor do its own access tokens pass for one."""
    local, address = issuing
    token, _ = shown(local, "--isolation", "process")
    refused = httpx2.get(f"{address}/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})
    assert 401 == refused.status_code
    own = {each["kid"] for each in httpx2.get(f"{address}/.well-known/jwks.json").json()["keys"]}
    assert own
    assert jwt.get_unverified_header(token)["kid"] not in own


def test_without_an_address_the_job_is_refused_at_its_creation(tmp_path: Path) -> None:
    """With the setting that is missing."""
    with local_up(tmp_path / "data", **OWN_TASKS) as local:
        ran = local.tickwise("run", "--shell", "true", "--now", "--identity-token", AUDIENCE)
        assert 0 != ran.code
        assert "TICKWISE_IDENTITY_ISSUER" in ran.err


def _logs(local: Local) -> str:
    return (local.data_dir / "test-up.log").read_text(errors="replace")
