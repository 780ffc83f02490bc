"""Pods from the command line to the task: `tickwise up` as it is shipped, with a real API server and a real store."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.kubelet import Kubelet
from tests.support.clusters import PYTHON, ClusterSite
from tests.support.local_up import Local, local_up
from tests.support.waiting import eventually

LASTS = """\
import os, pathlib, time
print("ready", os.environ["TICKWISE_ATTEMPT"], flush=True)
place = pathlib.Path(os.environ["TICKWISE_RESULT_FILE"]).with_name("go")
while not place.exists():
    time.sleep(0.1)
print("done")
"""
pytestmark = pytest.mark.takes_up_to(300)


@pytest_asyncio.fixture
async def site(tmp_path: Path, kubernetes_port: int) -> AsyncIterator[ClusterSite]:
    async with Kubelet(kubernetes_port) as node:
        made = ClusterSite(tmp_path, node, kubernetes_port)
        await made.prepare()
        yield made


def _settings(site: ClusterSite) -> dict[str, str]:
    return {
        "TICKWISE_CONTAINER_ENGINE": "kubernetes://",
        "TICKWISE_CONTAINER_IMAGES": "localhost/*",
        "TICKWISE_KUBERNETES_CONFIG": str(site.config),
        "TICKWISE_KUBERNETES_POD_TEMPLATE": str(site.template),
        "TICKWISE_LEASE_SECONDS": "6",
        "TICKWISE_DRAIN_SECONDS": "0.5",
    }


def _run(local: Local) -> Any:
    """The only run, as the API shows it."""
    [listed] = local.tickwise("runs", "list", "--json").json
    return listed


async def test_the_pod_of_a_killed_executor_goes_on_in_the_next_one(tmp_path: Path, site: ClusterSite) -> None:
    """`kill -9` of everything; the next start claims the run when the lease is over, and adopts its pod: one start of
    the program, and the run ends well with the whole log."""
    script = tmp_path / "last.py"
    script.write_text(LASTS)
    data = tmp_path / "data"
    with local_up(data, **_settings(site)) as local:
        local.tickwise("run", str(script), "--image", PYTHON, "--now")
        await eventually(lambda: bool(site.node.starts), within_seconds=60, what="its program runs")
        run = str(_run(local)["run_id"])
        # Once its start is on record, its outcome would be unknown after a crash.
        await eventually(
            lambda: _run(local)["status"] == "RUNNING",
            within_seconds=60, what="its start is on record",
        )  # fmt: skip
        os.kill(local.pid, signal.SIGKILL)
    here = site.node.of_job(f"tickwise-{run}")
    assert here is not None
    with local_up(data, **_settings(site)) as local:

        async def is_adopted() -> bool:
            path = f"/apis/batch/v1/namespaces/default/jobs/tickwise-{run}"
            job = await site.node.ask("GET", path)
            return job is not None and job["metadata"]["labels"]["tickwise.token"] != first

        first = here.pod["metadata"]["labels"]["tickwise.token"]
        await eventually(is_adopted, within_seconds=90, what="the next executor has put its token on the Job")
        (here.folder / "out/go").touch()
        await eventually(lambda: _run(local)["status"] == "SUCCESS", within_seconds=60, what="the run has ended well")
        assert "ready 1\ndone\n" == local.tickwise("runs", "logs", run).out
    assert [f"tickwise-{run}"] == site.node.starts
