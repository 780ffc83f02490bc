"""Pods of Kubernetes under one executor: `python -m bench.kubernetes [PODS]`, into results/kubernetes.json.

    due      from the due time of a future job of `tickwise up` to the first sight of its pod, beside a process of
             `kubectl create job` until the same watch sees its pod, and one POST of a Job until then: of 20 in turn
    create   the same from the hand-over of a run to an executor
    memory   of a process with the modules of an executor, while so many pods run and their logs are followed

The control plane is a real one (etcd, API server, controllers, scheduler), the pods are those of a small kubelet in
this process, which starts no programs: what is measured is the product.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from bench.record import commit, machine
from tests.services.kubelet import Kubelet, RunningPod, now
from tests.services.kubernetes import Kubernetes
from tests.services.kubernetes_programs import KUBERNETES_VERSION, folder
from tests.support.clusters import ClusterSite, busy
from tests.support.local_up import local_up
from tests.support.waiting import eventually
from tickwise.sdk.client import Client

RESULT = Path(__file__).parent / "results" / "kubernetes.json"
TURNS = 20
AHEAD_SECONDS = 2.0
"""A job is handed in so long before it is due."""
TIMES_MOST = 1.2
MEMORY_MIB = 200
PODS = 1_000
READY = "ready"


class Player(Kubelet):
    """Reports pods as running, with a line of output, and starts nothing."""

    async def _run(self, here: RunningPod) -> None:
        here.log.add(b"ready\n")
        running = [self._state(here, {"running": {"startedAt": now()}})]
        await self.report(here, {"phase": "Running", "containerStatuses": running})
        await here.deleted.wait()
        here.log.close()


class Births:
    """When each Job got its pod, by one watch."""

    def __init__(self, node: Kubelet) -> None:
        self._node = node
        self._seen: dict[str, float] = {}
        """Unix seconds, by the name of the Job."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        url = f"{self._node.api}/api/v1/namespaces/default/pods?watch=true"
        async with self._node._session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as answer:  # noqa: SLF001  # a look inside, for a measurement
            while line := await answer.content.readline():
                name = json.loads(line)["object"]["metadata"].get("labels", {}).get("job-name", "")
                self._seen.setdefault(name, time.time())
                self._changed.set()

    async def of(self, name: str) -> float:
        """The instant of the first sight."""
        while name not in self._seen:
            self._changed.clear()
            await self._changed.wait()
        return self._seen[name]


class Others:
    """Ways to make a Job without us, each until its pod is seen."""

    def __init__(self, births: Births, node: Kubelet, config: Path) -> None:
        self._births = births
        self._node = node
        self._config = config
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"plain-{self._count}"

    async def kubectl(self) -> float:
        """A process of `kubectl create job`."""
        name, begun = self._name(), time.time()
        process = await asyncio.create_subprocess_exec(
            str(folder() / "kubectl"), f"--kubeconfig={self._config}", "create", "job", name, "--image=x",
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        seconds = await self._births.of(name) - begun
        await process.wait()
        return seconds

    async def post(self) -> float:
        """One request on an open connection, with what kubectl sends."""
        name, begun = self._name(), time.time()
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": name, "image": "x"}]}}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        await self._node.ask("POST", "/apis/batch/v1/namespaces/default/jobs", job)
        return await self._births.of(name) - begun


def _spread(values: list[float]) -> dict[str, float]:
    """Median, least and greatest, in milliseconds."""
    found = {"median": statistics.median(values), "least": min(values), "greatest": max(values)}
    return {name: round(value * 1000, 1) for name, value in found.items()}


async def _create(site: ClusterSite, births: Births, others: Others) -> dict[str, Any]:
    stage = await site.stage()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(TURNS):
        begun = time.time()
        [given] = stage.launch(stage.lasting)
        ours.append(await births.of(f"tickwise-{given.run_id}") - begun)
        stage.runner.stop(given.run_id, grace_seconds=0.0)
        theirs.append(await others.kubectl())
        await stage.listener.ending_of(given)
    await stage.runner.close()
    site.stages.clear()
    return {"ours_ms": _spread(ours), "kubectl_ms": _spread(theirs)}


async def _due(site: ClusterSite, births: Births, others: Others) -> dict[str, Any]:
    """A whole Tickwise: scheduler, store and executor, as `tickwise up` is shipped."""
    settings = {
        "TICKWISE_CONTAINER_ENGINE": "kubernetes://", "TICKWISE_CONTAINER_IMAGES": "localhost/*",
        "TICKWISE_KUBERNETES_CONFIG": str(site.config), "TICKWISE_KUBERNETES_POD_TEMPLATE": str(site.template),
    }  # fmt: skip
    ours: list[float] = []
    kubectl: list[float] = []
    post: list[float] = []
    with tempfile.TemporaryDirectory() as data, local_up(Path(data), **settings) as up, Client(up.url, up.key) as api:
        for turn in range(TURNS):
            due = time.time() + AHEAD_SECONDS
            at = datetime.fromtimestamp(due, UTC).isoformat()
            body = {"name": f"due-{turn}", "at": at, "task": busy(entrypoint=["x"])}
            job = (await asyncio.to_thread(api.job_create, body))["job_id"]

            async def run(job: str = job) -> str | None:
                found = (await asyncio.to_thread(api.request, "GET", f"/jobs/{job}/runs")).body
                return str(found[0]["run_id"]) if found and found[0]["status"] == "RUNNING" else None

            run_id = await eventually(run, within_seconds=30, what="its run is under way")
            ours.append(await births.of(f"tickwise-{run_id}") - due)
            await asyncio.to_thread(api.request, "POST", f"/runs/{run_id}/cancel")
            kubectl.append(await others.kubectl())
            post.append(await others.post())
    return {"ours_ms": _spread(ours), "kubectl_ms": _spread(kubectl), "post_ms": _spread(post)}


async def _executor(config: str, template: str, pods: int) -> None:
    """The process that is measured: says when its pods run, and ends with its input."""
    import tickwise.roles.executor.role
    import tickwise.wiring.runtime  # noqa: F401  # what an executor has loaded

    node: Any = None
    site = ClusterSite(Path(tempfile.mkdtemp()), node, 0)
    site.config, site.template = Path(config), Path(template)
    stage = await site.stage(slots=pods, pending_seconds=3_600.0)
    stage.listener._lives = None  # noqa: SLF001  # the node is another process's
    begun = time.perf_counter()
    for _ in range(pods):
        stage.launch(busy(entrypoint=["x"]))
    while len(stage.listener.begun) < pods:
        stage.listener._changed.clear()  # noqa: SLF001  # a look inside, for a measurement
        await stage.listener._changed.wait()  # noqa: SLF001  # a look inside, for a measurement
    runner: Any = stage.runner
    attempts = list(runner._attempts.values())  # noqa: SLF001  # a look inside, for a measurement
    await eventually(
        lambda: all(each.sink.kept_bytes for each in attempts), within_seconds=600, what="all logs are read"
    )
    print(READY, time.perf_counter() - begun, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    with contextlib.suppress(Exception):
        await runner._cluster.close()  # noqa: SLF001  # a look inside, for a measurement


async def _memory(site: ClusterSite, pods: int) -> tuple[float, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.kubernetes", "--executor", str(site.config), str(site.template), str(pods),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    said = (await process.stdout.readline()).decode().split()
    assert said[:1] == [READY], said
    resident = psutil.Process(process.pid).memory_info().rss / (1 << 20)
    process.stdin.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), 10)
    if process.returncode is None:
        process.kill()
    return resident, float(said[1])


def _judged(found: dict[str, Any]) -> dict[str, Any]:
    """The figure beside that of kubectl."""
    times = found["ours_ms"]["median"] / found["kubectl_ms"]["median"]
    return {**found, "times_kubectl": round(times, 2), "bound": TIMES_MOST, "met": times <= TIMES_MOST}


async def main(pods: int) -> int:
    """Print the figures and keep them; 1 if one is not held."""
    load = psutil.getloadavg()[0]
    async with Kubernetes() as server, Player(server.port, cpu="100000", pods=str(2 * pods)) as node:
        site = ClusterSite(Path(tempfile.mkdtemp()), node, server.port)
        await site.prepare()
        births = Births(node)
        others = Others(births, node, server.config)
        watching = asyncio.get_running_loop().create_task(births.run())
        due = _judged(await _due(site, births, others))
        create = _judged(await _create(site, births, others))
        resident, seconds = await _memory(site, pods)
        watching.cancel()
    memory = {
        "pods": pods, "resident_mib": round(resident, 1), "bound": MEMORY_MIB, "met": resident <= MEMORY_MIB,
        "all_run_after_s": round(seconds, 1),
    }  # fmt: skip
    result = {
        "case": "kubernetes", "turns": TURNS, "due": due, "create": create, "memory": memory,
        "kubernetes": KUBERNETES_VERSION, "load_before": round(load, 2), "machine": machine(), "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip
    if pods >= PODS:  # fewer are a quick look, and no result
        await asyncio.to_thread(RESULT.write_text, json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))  # this is what the command is for
    return int(not (due["met"] and create["met"] and memory["met"]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--executor"]:
        asyncio.run(_executor(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PODS)))
