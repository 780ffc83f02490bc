"""The parts of the API as processes of their own: each does its work while the others are away."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
import httpx2
import jwt
import pytest

from tests.integration.processes.fleet import KEY, Fleet, Role
from tests.services.nginx import Nginx
from tests.support.certificates import Pair, make, trust
from tests.support.databases import with_role
from tests.support.local_up import ROOT
from tests.support.pages import Browser, Markup
from tickwise.adapters.store.postgres import upgrade

PASSWORD: Final = "four quiet herons wade"
JOB: Final = {"name": "a job", "every": "1h", "task": {"kind": "shell", "command": "true"}}
EXAMPLE: Final = ROOT / "examples" / "services_apart_tls"
PARTS: Final = {"jobs": "jobs", "search": "search", "identity": "users,auth", "web": "web"}


class Apart:
    """One process of each part. `identity` alone is given the key that signs tokens, `jobs` alone the admin key."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.roles: dict[str, Role] = {}
        self.urls: dict[str, str] = {}

    async def start(self, *parts: str) -> None:
        """All at once. `identity-2` and the like are further processes of a part; such a process of `identity` has a
        key of its own for tokens."""
        for name in parts:
            part = name.partition("-")[0]
            own = {"TICKWISE_DATA_DIR": str(self.fleet.folder / name)}
            if part == "jobs":
                own["TICKWISE_BOOTSTRAP_KEY"] = KEY
            elif part == "identity":
                own["TICKWISE_TOKEN_KEY_FILE"] = str(made_token_key(self.fleet.folder / f"{name}.key"))
            self.roles[name] = self.fleet.start("api", "--serve", PARTS[part], "--port", "0", **own)
        for name in parts:
            self.urls[name] = str(await self.roles[name].ready())

    async def ask(self, part: str, method: str, path: str, credential: str, body: Any = None) -> httpx2.Response:
        """A request to one part."""
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
            return await client.request(method, f"{self.urls[part]}/api/v1{path}", json=body, headers=headers)

    async def get(self, url: str) -> httpx2.Response:
        """An answer to nobody in particular."""
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            return await client.get(url)

    async def tokens(self, part: str = "identity", **grant: str) -> dict[str, Any]:
        """What this process of `identity` answers to a grant."""
        answer = await self.ask(part, "POST", "/auth/token", "", grant)
        assert 200 == answer.status_code, answer.text
        found: dict[str, Any] = answer.json()
        return found


def made_token_key(file: Path) -> Path:
    """The key that signs tokens, as operators make it; the same again if it is there."""
    if not file.exists():
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(file)], check=True)
        file.chmod(0o600)
    return file


@pytest.fixture
def apart(empty_url: str, tmp_path: Path) -> Iterator[Apart]:
    fleet = Fleet(empty_url, tmp_path)
    fleet.untell("TICKWISE_BOOTSTRAP_KEY")
    yield Apart(fleet)
    fleet.stop()


async def test_tokens_work_for_jobs_while_no_process_serves_people_and_tokens(apart: Apart, empty_url: str) -> None:
    """Sign in, stop `identity`: the token works at `jobs` and `search`, also at one that is started only now. Start it
    again: the sign-in goes on."""
    await upgrade(empty_url)
    await apart.start("jobs", "search", "identity")
    person = {"name": "Ada", "password": PASSWORD, "roles": [{"role": "developer", "namespace": "default"}]}
    assert 201 == (await apart.ask("identity", "POST", "/users", KEY, person)).status_code
    tokens = await apart.tokens(grant_type="password", username="ada", password=PASSWORD)
    assert 201 == (await apart.ask("jobs", "POST", "/jobs", tokens["access_token"], JOB)).status_code

    apart.roles["identity"].kill()
    apart.roles["jobs"].kill()
    await apart.start("jobs")
    made = await apart.ask("jobs", "POST", "/jobs", tokens["access_token"], JOB)
    assert 201 == made.status_code, made.text
    found = await apart.ask("search", "GET", f"/jobs/{made.json()['job_id']}", tokens["access_token"])
    assert (200, "a job") == (found.status_code, found.json()["name"])
    forged = tokens["access_token"][:-8] + "AAAAAAAA"
    assert 401 == (await apart.ask("jobs", "POST", "/jobs", forged, JOB)).status_code
    elsewhere = await apart.ask("jobs", "POST", "/auth/token", "", {"grant_type": "password"})
    assert (421, "auth") == (elsewhere.status_code, elsewhere.json()["service"])

    await apart.start("identity")
    renewed = await apart.tokens(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert renewed["access_token"] != tokens["access_token"]
    assert 201 == (await apart.ask("jobs", "POST", "/jobs", renewed["access_token"], JOB)).status_code


async def test_two_processes_that_change_the_key_of_tokens_at_once_break_no_session(
    apart: Apart, empty_url: str
) -> None:
    """Two processes of `identity` start at the same time, each with another new key, beside one with the key of before:
    a token of each works at every part, and every part shows all three keys. A process that signed goes away, and its
    tokens work until they end."""
    await upgrade(empty_url)
    await apart.start("jobs", "search", "identity")
    person = {"name": "Ada", "password": PASSWORD, "roles": [{"role": "developer", "namespace": "default"}]}
    assert 201 == (await apart.ask("identity", "POST", "/users", KEY, person)).status_code
    await apart.start("identity-2", "identity-3")
    signed_by = ("identity", "identity-2", "identity-3")
    tokens = [
        (await apart.tokens(each, grant_type="password", username="ada", password=PASSWORD))["access_token"]
        for each in signed_by
    ]
    keys = {jwt.get_unverified_header(token)["kid"] for token in tokens}
    assert 3 == len(keys)
    for each in signed_by:
        published = (await apart.get(f"{apart.urls[each]}/.well-known/jwks.json")).json()["keys"]
        assert keys == {key["kid"] for key in published}, each
    apart.roles["identity-2"].kill()
    for token in tokens:
        for part in ("identity", "identity-3"):
            assert 200 == (await apart.ask(part, "GET", "/auth/me", token)).status_code
        assert 201 == (await apart.ask("jobs", "POST", "/jobs", token, JOB)).status_code
        assert 200 == (await apart.ask("search", "GET", "/jobs", token)).status_code


async def test_the_pages_work_while_no_part_of_the_api_does(apart: Apart, empty_url: str) -> None:
    """With a database role of their own, which has what a service needs: people sign in, see a job and pause it while
    everything else is away. A request for the API is told where it belongs, and serves nothing."""
    await upgrade(empty_url)
    await apart.start("jobs", "identity")
    person = {"name": "Ada", "password": PASSWORD, "roles": [{"role": "developer", "namespace": "default"}]}
    assert 201 == (await apart.ask("identity", "POST", "/users", KEY, person)).status_code
    made = (await apart.ask("jobs", "POST", "/jobs", KEY, JOB)).json()["job_id"]
    apart.roles["jobs"].kill()
    apart.roles["identity"].kill()
    async with service_role(empty_url) as url:
        apart.fleet.tell(TICKWISE_DATABASE_URL=url)
        await apart.start("web")
        async with httpx2.AsyncClient(base_url=apart.urls["web"], trust_env=False, timeout=60) as client:
            browser = Browser(client)
            assert 303 == (await browser.sign_in("Ada", PASSWORD)).status_code
            assert "a job" in Markup((await browser.get("/jobs")).text).words
            answer = await browser.post(f"/jobs/{made}/pause", {"reason": "for a test"})
            assert 303 == answer.status_code, answer.text
            assert "for a test" in Markup((await browser.get(f"/jobs/{made}")).text).words
        elsewhere = await apart.ask("web", "GET", "/jobs", KEY)
        assert (421, "search") == (elsewhere.status_code, elsewhere.json()["service"])
        assert 200 == (await apart.get(f"{apart.urls['web']}/livez")).status_code
        apart.roles["web"].kill()


@contextlib.asynccontextmanager
async def service_role(url: str) -> AsyncIterator[str]:
    """The address of the database for a role that has what a service needs."""
    name = f"web_of_{urlsplit(url).path.removeprefix('/')}"
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    await connection.execute(f"SELECT tickwise.grant_service('{name}')")
    try:
        yield with_role(url, name, "secret")
    finally:
        for what in ("ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA", "ALL FUNCTIONS IN SCHEMA", "SCHEMA"):
            await connection.execute(f"REVOKE ALL ON {what} tickwise FROM {name}")
        await connection.execute(f"DROP ROLE {name}")
        await connection.close()


async def test_the_parts_that_change_no_job_make_no_first_key(apart: Apart, empty_url: str) -> None:
    """They may be the first to start, and would keep the only admin key where nobody looks for it."""
    await upgrade(empty_url)
    await apart.start("search", "identity", "web")
    connection = await asyncpg.connect(empty_url)
    assert 0 == await connection.fetchval("SELECT count(*) FROM tickwise.keys")
    await apart.start("jobs")
    assert 1 == await connection.fetchval("SELECT count(*) FROM tickwise.keys")
    await connection.close()
    assert 200 == (await apart.ask("search", "GET", "/jobs", KEY)).status_code
    assert 200 == (await apart.ask("identity", "GET", "/users", KEY)).status_code


async def test_the_gateway_of_the_example_speaks_tls_with_clients_and_with_the_parts(
    apart: Apart, empty_url: str, tmp_path: Path
) -> None:
    """Each part has a certificate of the operator's own authority. Requests reach the part that serves them, a client
    cannot choose its address, and a part with a certificate of somebody else gets none."""
    await upgrade(empty_url)
    inside, outside = make(tmp_path / "inside", name="tickwise.internal"), make(tmp_path / "outside")
    stranger = make(tmp_path / "stranger", name="tickwise.internal")
    settings = tomllib.loads((EXAMPLE / "service.toml").read_text()) | {
        "host": "127.0.0.1", "tls_cert_file": str(inside.certificate), "tls_key_file": str(inside.key),
        "trusted_proxies": ["127.0.0.1"],
    }  # fmt: skip
    apart.fleet.tell(**_variables(settings))
    await apart.start("jobs", "search", "identity", "web")
    assert {"https"} == {urlsplit(url).scheme for url in apart.urls.values()}
    client = httpx2.AsyncClient(trust_env=False, verify=trust(outside.certificate), timeout=60)
    async with client, Nginx(gateway(apart.urls, inside, outside)) as nginx:
        url = f"https://{nginx.address}/api/v1"
        admin = {"Authorization": f"Bearer {KEY}", "X-Forwarded-For": "203.0.113.7"}
        person = {"name": "Ada", "password": PASSWORD, "roles": [{"role": "developer", "namespace": "default"}]}
        assert 201 == (await client.post(f"{url}/users", json=person, headers=admin)).status_code
        grant = {"grant_type": "password", "username": "ada", "password": PASSWORD}
        token = (await client.post(f"{url}/auth/token", json=grant)).json()["access_token"]
        bearer = {"Authorization": f"Bearer {token}"}
        made = await client.post(f"{url}/jobs", json=JOB, headers=bearer)
        assert 201 == made.status_code, made.text
        found = await client.get(f"{url}/jobs/{made.json()['job_id']}", headers=bearer)
        assert (200, "a job") == (found.status_code, found.json()["name"])
        (entry,) = (await client.get(f"{url}/audit?action=user.added", headers=admin)).json()
        assert "127.0.0.1" == entry["caller"]["address"]
        browser = Browser(
            httpx2.AsyncClient(base_url=f"https://{nginx.address}", verify=trust(outside.certificate), timeout=60)
        )
        assert 303 == (await browser.sign_in("Ada", PASSWORD)).status_code
        assert "a job" in Markup((await browser.get("/jobs")).text).words
        (entry,) = (await client.get(f"{url}/audit?action=auth.signed_in&limit=1", headers=admin)).json()
        assert "127.0.0.1" == entry["caller"]["address"]
        await browser.client.aclose()
        async with Nginx(gateway(apart.urls, stranger, outside)) as other:
            answer = await client.get(f"https://{other.address}/api/v1/jobs", headers=bearer)
            assert 502 == answer.status_code


def _variables(settings: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"TICKWISE_{name.upper()}": ",".join(value) if isinstance(value, list) else value
        for name, value in settings.items()
    }


def gateway(urls: Mapping[str, str], inside: Pair, outside: Pair) -> str:
    """The example's configuration, with the addresses of these parts; `inside`: what it trusts, `outside`: its own."""
    text = (EXAMPLE / "nginx.conf").read_text()
    for part, url in urls.items():
        server = f"upstream tickwise-{part} {{ server {urlsplit(url).netloc}; }}"
        text, count = re.subn(rf"^upstream tickwise-{part} .*$", server, text, flags=re.MULTILINE)
        assert 1 == count, part
    for place, file in (
        ("tickwise.crt", outside.certificate), ("tickwise.key", outside.key), ("tickwise-ca.pem", inside.certificate),
    ):  # fmt: skip
        assert f"/etc/nginx/{place};" in text
        text = text.replace(f"/etc/nginx/{place};", f"{file};")
    text = text.replace("listen 443 ssl;", "listen 127.0.0.1:{port} ssl;")
    return (ROOT / "deploy" / "gateway" / "routes.conf").read_text() + text
