"""Secrets, identity tokens and artefacts of tasks in containers; and the image that an attempt ran in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.containers import BUSY, PYTHON, ContainerBench, started_bench
from tests.support.waiting import eventually
from tickwise.adapters.runner.container.engine import ContainerInput
from tickwise.adapters.runner.settings import ArtefactLimits
from tickwise.documents.artefacts import artefact_key, index_key, read_index
from tickwise.ports.runner import Assignment, RenewingRunner, Verdict
from tickwise.testing.contracts.runner import RunnerBlobs, Task, log_of

VALUE = b'it\'s \xff\n$(id) `id` \\ "x" 4711-and-more'
"""No text, two lines, and all that a shell would take for its own."""
TOKEN = "eyJhbGciOiJFUzI1NiJ9.first-identity-token.signature"
RENEWED = "eyJhbGciOiJFUzI1NiJ9.other-identity-token.signature"
SECRETS = {"secret:db": VALUE, "secret-file:key": b"\0\xfe a key"}
ENV = {"PASSWORD": "secret:db", "KEY_FILE": "secret-file:key", "PLAIN": "it's $HOME"}


@pytest.fixture
def blobs() -> RunnerBlobs:
    return RunnerBlobs()


@pytest.fixture(params=[{}, {BUSY: 2, PYTHON: 2}], ids=["made", "warm"])
def warm(request: pytest.FixtureRequest) -> Mapping[str, int]:
    """The containers that wait."""
    given: Mapping[str, int] = request.param
    return given


@pytest_asyncio.fixture
async def bench(
    tmp_path: Path, blobs: RunnerBlobs, docker_url: str, warm: Mapping[str, int]
) -> AsyncIterator[ContainerBench]:
    limits = ArtefactLimits(count=3, file_bytes=1_000, attempt_bytes=2_000)
    async with started_bench(tmp_path, blobs, docker_url, settings={"artefacts": limits}, warm=warm) as started:
        if warm:
            await eventually(lambda: sum(warm.values()) == len(started.look.all()), within_seconds=60, what="all wait")
        yield started


def _everything(bench: ContainerBench, given: Assignment) -> str:
    """All that the engine shows of a run's container, and of the processes in it."""
    shown = json.dumps(bench.look.container(given.run_id))
    number = bench.look.container(given.run_id)["Id"]
    return shown + bench.look.ask("GET", f"/containers/{number}/top?ps_args=-ef")[1].decode()


SHOWS: Sequence[Task] = (
    {"kind": "python", "env": ENV, "source": (
        "import os, time\n"
        "good = os.environb[b'PASSWORD'], open(os.environ['KEY_FILE'], 'rb').read(), os.environ['PLAIN']\n"
        f"print(good == ({VALUE!r}, {SECRETS['secret-file:key']!r}, {ENV['PLAIN']!r}), 'ready', flush=True)\n"
        "print(os.environb[b'PASSWORD'].splitlines()[1].decode(), flush=True)\n"
        "while not os.path.exists('/tmp/go') and os.getppid(): time.sleep(0.05)\n"
    )},
    {"kind": "container", "image": BUSY, "env": ENV, "command": ["sh", "-c", (
        "echo True ready; printf '%s\\n' \"$PASSWORD\" | tail -n 1; sleep 600"
    )]},
)  # fmt: skip


@pytest.mark.parametrize("task", SHOWS, ids=["python", "container"])
async def test_secrets_are_in_the_task_alone(bench: ContainerBench, task: Task) -> None:
    """As variables and files with each byte; masked in its output; in no argument, and not in what the engine shows."""
    [given] = bench.stage.launch(task, secrets=SECRETS, identity_token=TOKEN)
    await bench.stage.until_lives(given)
    shown = _everything(bench, given)
    for part in ("4711-and-more", "a key", "first-identity-token"):
        assert part not in shown
    bench.stage.runner.stop(given.run_id, grace_seconds=0.1)
    assert Verdict.CANCELLED is (await bench.stage.listener.ending_of(given)).verdict
    log = await log_of(bench.blobs, given)
    assert log.startswith("True ready")
    assert "4711" not in log


async def test_a_secret_is_a_variable_by_the_shell_of_the_image(bench: ContainerBench) -> None:
    """A name that no shell can set is refused; without a secret it is a variable as any other."""
    task = {"kind": "container", "image": BUSY, "command": ["true"], "env": {"not-a-name": "secret:db"}}
    ending, _ = await bench.run(task, secrets=SECRETS)
    assert (Verdict.INVALID, "container_refused") == (ending.verdict, ending.reason), ending
    assert "not-a-name" in (ending.error or "")
    ending, log = await bench.busy(["env"], env={"not-a-name": "plain", "UID": "5"})
    assert Verdict.OK is ending.verdict, ending
    assert {"not-a-name=plain", "UID=5"} <= set(log.splitlines())


@pytest.mark.parametrize("arrives", [0, 40], ids=["nothing", "a part"])
async def test_a_start_that_does_not_arrive_is_no_success(
    bench: ContainerBench, arrives: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that reads nothing ends well. The task did not begin: the run is given back, and costs no attempt."""
    say = ContainerInput.say
    monkeypatch.setattr(ContainerInput, "say", lambda self, script: say(self, script[:arrives]))
    ending, log = await bench.run({"kind": "python", "source": "print('ran')"})
    assert (Verdict.UNOFFERED, "engine_away") == (ending.verdict, ending.reason), (ending, log)


async def test_an_identity_token_is_a_file_that_is_renewed(bench: ContainerBench) -> None:
    """A reader finds the first one, then the other one; both are masked."""
    command = (
        'first=$(cat "$TICKWISE_IDENTITY_TOKEN_FILE"); echo ready "$first"; while :; do '
        'now=$(cat "$TICKWISE_IDENTITY_TOKEN_FILE" 2>/dev/null); [ -n "$now" ] && [ "$now" != "$first" ] && break; '
        'sleep 0.1; done; echo "now $now"; [ "$now" = "' + RENEWED + '" ]'
    )
    [given] = bench.stage.launch({"kind": "container", "image": BUSY, "command": command}, identity_token=TOKEN)
    await bench.stage.until_lives(given)
    assert isinstance(bench.stage.runner, RenewingRunner)
    bench.stage.runner.renew_identity_token(given.run_id, RENEWED)
    ending = await bench.stage.listener.ending_of(given)
    assert Verdict.OK is ending.verdict, (ending, await log_of(bench.blobs, given))
    assert "identity-token" not in await log_of(bench.blobs, given)


async def test_files_left_in_the_work_folder_are_artefacts(bench: ContainerBench) -> None:
    """Within the limits; without those that it was given and left alone; a link is none. Also of a run that fails."""
    command = (
        'cd "$TICKWISE_WORK_FOLDER"; mkdir deep; echo one >a.txt; echo two >deep/b.txt; ln -s /etc/passwd link; '
        "head -c 5000 /dev/zero >large; exit 3"
    )
    [given] = bench.stage.launch({"kind": "container", "image": BUSY, "command": command})
    ending = await bench.stage.listener.ending_of(given)
    assert "exit_code" == ending.reason, ending
    index = read_index(await bench.blobs.get(index_key(given.run_id, 1)))
    assert [("a.txt", 4), ("deep/b.txt", 4)] == [(each.name, each.size_bytes) for each in index.artefacts]
    assert b"two\n" == await bench.blobs.get(artefact_key(given.run_id, 1, 1))
    assert 2 == index.left_count
    assert "kept as artefacts: a.txt (4 bytes)" in await log_of(bench.blobs, given)
    files = {"sub/given.txt": "same", "other.txt": "before"}
    source = "open('other.txt', 'w').write('after')"
    [given] = bench.stage.launch({"kind": "python", "source": source, "files": files})
    assert Verdict.OK is (await bench.stage.listener.ending_of(given)).verdict
    index = read_index(await bench.blobs.get(index_key(given.run_id, 1)))
    assert ["other.txt"] == [each.name for each in index.artefacts]


async def test_an_attempt_knows_its_image(bench: ContainerBench) -> None:
    """Exactly: the number of one that came from no registry, also of a warm container."""
    own = json.loads(bench.look.ask("GET", f"/images/{BUSY}/json")[1])["Id"]
    endings: list[Any] = [(await bench.busy(["true"]))[0], (await bench.busy("exit 1"))[0]]
    assert [own, own] == [each.usage.image for each in endings]
    assert all(each.usage.is_plausible for each in endings)


async def test_no_task_names_a_prepared_image(bench: ContainerBench) -> None:
    """One of a registry would take the place of an allowed image."""
    for pull in ("always", "never"):
        ending, _ = await bench.busy(["true"], image="localhost/tickwise-prepared:1-abc", pull=pull)
        assert "image_refused" == ending.reason
