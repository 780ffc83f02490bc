"""Each end of a pod says its true cause, on a real Kubernetes API server; and a pod has what its policy says.

The statuses are those that a kubelet, the scheduler and the controllers of Kubernetes 1.36 write; a small kubelet
reports those that need a kernel, a registry or a second node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import pytest_asyncio

from tests.services.kubelet import Kubelet, now
from tests.support.clusters import BUSY, PYTHON, ClusterSite, PodStage, busy
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.kind import OWN_FOLDER
from tickwise.adapters.runner.container.kubernetes import causes, following, runner
from tickwise.adapters.runner.container.kubernetes.cluster import ClusterAway, JobCluster
from tickwise.adapters.runner.process.start import PYTHON_SCRIPT
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import OUTPUT_BYTES, Task, log_of

OPEN = Confinement(Isolation.CONTAINER, allow_network=True, container_image=PYTHON)


@pytest_asyncio.fixture
async def site(tmp_path: Path, kubernetes_port: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterSite]:
    monkeypatch.setattr(causes, "SETTLE_SECONDS", 0.5)
    monkeypatch.setattr(runner, "EVENTS_AFTER_SECONDS", 0.5)
    monkeypatch.setattr(runner, "EVENTS_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(runner, "CUT_SECONDS", 0.2)
    monkeypatch.setattr(following, "REST_SECONDS", 0.5)
    async with Kubelet(kubernetes_port) as node:
        made = ClusterSite(tmp_path, node, kubernetes_port)
        await made.prepare()
        yield made
        await made.close()
        for kind in ("jobs", "pods", "secrets"):

            async def is_empty(kind: str = kind) -> bool:
                return not await made.objects(kind)

            await eventually(is_empty, within_seconds=90, what=f"no {kind} are left")


@pytest_asyncio.fixture
async def stage(site: ClusterSite) -> PodStage:
    return await site.stage(routed=True)


# ---------------------------------------------------------------------------------------------- causes

TERMINATED: dict[str, tuple[Mapping[str, Any], str, Verdict, str]] = {
    "memory": ({"exitCode": 137, "reason": "OOMKilled"}, "memory_limit", Verdict.FAILED, "OOMKilled"),
    "no program": (
        {"exitCode": 128, "reason": "StartError", "message": 'exec: "load": executable file not found in $PATH'},
        "command_missing", Verdict.INVALID, "load",
    ),
    "not executable": (
        {"exitCode": 128, "reason": "ContainerCannotRun", "message": 'exec: "/x": permission denied: unknown'},
        "command_not_executable", Verdict.INVALID, "permission denied",
    ),
    "not started": (
        {"exitCode": 128, "reason": "StartError", "message": "failed to create containerd task: no such device"},
        "container_refused", Verdict.INVALID, "no such device",
    ),
}  # fmt: skip
PROGRAMS: dict[str, tuple[str, str, Verdict, str]] = {
    "status": ("exit 3", "exit_code", Verdict.FAILED, "exit status 3"),
    "invalid input": ("exit 65", "exit_code", Verdict.INVALID, "exit status 65"),
    "killed": ("kill -9 $$", "signal", Verdict.FAILED, "SIGKILL"),
    "aborted": ("kill -6 $$", "signal", Verdict.FAILED, "SIGABRT"),
}
PODS: dict[str, tuple[Mapping[str, Any], str, Verdict, str]] = {
    "own disk": (
        {"reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds the total limit of containers 1G."},
        "disk_limit", Verdict.FAILED, "exceeds the total limit",
    ),
    "deadline": (
        {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"},
        "timeout", Verdict.FAILED, "longer than",
    ),
    "node pressure": (
        {"reason": "Evicted", "message": "The node was low on resource: memory.",
         "conditions": ["TerminationByKubelet", "The node was low on resource: memory."]},
        "outcome_lost", Verdict.UNKNOWN, "low on resource: memory",
    ),
    "preemption": (
        {"conditions": ["PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"]},
        "outcome_lost", Verdict.UNKNOWN, "preempted",
    ),
    "drained node": (
        {"conditions": ["EvictionByEvictionAPI", "Eviction API: evicting"]}, "outcome_lost", Verdict.UNKNOWN, "drain",
    ),
    "lost node": (
        {"conditions": ["DeletionByPodGC", "PodGC: node no longer exists"]},
        "outcome_lost", Verdict.UNKNOWN, "node that is gone",
    ),
}  # fmt: skip
WAITS: dict[str, tuple[tuple[str, str], str, Verdict, str]] = {
    "no image": (
        ("ErrImagePull", "failed to resolve reference: localhost/x:1: not found"),
        "image_missing", Verdict.INVALID, "not found",
    ),
    "image denied": (
        ("ImagePullBackOff", "pull access denied, authorization failed"), "image_denied", Verdict.INVALID, "denied",
    ),
    "registry away": (
        ("ImagePullBackOff", "dial tcp 10.0.0.9:443: connect: connection refused"),
        "image_pull_failed", Verdict.FAILED, "connection refused",
    ),
    "name of an image": (
        ("InvalidImageName", "couldn't parse image name"), "container_refused", Verdict.INVALID, "parse image name",
    ),
    "root": (
        ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
        "container_refused", Verdict.INVALID, "name a `user`",
    ),
    "configuration": (
        ("CreateContainerConfigError", 'configmap "settings" not found'),
        "container_refused", Verdict.INVALID, "settings",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_that_ends_names_its_cause(site: ClusterSite, stage: PodStage, name: str) -> None:
    """Reason, whether a retry can help, and words that say what it was."""
    command, reason, verdict, words = PROGRAMS[name]
    ending, _ = await site.run(stage, busy(command=command))
    assert (verdict, reason) == (ending.verdict, ending.reason), ending
    assert words in (ending.error or "")


async def _lasting(site: ClusterSite, stage: PodStage) -> Any:
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    here = site.pod(given.run_id)
    assert here is not None
    # What follows is reported by the test, not by the end of the process.
    assert here.task is not None
    here.task.cancel()
    site.node.kill(here)
    return given, here


@pytest.mark.parametrize("name", TERMINATED)
async def test_an_end_that_the_runtime_reports_names_its_cause(site: ClusterSite, stage: PodStage, name: str) -> None:
    """OOM kills, programs that are not there: told apart from an exit status."""
    said, reason, verdict, words = TERMINATED[name]
    given, here = await _lasting(site, stage)
    message = str(said.get("message", ""))
    await site.node.ended(here, int(said["exitCode"]), began=now(), reason=str(said["reason"]), message=message)
    ending = await stage.listener.ending_of(given)
    assert (verdict, reason) == (ending.verdict, ending.reason), ending
    assert words in (ending.error or "")


@pytest.mark.parametrize("name", PODS)
async def test_what_is_done_to_a_pod_is_told_apart_from_its_own_failure(
    site: ClusterSite, stage: PodStage, name: str
) -> None:
    """A disruption leaves an unknown outcome, which uses up no retry; a limit of its own is its failure."""
    said, reason, verdict, words = PODS[name]
    given, here = await _lasting(site, stage)
    status: dict[str, Any] = {"phase": "Failed", **said}
    if "conditions" in said:
        why, text = said["conditions"]
        condition = {"type": "DisruptionTarget", "status": "True", "reason": why, "message": text}
        status["conditions"] = [{**condition, "lastTransitionTime": now()}]
    await site.node.report(here, status)
    ending = await stage.listener.ending_of(given)
    assert (verdict, reason) == (ending.verdict, ending.reason), ending
    assert words in (ending.error or "")


@pytest.mark.parametrize("name", WAITS)
async def test_a_pod_that_cannot_begin_names_its_cause(site: ClusterSite, name: str) -> None:
    """Told while it waits: Kubernetes itself would try for ever."""
    waits, reason, verdict, words = WAITS[name]
    site.node.waits[BUSY] = waits
    stage = await site.stage(pull_seconds=1.0)
    ending, log = await site.run(stage, busy(command=["x"]))
    assert (verdict, reason) == (ending.verdict, ending.reason), ending
    assert words in (ending.error or "")
    assert waits[0] in log, "what it waited for is in its log"


async def _given_up(site: ClusterSite, words: str, task: Task, **changes: Any) -> tuple[Ending, str]:
    """The end of a run that no node takes, and its log. A cluster that stood still, and did not say why by then, is
    given more time."""
    for seconds in (2.0, 10.0, 40.0):
        stage = await site.stage(pending_seconds=seconds, **changes)
        ending, log = await site.run(stage, task, confinement=OPEN)
        if words in (ending.error or ""):
            break
    return ending, log


async def test_a_pod_that_fits_nowhere_goes_back_with_the_words_of_the_scheduler(site: ClusterSite) -> None:
    """Which node asked what; no attempt is used up, and its Job is gone."""
    ending, log = await _given_up(site, "Insufficient cpu", busy(command=["x"], cpus=64))
    assert (Verdict.UNOFFERED, "pod_pending") == (ending.verdict, ending.reason), ending
    assert "Insufficient cpu" in (ending.error or "")
    assert "Insufficient cpu" in log


async def test_a_full_quota_is_named(site: ClusterSite) -> None:
    """By an event of the Job alone: it gets no pod."""
    quota: dict[str, Any] = {
        "metadata": {"name": f"q-{site.installation[:8]}", "namespace": "full"},
        "spec": {"hard": {"pods": "0"}},
    }
    await site.node.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "full"}})
    await site.node.ask("POST", "/api/v1/namespaces/full/resourcequotas", quota)

    async def is_counted() -> bool:
        found = await site.node.ask("GET", f"/api/v1/namespaces/full/resourcequotas/{quota['metadata']['name']}")
        return "hard" in found.get("status", {})

    await eventually(is_counted, within_seconds=90, what="the quota is in force")
    ending, _ = await _given_up(site, "exceeded quota", busy(command=["x"]), places=("*=full",))
    assert (Verdict.UNOFFERED, "pod_pending") == (ending.verdict, ending.reason), ending
    assert "exceeded quota" in (ending.error or "")


async def test_a_pod_that_somebody_deletes_leaves_an_unknown_outcome(site: ClusterSite, stage: PodStage) -> None:
    """Not a failure of its own, although its program ends with a status; and Kubernetes starts no second pod."""
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    here = site.pod(given.run_id)
    assert here is not None
    name = here.pod["metadata"]["name"]
    await site.node.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=1")
    ending = await stage.listener.ending_of(given)
    assert (Verdict.UNKNOWN, "outcome_lost") == (ending.verdict, ending.reason), (ending.error, here.pod["metadata"])
    assert "deleted by somebody else" in (ending.error or "")
    assert [f"tickwise-{given.run_id}"] == site.node.starts


async def test_a_pod_that_is_deleted_before_it_began_goes_back(site: ClusterSite, stage: PodStage) -> None:
    """As if it had never been claimed: nothing of it ran."""
    site.node.holds.add(f"docker.io/library/{BUSY}")
    site.node.holds.add(BUSY)
    [given] = stage.launch(stage.lasting)
    await eventually(lambda: site.pod(given.run_id) is not None, within_seconds=90, what="its pod is there")
    here = site.pod(given.run_id)
    assert here is not None
    name = here.pod["metadata"]["name"]
    await site.node.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=1")
    ending = await stage.listener.ending_of(given)
    assert (Verdict.RELEASED, "pod_disrupted") == (ending.verdict, ending.reason), ending


# ---------------------------------------------------------------------------------------------- protocol


async def test_a_script_has_the_protocol_of_a_process(site: ClusterSite, stage: PodStage) -> None:
    """Payload, facts of the attempt, key, trace, files beside it, secrets, token, and a result; nothing of it is in the
    pod's specification."""
    source = """\
import json, os, sys, helper
names = ["RUN_ID", "ATTEMPT", "IDEMPOTENCY_KEY", "FENCING_TOKEN", "NAMESPACE"]
found = {name: os.environ["TICKWISE_" + name] for name in names}
found |= {"payload": json.loads(os.environ["TICKWISE_PAYLOAD"]), "trace": os.environ["TRACEPARENT"]}
found |= {"argv": sys.argv, "helper": helper.NAME, "region": os.environ["REGION"], "literal": os.environ["LITERAL"]}
found |= {"folder": os.getcwd() == os.environ["TICKWISE_WORK_FOLDER"]}
found |= {"secret": len(os.environ["KEY"]), "file": len(open(os.environ["FILE"]).read())}
found |= {"token": len(open(os.environ["TICKWISE_IDENTITY_TOKEN_FILE"]).read())}
open("kept", "w").close()
print(os.environ["KEY"], end="")
json.dump(found, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    env = {"REGION": "eu", "LITERAL": "$(HOME) $$ $x", "KEY": "secret:key", "FILE": "secret-file:pem"}
    task = {"kind": "python", "source": source, "files": {"helper.py": "NAME = 'h'"}, "env": env}
    stage.payload = {"a": "ü"}
    secrets = {"secret:key": b"correct-horse-battery", "secret-file:pem": b"staple" * 10}
    [given] = stage.launch(task, traceparent=trace, secrets=secrets, identity_token="ey.token.of-the-run")
    manifests: list[str] = []

    async def is_seen() -> bool:
        manifests[:] = [json.dumps(each) for kind in ("jobs", "pods") for each in await site.objects(kind)]
        return len(manifests) == 2 or bool(stage.listener.endings)

    await eventually(is_seen, within_seconds=90, what="its Job and its pod are there")
    ending = await stage.listener.ending_of(given)
    log = await log_of(site.blobs, given)
    assert Verdict.OK is ending.verdict, (ending, log)
    expected = {
        "RUN_ID": str(given.run_id), "ATTEMPT": "1", "IDEMPOTENCY_KEY": str(given.run_id), "FENCING_TOKEN": "7",
        "NAMESPACE": "default", "payload": {"a": "ü"}, "trace": trace,
        "argv": [str(PurePosixPath(OWN_FOLDER, "work", PYTHON_SCRIPT))],
        "helper": "h", "region": "eu", "literal": "$(HOME) $$ $x", "folder": True, "secret": 21, "file": 60,
        "token": 19,
    }  # fmt: skip
    assert expected == json.loads(ending.result or "null")
    assert "correct-horse" not in log
    assert "tickwise-result" not in log
    assert len(manifests) == 2, "they were seen while it ran"
    for hidden in ("correct-horse", "staple", "ey.token", "found |=", "NAME = 'h'", "ü"):
        assert not any(hidden in each for each in manifests), hidden


async def test_exceptions_have_names_and_large_results_are_refused(site: ClusterSite, stage: PodStage) -> None:
    """As of every script; a link is no result, and a result within the limit comes whole."""
    ending, _ = await site.run(
        stage, {"kind": "python", "source": "import decimal\n1 / decimal.Decimal(0)"}, names_errors=True
    )
    assert "decimal.DivisionByZero" in ending.symptoms
    write = 'import os\nopen(os.environ["TICKWISE_RESULT_FILE"], "w").write'
    ending, _ = await site.run(stage, {"kind": "python", "source": f"{write}('\"' + 'x' * 70_000 + '\"')"})
    assert (Verdict.FAILED, "result") == (ending.verdict, ending.reason), ending
    ending, _ = await site.run(stage, {"kind": "python", "source": f"{write}('\"' + 'x' * 60_000 + '\"')"})
    assert 60_002 == len(ending.result or ""), ending
    link = 'import os\nos.symlink("/etc/passwd", os.environ["TICKWISE_RESULT_FILE"])'
    ending, _ = await site.run(stage, {"kind": "python", "source": link})
    assert (Verdict.OK, None) == (ending.verdict, ending.result)


async def test_a_shell_command_and_a_program_have_results_too(site: ClusterSite, stage: PodStage) -> None:
    """A script's through its log; a program's own through its termination message, of less than 4,096 bytes."""
    command = 'cat rows/a; echo \'{"rows": 3}\' >"$TICKWISE_RESULT_FILE"'
    ending, log = await site.run(stage, {"kind": "shell", "command": command, "files": {"rows/a": "1\n"}})
    assert (Verdict.OK, {"rows": 3}, "1\n") == (ending.verdict, json.loads(ending.result or "null"), log), ending
    write = 'printf %s "$BODY" >"$TICKWISE_RESULT_FILE"'
    program = busy(entrypoint=["/bin/sh", "-c", write], env={"BODY": '{"rows": 4}'})
    ending, _ = await site.run(stage, program)
    assert {"rows": 4} == json.loads(ending.result or "null"), ending
    ending, _ = await site.run(stage, {**program, "env": {"BODY": '"' + "x" * 5_000 + '"'}})
    assert (Verdict.FAILED, "result") == (ending.verdict, ending.reason), ending


async def test_the_rest_of_a_log_that_comes_slowly_is_read_whole(
    site: ClusterSite, stage: PodStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is followed is cut when its pod has ended; what is read after the end comes to its own end."""
    plain = JobCluster.log

    async def slow(
        cluster: JobCluster, namespace: str, name: str, *, since: str | None, follow: bool
    ) -> AsyncIterator[bytes]:
        if follow:
            raise ClusterAway("it does not let its log be followed")
        await SystemClock().sleep(4 * runner.CUT_SECONDS)
        async for piece in plain(cluster, namespace, name, since=since, follow=follow):
            yield piece

    monkeypatch.setattr(JobCluster, "log", slow)
    command = 'echo all of it; echo 3 >"$TICKWISE_RESULT_FILE"'
    ending, log = await site.run(stage, {"kind": "shell", "command": command})
    assert (Verdict.OK, "3", "all of it\n") == (ending.verdict, ending.result, log), ending


async def test_arguments_reach_a_program_as_they_are(site: ClusterSite, stage: PodStage) -> None:
    """The kubelet would fill in `$(NAME)`."""
    ending, log = await site.run(stage, busy(command=["$(TICKWISE_RUN_ID)", "$$", "$HOME"]))
    assert (Verdict.OK, "entry $(TICKWISE_RUN_ID) $$ $HOME\n") == (ending.verdict, log), ending


async def test_a_task_that_does_not_fit_into_a_secret_is_refused(site: ClusterSite, stage: PodStage) -> None:
    """With its size, before anything is made."""
    stage.payload = {"text": "x" * 1_100_000}
    ending, _ = await site.run(stage, busy(command=["x"]))
    assert (Verdict.INVALID, "container_refused") == (ending.verdict, ending.reason), ending
    assert "1000000" in (ending.error or "")


# ---------------------------------------------------------------------------------------------- policy


async def test_a_pod_has_walls_a_place_and_what_the_template_adds(site: ClusterSite) -> None:
    """Defaults, laid over by the template, laid over by what the attempt needs."""
    site.write(
        priorityClassName="system-node-critical", restartPolicy="Always",
        containers=[{"name": "task", "image": "mine", "env": [{"name": "PROXY", "value": "p"}],
                     "resources": {"requests": {"memory": "1Mi"}}}],
    )  # fmt: skip
    await site.node.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "acme"}})
    stage = await site.stage(places=("other=nowhere", "default=acme/runner"))
    [given] = stage.launch(
        busy(command="echo ready; exec sleep 600", user="1000:1001", cpus=0.25), confinement=OPEN,
        limits=TaskLimits(OUTPUT_BYTES, memory_bytes=64 << 20), timeout_seconds=100.0,
    )  # fmt: skip
    await stage.until_lives(given)
    here = site.pod(given.run_id)
    assert here is not None
    spec, labels = here.pod["spec"], here.pod["metadata"]["labels"]
    [task] = spec["containers"]
    assert ("acme", "runner", False) == (
        here.pod["metadata"]["namespace"], spec["serviceAccountName"], spec["automountServiceAccountToken"],
    )  # fmt: skip
    assert ("Never", "system-node-critical", True) == (
        spec["restartPolicy"], spec["priorityClassName"], spec["shareProcessNamespace"],
    )  # fmt: skip
    assert (BUSY, "p") == (task["image"].removeprefix("docker.io/library/"), task["env"][0]["value"])
    walls = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert {**walls, "runAsUser": 1000, "runAsGroup": 1001} == task["securityContext"]
    assert (True, {"type": "RuntimeDefault"}) == (
        spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["seccompProfile"],
    )  # fmt: skip
    assert {"cpu": "250m", "memory": "67108864"} == task["resources"]["limits"]
    assert "allowed" == labels["tickwise.network"]
    assert 100 + 600 + 120 == spec["activeDeadlineSeconds"]
    stage.runner.stop(given.run_id, grace_seconds=0.1)
    assert Verdict.CANCELLED is await stage.verdict_of(given)


REFUSED: dict[str, tuple[Task, str, str]] = {
    "image": ({"image": "python:3.12"}, "image_refused", "localhost/*"),
    "mount": ({"mounts": [{"source": "/etc", "target": "/x", "read_only": True}]}, "mount_refused", "pod template"),
    "user": ({"user": "app"}, "container_refused", "numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_the_policy_does_not_allow_is_refused(site: ClusterSite, stage: PodStage, name: str) -> None:
    """Before anything is made."""
    said, reason, words = REFUSED[name]
    ending, _ = await site.run(stage, {**busy(command=["x"]), **said})
    assert (Verdict.INVALID, reason) == (ending.verdict, ending.reason), ending
    assert words in (ending.error or "")


async def test_a_namespace_without_a_place_and_a_cluster_without_a_network_policy_run_nothing(
    site: ClusterSite,
) -> None:
    """A job that may use no network waits for an executor that can keep it from it."""
    stage = await site.stage(places=("acme=default",))
    ending, _ = await site.run(stage, busy(command=["x"]))
    assert (Verdict.INVALID, "container_refused") == (ending.verdict, ending.reason), ending
    await site.node.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "open"}})
    other = await site.stage(places=("*=open",))
    ending, _ = await site.run(other, busy(command=["x"]))
    assert (Verdict.UNOFFERED, "isolation_missing") == (ending.verdict, ending.reason), ending


@pytest.mark.parametrize("limits", [{"cpu_seconds": 1.0}, {"processes": 4}])
async def test_a_limit_that_no_pod_can_be_held_to_gives_the_run_back(
    site: ClusterSite, stage: PodStage, limits: dict[str, Any]
) -> None:
    """Another executor may hold it."""
    ending, _ = await site.run(stage, busy(command=["x"]), limits=TaskLimits(OUTPUT_BYTES, **limits))
    assert (Verdict.UNOFFERED, "isolation_missing") == (ending.verdict, ending.reason), ending
