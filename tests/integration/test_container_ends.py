"""Each end of a container says its true cause, on a real Docker Engine; and a container has what its policy says."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.support.containers import BUSY, PYTHON, ContainerBench, started_bench
from tests.support.engine_proxy import EngineProxy, EngineStep
from tickwise.adapters.runner.container.handover import WORK
from tickwise.adapters.runner.containers import CONTAINER_REASONS
from tickwise.domain.retry import FAILURES
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import TaskLimits, Verdict
from tickwise.testing.contracts.runner import OUTPUT_BYTES, RunnerBlobs, Task, log_of

DENIED = "sha256:" + "0" * 64
WITH_NETWORK = Confinement(Isolation.CONTAINER, allow_network=True)


@pytest.fixture
def blobs() -> RunnerBlobs:
    return RunnerBlobs()


@pytest.fixture
def policies() -> dict[str, Any]:
    """Changes of the policy."""
    return {}


@pytest_asyncio.fixture
async def bench(
    tmp_path: Path, blobs: RunnerBlobs, docker_url: str, policies: dict[str, Any]
) -> AsyncIterator[ContainerBench]:
    tmp_path.chmod(0o777)
    said = {"mounts": (str(tmp_path / "shared"), f"{tmp_path}/read:ro"), **policies}
    async with started_bench(tmp_path, blobs, docker_url, **said) as started:
        yield started


# ---------------------------------------------------------------------------------------------- causes


class Death(NamedTuple):
    """One way in which an attempt ends before its time."""

    task: Task
    reason: str
    verdict: Verdict
    words: str
    """In the sentence for people."""
    changes: Mapping[str, Any] = MappingProxyType({})
    """Of the attempt."""
    act: str = ""
    """Done to it while it runs: `stop`, or `remove` by somebody else."""


FAILED, INVALID = Verdict.FAILED, Verdict.INVALID
LASTS = {"command": "echo ready; exec sleep 600"}
HUNGRY = {"command": "x=x; while :; do x=$x$x; done"}
DEATHS: dict[str, Death] = {
    "status": Death({"command": "exit 3"}, "exit_code", FAILED, "exit status 3"),
    "invalid input": Death({"command": "exit 65"}, "exit_code", INVALID, "exit status 65"),
    "killed": Death({"command": "kill -9 $$"}, "signal", FAILED, "SIGKILL"),
    "aborted": Death({"command": "kill -6 $$"}, "signal", FAILED, "SIGABRT"),
    "no program": Death({"command": ["/bin/nothing"]}, "command_missing", INVALID, "/bin/nothing"),
    "no program in the path": Death({"command": ["nothing"]}, "command_missing", INVALID, "nothing"),
    "no entry point": Death({"entrypoint": ["nothing"], "command": ["x"]}, "command_missing", INVALID, "nothing"),
    "no program named": Death({}, "command_missing", INVALID, "names no program"),
    "not executable": Death({"command": ["/bin/not-executable"]}, "command_not_executable", INVALID, "denied"),
    "a folder": Death({"command": ["/bin"]}, "command_not_executable", INVALID, "denied"),
    "no user": Death({"command": ["true"], "user": "nobody-here"}, "container_refused", INVALID, "nobody-here"),
    "no image": Death({"image": "localhost/nothing:1", "pull": "never"}, "image_missing", INVALID, "pull: never"),
    "image elsewhere": Death({"image": "python:3.12", "command": ["true"]}, "image_refused", INVALID, "localhost/*"),
    "registry away": Death({"image": "localhost:1/busy:1", "command": "true"}, "image_pull_failed", FAILED, "refused"),
    "other digest": Death(
        {"image": f"{BUSY}@{DENIED}", "pull": "never"}, "image_digest_differs", INVALID, "sha256:000"
    ),
    "mount": Death(
        {"mounts": [{"source": "/etc", "target": "/x"}], "command": ["true"]}, "mount_refused", INVALID, "/etc"
    ),
    "memory": Death(
        HUNGRY, "memory_limit", FAILED, "32 MB", {"limits": TaskLimits(OUTPUT_BYTES, memory_bytes=32 << 20)}
    ),
    "processor": Death(
        {"command": "while :; do :; done"}, "cpu_limit", FAILED, "0.5 s",
        {"limits": TaskLimits(OUTPUT_BYTES, cpu_seconds=0.5)},
    ),
    "output": Death({"command": "yes"}, "output_limit", FAILED, "9.8 KB", {"limits": TaskLimits(10_000)}),
    "time": Death(LASTS, "timeout", FAILED, "0.5 s", {"timeout_seconds": 0.5}),
    "result": Death({"command": 'echo no >"$TICKWISE_RESULT_FILE"'}, "result", FAILED, "JSON"),
    "stopped": Death(LASTS, "cancelled", Verdict.CANCELLED, "", {}, "stop"),
    "removed": Death(LASTS, "outcome_lost", Verdict.UNKNOWN, "somebody else", {}, "remove"),
}  # fmt: skip
"""Those by an engine that goes away are in test_container_outages, by an executor that dies in test_container_kills."""


@pytest.mark.parametrize("name", DEATHS)
@pytest.mark.parametrize("policies", [{"images": ("localhost/*", "localhost:1/*")}])
async def test_a_death_names_its_cause(bench: ContainerBench, name: str) -> None:
    """Reason, whether a retry can help, words that say what it was; and it costs an attempt only where the task or its
    limits were the cause."""
    death = DEATHS[name]
    [given] = bench.stage.launch({"kind": "container", "image": BUSY, **death.task}, **death.changes)
    if death.act:
        await bench.stage.until_lives(given)
    if death.act == "stop":
        bench.stage.runner.stop(given.run_id, grace_seconds=5.0)
    elif death.act == "remove":
        bench.look.ask("DELETE", f"/containers/{bench.look.container(given.run_id)['Id']}?force=1&v=1")
    ending = await bench.stage.listener.ending_of(given)
    assert (death.verdict, death.reason) == (ending.verdict, ending.reason), ending
    assert death.words in (ending.error or "")
    is_charged = ending.reason in {*FAILURES, *CONTAINER_REASONS}
    assert is_charged == (death.verdict in (FAILED, INVALID))
    if name == "output":
        assert 10_000 == len(await log_of(bench.blobs, given))


def test_twenty_deaths_have_a_cause_of_their_own() -> None:
    """The table is that long."""
    assert len(DEATHS) >= 20


async def test_a_container_starts_no_more_processes_than_it_may(bench: ContainerBench) -> None:
    """The kernel refuses the fork."""
    forks = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done"
    ending, log = await bench.busy(forks, changes={"limits": TaskLimits(OUTPUT_BYTES, processes=4)})
    assert Verdict.FAILED is ending.verdict, ending
    assert "fork" in log


# ---------------------------------------------------------------------------------------------- protocol


async def test_a_script_has_the_protocol_of_a_process(bench: ContainerBench) -> None:
    """Payload, facts of the attempt, key, trace, files beside it, a result; and nothing in an argument."""
    source = """\
import json, os, sys, helper
names = ["RUN_ID", "ATTEMPT", "IDEMPOTENCY_KEY", "FENCING_TOKEN", "NAMESPACE"]
found = {name: os.environ["TICKWISE_" + name] for name in names}
found |= {"payload": json.loads(os.environ["TICKWISE_PAYLOAD"]), "trace": os.environ["TRACEPARENT"]}
found |= {"argv": sys.argv, "uid": os.getuid(), "helper": helper.NAME, "region": os.environ["REGION"]}
found |= {"folder": os.getcwd() == os.environ["TICKWISE_WORK_FOLDER"]}
open("kept", "w").close()
json.dump(found, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    task = {"kind": "python", "source": source, "files": {"helper.py": "NAME = 'h'"}, "env": {"REGION": "eu"}}
    bench.stage.payload = {"a": "ü"}
    [given] = bench.stage.launch(task, traceparent=trace)
    ending = await bench.stage.listener.ending_of(given)
    assert Verdict.OK is ending.verdict, (ending, await log_of(bench.blobs, given))
    expected = {
        "RUN_ID": str(given.run_id), "ATTEMPT": "1", "IDEMPOTENCY_KEY": str(given.run_id), "FENCING_TOKEN": "7",
        "NAMESPACE": "default", "payload": {"a": "ü"}, "trace": trace, "argv": [f"{WORK}/task.py"],
        "uid": 65_534, "helper": "h", "region": "eu", "folder": True,
    }  # fmt: skip
    assert expected == json.loads(ending.result or "null")


async def test_a_large_payload_is_a_file(bench: ContainerBench) -> None:
    """Linux takes no such variable."""
    bench.stage.payload = {"text": "x" * 300_000}
    ending, log = await bench.busy('wc=$(cat "$TICKWISE_PAYLOAD_FILE" | od -c | tail -n 1); echo "$wc"')
    assert Verdict.OK is ending.verdict, (ending, log)
    assert int(log.strip(), 8) == len(json.dumps(bench.stage.payload))


async def test_exceptions_have_names_and_large_results_are_refused(bench: ContainerBench) -> None:
    """As of every script; a link is no result."""
    ending, _ = await bench.run(
        {"kind": "python", "source": "import decimal\n1 / decimal.Decimal(0)"}, names_errors=True
    )
    assert "decimal.DivisionByZero" in ending.symptoms
    write = 'open(os.environ["TICKWISE_RESULT_FILE"], "w").write'
    ending, _ = await bench.run({"kind": "python", "source": f"import os\n{write}('\"' + 'x' * 70_000 + '\"')"})
    assert (Verdict.FAILED, "result") == (ending.verdict, ending.reason), ending
    link = 'os.symlink("/etc/passwd", os.environ["TICKWISE_RESULT_FILE"])'
    ending, _ = await bench.run({"kind": "python", "source": f"import os\n{link}"})
    assert (Verdict.OK, None) == (ending.verdict, ending.result)


async def test_both_streams_are_kept_as_they_come(bench: ContainerBench) -> None:
    """Bytes that are no text, long lines, and no line end; while the task runs."""
    [given] = bench.stage.launch({"kind": "python", "source": _SPEAK})
    ending = await bench.stage.listener.ending_of(given)
    assert Verdict.OK is ending.verdict, ending
    log = await log_of(bench.blobs, given)
    assert "grüße" + "x" * 100_000 + "end" == log.replace("err", "", 1)


_SPEAK = """\
import os, time
os.write(1, "grüße".encode()[:3]); os.write(1, "grüße".encode()[3:])
os.write(2, b"err"); os.write(1, b"x" * 100_000 + b"end")
"""


@pytest.mark.parametrize("head", ["", "hello"])
async def test_an_end_is_seen_although_the_log_never_ends(
    tmp_path: Path, blobs: RunnerBlobs, docker_url: str, head: str
) -> None:
    """Podman's follower misses an end at its begin, and a network may forget a silent connection: the rest of the
    output is there, and nothing of it twice."""
    frame = b"\1\0\0\0" + len(head).to_bytes(4, "big") + head.encode()
    chunk = b"%x\r\n%b\r\n" % (len(frame), frame) if head else b""
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk
    step = EngineStep(r"GET /containers/\w+/logs\?\S*follow=1", is_done=False)
    proxy = EngineProxy(Path(docker_url.removeprefix("unix://")), step, lambda: None, answer)
    async with (
        proxy.serving(tmp_path / "engine.sock") as url,
        started_bench(tmp_path, blobs, url, direct_url=docker_url) as bench,
    ):
        ending, log = await bench.busy(["echo", "hello world"])
        assert Verdict.OK is ending.verdict, ending
        assert "hello world\n" == log
        assert proxy.acted.is_set()


async def test_a_script_with_packages_is_refused(bench: ContainerBench) -> None:
    """They would not be there."""
    source = '# /// script\n# dependencies = ["requests"]\n# ///\nprint(1)\n'
    ending, _ = await bench.run({"kind": "python", "source": source})
    assert (Verdict.INVALID, "invalid") == (ending.verdict, ending.reason)
    assert "image" in (ending.error or "")


# ---------------------------------------------------------------------------------------------- walls


async def test_a_container_has_walls(bench: ContainerBench, tmp_path: Path) -> None:
    """A read-only system, a /tmp, no capabilities, no new privileges, seccomp, no network, no core files."""
    ending, log = await bench.busy(
        "touch /x 2>/dev/null || echo read-only; touch /tmp/x && echo tmp; id -u; ls /sys/class/net; "
        "cat /proc/self/status",
    )
    assert Verdict.OK is ending.verdict, ending
    lines = log.splitlines()
    assert ["read-only", "tmp", "65534", "lo"] == lines[:4]
    status = dict(line.split(":\t", 1) for line in lines[4:] if ":\t" in line)
    assert {"0000000000000000"} == {status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")}
    assert ("1", "2") == (status["NoNewPrivs"], status["Seccomp"])


async def test_network_mounts_user_and_folder_are_given_on_request(bench: ContainerBench, tmp_path: Path) -> None:
    """By the policy alone."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "read").mkdir()
    (tmp_path / "shared").chmod(0o777)
    mounts = [
        {"source": f"{tmp_path}/shared", "target": "/data", "read_only": False},
        {"source": f"{tmp_path}/read", "target": "/read"},
    ]
    command = "pwd; id -u; echo hi >/data/out; touch /read/x 2>/dev/null || echo kept; ls /sys/class/net | wc -l"
    ending, log = await bench.busy(
        command, mounts=mounts, user="app", working_dir="/usr", changes={"confinement": WITH_NETWORK},
    )  # fmt: skip
    assert Verdict.OK is ending.verdict, (ending, log)
    assert ["/usr", "1000", "kept"] == log.splitlines()[:3]
    assert int(log.splitlines()[3]) > 1
    assert "hi\n" == (tmp_path / "shared/out").read_text()
    write = [{"source": f"{tmp_path}/read", "target": "/read", "read_only": False}]
    ending, _ = await bench.busy(["true"], mounts=write)
    assert (Verdict.INVALID, "mount_refused") == (ending.verdict, ending.reason)
    below = [{"source": f"{tmp_path}/shared/out", "target": "/read"}]
    ending, _ = await bench.busy(["true"], mounts=below)
    assert "mount_refused" == ending.reason


@pytest.mark.parametrize("policies", [{"images": ()}, {"images": ("localhost/python",)}, {"needs_digest": True}])
async def test_an_image_must_be_allowed(bench: ContainerBench) -> None:
    """By default none is."""
    ending, _ = await bench.busy(["true"])
    assert (Verdict.INVALID, "image_refused") == (ending.verdict, ending.reason)
    assert re.search("TICKWISE_CONTAINER_(IMAGES|DIGESTS)", ending.error or "")


@pytest.mark.parametrize("policies", [{"needs_digest": True}])
async def test_an_image_is_taken_by_its_digest(bench: ContainerBench) -> None:
    """That of the image itself, where it came from no registry."""
    own = json.loads(bench.look.ask("GET", f"/images/{BUSY}/json")[1])["Id"]
    ending, _ = await bench.busy(["true"], image=f"{BUSY}@{own}")
    assert Verdict.OK is ending.verdict, ending
    other = json.loads(bench.look.ask("GET", f"/images/{PYTHON}/json")[1])["Id"]
    ending, _ = await bench.busy(["true"], image=f"{BUSY}@{other}", pull="never")
    assert "image_digest_differs" == ending.reason
