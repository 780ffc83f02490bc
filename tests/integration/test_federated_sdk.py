"""A program without a key: the SDK exchanges the token of its pipeline, and renews the access token before it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.loopback import Loopback, Reply, serving
from tickwise_sdk import federated
from tickwise_sdk.errors import ClientError, ProblemError
from tickwise_sdk.federated import FederatedKey, has_federated_token
from tickwise_sdk.surroundings import find_server

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def tokens(name: str, seconds: int = 600) -> Reply:
    """An answer to an exchange."""
    return Reply(200, {"access_token": name, "token_type": "Bearer", "expires_in": seconds})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the token of the pipeline."""
    found = tmp_path / "token"
    found.write_text("first\n", encoding="utf-8")
    return found


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving(tokens("one"), tokens("two")) as made:
        yield made


class Shifted:
    """A monotonic clock in hand."""

    now = 1_000.0

    def monotonic(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Shifted:
    made = Shifted()
    monkeypatch.setattr(federated, "time", made)
    return made


def test_a_token_is_exchanged_once_and_renewed_before_it_ends(server: Loopback, file: Path, clock: Shifted) -> None:
    """The file is read anew: a cluster has replaced it meanwhile."""
    key = FederatedKey(server.url, {federated.TOKEN_FILE: str(file), federated.FEDERATION: "ci"})
    assert ["one", "one"] == [key(), key()]
    file.write_text("second", encoding="utf-8")
    clock.now += 569.0
    assert "one" == key()
    clock.now += 2.0
    assert "two" == key()
    assert [
        {"grant_type": GRANT, "assertion": "first", "federation": "ci"},
        {"grant_type": GRANT, "assertion": "second", "federation": "ci"},
    ] == [each.body for each in server.received]


@pytest.mark.usefixtures("clock")
def test_github_is_asked_for_a_token_of_this_server(server: Loopback) -> None:
    """With the secret of the workflow, and the address of the server as the audience."""
    with serving(Reply(200, {"value": "from github"})) as github:
        url = f"{github.url}/token?api-version=2"
        environ = {federated.GITHUB_URL: url, federated.GITHUB_TOKEN: "s3cret"}
        assert has_federated_token(environ)
        assert "one" == FederatedKey(f"{server.url}/", environ)()
        [asked] = github.received
    assert "Bearer s3cret" == asked.headers["Authorization"]
    assert asked.path.startswith("/token?api-version=2&audience=http%3A%2F%2F127.0.0.1%3A")
    assert "from github" == server.received[0].body["assertion"]
    assert "s3cret" not in str(server.received)


def test_a_workflow_without_the_permission_is_told(server: Loopback) -> None:
    """GitHub gives it no token."""
    with serving(Reply(403, {"message": "no"})) as github:
        environ = {federated.GITHUB_URL: github.url, federated.GITHUB_TOKEN: "s3cret"}
        with pytest.raises(ProblemError, match="id-token: write"):
            FederatedKey(server.url, environ)()
    assert [] == server.received


def test_a_file_that_is_not_there_is_named(server: Loopback, tmp_path: Path) -> None:
    """Nothing is sent then."""
    key = FederatedKey(server.url, {federated.TOKEN_FILE: str(tmp_path / "gone")})
    with pytest.raises(ClientError, match="gone"):
        key()
    assert [] == server.received


def test_a_refused_token_is_told_and_not_remembered(file: Path) -> None:
    """The next call exchanges it again."""
    refused = Reply(401, {"code": "unauthenticated", "detail": "no federation takes this token"})
    with serving(refused, tokens("one")) as server:
        key = FederatedKey(server.url, {federated.TOKEN_FILE: str(file)})
        with pytest.raises(ProblemError, match="no federation"):
            key()
        assert "one" == key()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"TICKWISE_API_KEY": "k", federated.TOKEN_FILE: "f"}, "k"),
        ({federated.TOKEN_FILE: "f"}, FederatedKey),
        ({federated.GITHUB_URL: "u", federated.GITHUB_TOKEN: "t"}, FederatedKey),
        ({federated.GITHUB_URL: "u"}, None),
    ],
)
def test_surroundings_give_a_key_or_a_token(tmp_path: Path, environ: dict[str, str], expected: Any) -> None:
    """A key that is named comes first."""
    found = find_server({"TICKWISE_URL": "https://tickwise.example.com", "TICKWISE_DATA_DIR": str(tmp_path), **environ})
    assert isinstance(found.key, FederatedKey) if expected is FederatedKey else expected == found.key
