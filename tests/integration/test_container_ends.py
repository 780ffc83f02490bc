"""Each end of a container says its true cause, on a real Docker Engine; and a container has what its policy says."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.containers import BUSY, PYTHON, EngineLook, ScriptStage, container_settings, policy
from tickwise.adapters.runner.container.handover import WORK
from tickwise.adapters.runner.container.router import IsolationRouter
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import OUTPUT_BYTES, RunnerBlobs, Task, log_of

DENIED = "sha256:" + "0" * 64
WITH_NETWORK = Confinement(Isolation.CONTAINER, allow_network=True)


class Bench:
    """A started runner, and one run after the other."""

    def __init__(self, stage: ScriptStage, blobs: RunnerBlobs, look: EngineLook) -> None:
        self.stage = stage
        self.blobs = blobs
        self.look = look

    async def run(self, task: Task, **changes: Any) -> tuple[Ending, str]:
        """The end of a run of this task, and its log."""
        [given] = self.stage.launch(task, **changes)
        ending = await self.stage.listener.ending_of(given)
        return ending, await log_of(self.blobs, given)

    async def busy(
        self, command: Any = None, /, *, changes: dict[str, Any] | None = None, **said: Any
    ) -> tuple[Ending, str]:
        """The same of a task of the kind container."""
        task = {"kind": "container", "image": BUSY, **({} if command is None else {"command": command}), **said}
        return await self.run(task, **(changes or {}))


@pytest.fixture
def blobs() -> RunnerBlobs:
    return RunnerBlobs()


@pytest.fixture
def policies() -> dict[str, Any]:
    """Changes of the policy."""
    return {}


@pytest_asyncio.fixture
async def bench(tmp_path: Path, blobs: RunnerBlobs, docker_url: str, policies: dict[str, Any]) -> AsyncIterator[Bench]:
    tmp_path.chmod(0o777)
    said = {"mounts": (str(tmp_path / "shared"), f"{tmp_path}/read:ro"), **policies}
    settings = container_settings(tmp_path, blobs, policy(docker_url, **said), slots=4)
    look = EngineLook(docker_url)
    nothing = {"kind": "shell", "argv": ["true"]}
    stage = ScriptStage(
        runner=IsolationRouter(settings), quick=nothing, lasting=nothing, failing=nothing, lives=look.lives
    )
    await stage.runner.start(stage.listener, stage.store_clock.now)
    before = look.volumes()
    yield Bench(stage, blobs, look)
    await stage.runner.close()
    assert [] == look.all()
    assert before == look.volumes()


# ---------------------------------------------------------------------------------------------- causes

CAUSES: dict[str, tuple[Task, str, Verdict, str]] = {
    "status": ({"command": "exit 3"}, "exit_code", Verdict.FAILED, "exit status 3"),
    "invalid input": ({"command": "exit 65"}, "exit_code", Verdict.INVALID, "exit status 65"),
    "killed": ({"command": "kill -9 $$"}, "signal", Verdict.FAILED, "SIGKILL"),
    "aborted": ({"command": "kill -6 $$"}, "signal", Verdict.FAILED, "SIGABRT"),
    "no program": ({"command": ["/bin/nothing"]}, "command_missing", Verdict.INVALID, "/bin/nothing"),
    "no program in the path": ({"command": ["nothing"]}, "command_missing", Verdict.INVALID, "nothing"),
    "no entry point": ({"entrypoint": ["nothing"], "command": ["x"]}, "command_missing", Verdict.INVALID, "nothing"),
    "not executable": ({"command": ["/bin/not-executable"]}, "command_not_executable", Verdict.INVALID, "denied"),
    "a folder": ({"command": ["/bin"]}, "command_not_executable", Verdict.INVALID, "denied"),
    "no user": ({"command": ["true"], "user": "nobody-here"}, "container_refused", Verdict.INVALID, "nobody-here"),
    "no image": ({"image": "localhost/nothing:1", "pull": "never"}, "image_missing", Verdict.INVALID, "pull: never"),
    "image elsewhere": ({"image": "python:3.12", "command": ["true"]}, "image_refused", Verdict.INVALID, "localhost/*"),
    "registry away": (
        {"image": "localhost:1/busy:1", "command": ["true"]}, "image_pull_failed", Verdict.FAILED, "refused",
    ),
    "other digest": (
        {"image": f"{BUSY}@{DENIED}", "pull": "never"}, "image_digest_differs", Verdict.INVALID, "sha256:000",
    ),
    "mount": (
        {"mounts": [{"source": "/etc", "target": "/x"}], "command": ["true"]}, "mount_refused", Verdict.INVALID, "/etc",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("policies", [{"images": ("localhost/*", "localhost:1/*")}])
async def test_an_end_names_its_cause(bench: Bench, name: str) -> None:
    """Reason, whether a retry can help, and words that say what it was."""
    task, reason, verdict, words = CAUSES[name]
    ending, _ = await bench.busy(**task)
    assert (verdict, reason) == (ending.verdict, ending.reason), ending
    assert words in (ending.error or "")


async def test_memory_processor_time_and_output_have_limits_of_their_own(bench: Bench) -> None:
    """Each named, although all of them end in a kill."""
    hungry = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    ending, _ = await bench.run(
        {"kind": "python", "source": hungry}, limits=TaskLimits(OUTPUT_BYTES, memory_bytes=64 << 20)
    )
    assert (Verdict.FAILED, "memory_limit") == (ending.verdict, ending.reason), ending
    ending, _ = await bench.busy(
        "while :; do :; done", changes={"limits": TaskLimits(OUTPUT_BYTES, cpu_seconds=0.5), "timeout_seconds": 60.0}
    )
    assert (Verdict.FAILED, "cpu_limit") == (ending.verdict, ending.reason), ending
    ending, log = await bench.busy("yes", changes={"limits": TaskLimits(10_000), "timeout_seconds": 60.0})
    assert (Verdict.FAILED, "output_limit", 10_000) == (ending.verdict, ending.reason, len(log)), ending


async def test_a_container_starts_no_more_processes_than_it_may(bench: Bench) -> None:
    """The kernel refuses the fork."""
    forks = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done"
    ending, log = await bench.busy(forks, changes={"limits": TaskLimits(OUTPUT_BYTES, processes=4)})
    assert Verdict.FAILED is ending.verdict, ending
    assert "fork" in log


# ---------------------------------------------------------------------------------------------- protocol


async def test_a_script_has_the_protocol_of_a_process(bench: Bench) -> None:
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


async def test_a_large_payload_is_a_file(bench: Bench) -> None:
    """Linux takes no such variable."""
    bench.stage.payload = {"text": "x" * 300_000}
    ending, log = await bench.busy('wc=$(cat "$TICKWISE_PAYLOAD_FILE" | od -c | tail -n 1); echo "$wc"')
    assert Verdict.OK is ending.verdict, (ending, log)
    assert int(log.strip(), 8) == len(json.dumps(bench.stage.payload))


async def test_exceptions_have_names_and_large_results_are_refused(bench: Bench) -> None:
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


async def test_both_streams_are_kept_as_they_come(bench: Bench) -> None:
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


async def test_a_script_with_packages_is_refused(bench: Bench) -> None:
    """They would not be there."""
    source = '# /// script\n# dependencies = ["requests"]\n# ///\nprint(1)\n'
    ending, _ = await bench.run({"kind": "python", "source": source})
    assert (Verdict.INVALID, "invalid") == (ending.verdict, ending.reason)
    assert "image" in (ending.error or "")


# ---------------------------------------------------------------------------------------------- walls


async def test_a_container_has_walls(bench: Bench, tmp_path: Path) -> None:
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


async def test_network_mounts_user_and_folder_are_given_on_request(bench: Bench, tmp_path: Path) -> None:
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
async def test_an_image_must_be_allowed(bench: Bench) -> None:
    """By default none is."""
    ending, _ = await bench.busy(["true"])
    assert (Verdict.INVALID, "image_refused") == (ending.verdict, ending.reason)
    assert re.search("TICKWISE_CONTAINER_(IMAGES|DIGESTS)", ending.error or "")


@pytest.mark.parametrize("policies", [{"needs_digest": True}])
async def test_an_image_is_taken_by_its_digest(bench: Bench) -> None:
    """That of the image itself, where it came from no registry."""
    own = json.loads(bench.look.ask("GET", f"/images/{BUSY}/json")[1])["Id"]
    ending, _ = await bench.busy(["true"], image=f"{BUSY}@{own}")
    assert Verdict.OK is ending.verdict, ending
    other = json.loads(bench.look.ask("GET", f"/images/{PYTHON}/json")[1])["Id"]
    ending, _ = await bench.busy(["true"], image=f"{BUSY}@{other}", pull="never")
    assert "image_digest_differs" == ending.reason
