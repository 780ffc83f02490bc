"""CronJobs whose images run: what a pod says becomes a task of the kind container, and what it lacks is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.importers.acceptance import accepted
from tests.unit.importers.test_kubernetes import WHOLE, cron_job
from tickwise.importers.kubernetes import read_kubernetes
from tickwise.importers.report import ImportEntry, ImportVerdict


def entry_of(text: str) -> ImportEntry:
    (entry,) = read_kubernetes(text, source="a.yaml", containers=True).entries
    return entry


def task_of(text: str) -> dict[str, Any]:
    entry = entry_of(text)
    assert entry.job is not None, entry.reason
    accepted(entry.job)
    return dict(entry.job["task"])


def test_a_whole_cron_job_runs_its_image() -> None:
    """The times and the rest of the job as without it; the network that a pod has."""
    text = WHOLE.replace(
        "          - name: report\n", "          - name: report\n            image: reg.example/report:3\n"
    )
    entry, plain = entry_of(text), read_kubernetes(text, source="a.yaml").entries[0]
    assert entry.job is not None
    assert plain.job is not None
    accepted(entry.job)
    own = {"task", "allow_network", "limits"}
    assert {name: value for name, value in plain.job.items() if name != "task"} == {
        name: value for name, value in entry.job.items() if name not in own
    }
    assert entry.job["allow_network"] is True
    expected = {"entrypoint": ["/bin/report"], "command": ["--day", "to day"], "pull": "missing"}
    assert entry.job["task"] == {"kind": "container", "image": "reg.example/report:3", **expected}
    assert (ImportVerdict.SAME, ()) == (entry.verdict, entry.changes)


PROGRAM = 'image: reg.example/etl:1\ncommand: ["/bin/load"]'


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ("image: reg.example/etl:1", {}),
        ("image: reg.example/etl:1\nargs: [load, --all]", {"command": ["load", "--all"]}),
        (PROGRAM, {"entrypoint": ["/bin/load"]}),
        (f"{PROGRAM}\nargs: [--all]", {"entrypoint": ["/bin/load"], "command": ["--all"]}),
        (
            f"{PROGRAM}\nargs: [$(DAY), $$(DAY), $(NO)]\nenv: [{{name: DAY, value: today}}]",
            {"entrypoint": ["/bin/load"], "command": ["today", "$(DAY)", "$(NO)"], "env": {"DAY": "today"}},
        ),
        (f"{PROGRAM}\nworkingDir: /app", {"entrypoint": ["/bin/load"], "working_dir": "/app"}),
        (
            f"{PROGRAM}\nsecurityContext: {{runAsUser: 1000, runAsGroup: 2000}}",
            {"entrypoint": ["/bin/load"], "user": "1000:2000"},
        ),
        (f"{PROGRAM}\nresources: {{limits: {{cpu: 500m}}}}", {"entrypoint": ["/bin/load"], "cpus": 0.5}),
        (f"{PROGRAM}\nresources: {{limits: {{cpu: 2}}}}", {"entrypoint": ["/bin/load"], "cpus": 2}),
    ],
)
def test_a_container_becomes_a_task(container: str, expected: dict[str, Any]) -> None:
    image = {"kind": "container", "image": "reg.example/etl:1", "pull": "missing"}
    assert image | expected == task_of(cron_job(container=container))


@pytest.mark.parametrize(
    ("image", "policy", "pull"),
    [
        ("a:1", "", "missing"),
        ("a", "", "always"),
        ("a:latest", "", "always"),
        ("reg.example:5000/a", "", "always"),
        ("reg.example:5000/a:1", "", "missing"),
        ("a@sha256:" + "0" * 64, "", "missing"),
        ("a:1", "Always", "always"),
        ("a", "IfNotPresent", "missing"),
        ("a", "Never", "never"),
    ],
)
def test_an_image_is_pulled_as_kubernetes_pulls_it(image: str, policy: str, pull: str) -> None:
    """Without a word an image without a tag, or of `latest`, is always pulled."""
    said = f"\nimagePullPolicy: {policy}" if policy else ""
    assert pull == task_of(cron_job(container=f'image: "{image}"{said}'))["pull"]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [("128Mi", 128 << 20), ("1Gi", 1 << 30), ("0.5Gi", 1 << 29), ("100M", 100_000_000), ("1e9", 10**9), ("64", 64)],
)
def test_memory_is_a_limit_of_the_job(memory: str, expected: int) -> None:
    entry = entry_of(cron_job(container=f"image: a:1\nresources: {{limits: {{memory: {memory}}}}}"))
    assert entry.job is not None
    assert {"memory_bytes": expected} == entry.job["limits"]


def test_what_a_secret_gives_is_a_secret_here() -> None:
    """Under the name of the Secret and its key. A value that goes into the arguments goes through a shell."""
    text = cron_job(
        container='image: a:1\ncommand: [/bin/load]\nargs: ["--token=$(TOKEN)"]\n'
        "env:\n- name: TOKEN\n  valueFrom: {secretKeyRef: {name: db, key: password}}\n"
        "- name: MODE\n  valueFrom: {configMapKeyRef: {name: settings, key: mode}}\n"
        "- name: POD\n  valueFrom: {fieldRef: {fieldPath: metadata.name}}"
    )
    entry, task = entry_of(text), task_of(text)
    assert {"TOKEN": "secret:db.password"} == task["env"]
    assert 'exec /bin/load --token="${TOKEN}"' == task["command"]
    assert "entrypoint" not in task
    assert ImportVerdict.CHANGED is entry.verdict
    told = " ".join(entry.changes)
    for part in ("db.password", "MODE from config map settings", "POD from the pod itself", "/bin/sh"):
        assert part in told


def test_volumes_are_mounted_from_the_machine_or_left_out() -> None:
    text = cron_job(
        pod="volumes: [{name: data, hostPath: {path: /srv/data}}, {name: tmp, emptyDir: {}}]",
        container="image: a:1\nvolumeMounts: [{name: data, mountPath: /data, readOnly: true}, "
        "{name: tmp, mountPath: /scratch}]",
    )
    assert [{"source": "/srv/data", "target": "/data", "read_only": True}] == task_of(text)["mounts"]
    told = " ".join(entry_of(text).changes)
    assert "tmp at /scratch" in told
    assert "container_mounts" in told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (cron_job(container="command: [/bin/a]"), "names no image"),
        (cron_job(container="image: a:1\nworkingDir: app"), "whole path"),
        (cron_job(container="image: a:1\nimagePullPolicy: Often"), "IfNotPresent"),
        (cron_job(container="image: a:1\nresources: {limits: {cpu: much}}"), "quantity"),
        (
            cron_job(pod="initContainers: [{name: first, image: b:1}]", container="image: a:1"),
            "init containers (first)",
        ),
        (
            cron_job(
                container="image: a:1\nargs: [$(T)]\nenv: [{name: T, valueFrom: {secretKeyRef: {name: a, key: b}}}]"
            ),
            "write its `command`",
        ),
    ],
)
def test_what_no_container_can_be_is_refused(text: str, reason: str) -> None:
    entry = entry_of(text)
    assert ImportVerdict.REFUSED is entry.verdict
    assert reason in str(entry.reason)


def test_a_pod_says_more_than_a_task() -> None:
    """Told by name; which images executors run is a note, for it changes nothing of this job."""
    entry = entry_of(
        cron_job(
            pod="serviceAccountName: robot\nnodeSelector: {disk: ssd}\nimagePullSecrets: [{name: reg}]",
            container="image: a:1\nresources: {requests: {cpu: 1}}\nsecurityContext: {privileged: true}",
        )
    )
    told = " ".join(entry.changes)
    for part in ("serviceAccountName", "nodeSelector", "resources.requests", "securityContext.privileged"):
        assert part in told
    assert any("container_images" in note for note in entry.notes)
    assert any("container_registry_file" in note for note in entry.notes)
