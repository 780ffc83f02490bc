"""The API goes away, tokens are rotated, executors die: nothing runs twice, nothing is left, and no end is made up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.services.kubelet import Kubelet
from tests.services.kubernetes import TOKEN, Kubernetes
from tests.support.clusters import ClusterSite, PodStage, busy
from tests.support.waiting import eventually
from tickwise.adapters.runner.container.kubernetes import fence, following, sweep
from tickwise.adapters.runner.container.kubernetes.cluster import ClusterAway, JobCluster
from tickwise.adapters.runner.containers import AttemptFate
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.runner import Assignment, Verdict
from tickwise.testing.contracts.runner import log_of

COUNTS = "echo ready; i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo line $i; sleep 0.1; done"
LINES = ["ready", *(f"line {number}" for number in range(1, 41))]
pytestmark = pytest.mark.takes_up_to(240)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own_server() -> AsyncIterator[Kubernetes]:
    """A control plane of this module's own, which it may harm."""
    async with Kubernetes() as started:
        yield started


@pytest_asyncio.fixture
async def site(tmp_path: Path, kubernetes_port: int) -> AsyncIterator[ClusterSite]:
    async for made in _site(tmp_path, kubernetes_port):
        yield made


@pytest_asyncio.fixture
async def own_site(tmp_path: Path, own_server: Kubernetes) -> AsyncIterator[ClusterSite]:
    if not own_server.runs:
        await own_server.start()  # the test before this one failed while it was down
    async for made in _site(tmp_path, own_server.port):
        yield made


async def _site(folder: Path, port: int) -> AsyncIterator[ClusterSite]:
    async with Kubelet(port) as node:
        made = ClusterSite(folder, node, port)
        await made.prepare()
        yield made
        await made.close()


async def killed(stage: PodStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `kill -9` leaves an executor: it says nothing to the cluster any more."""
    runner: Any = stage.runner

    def says_nothing(*_: Any, **__: Any) -> Any:
        raise ClusterAway("it is dead")

    monkeypatch.setattr(runner._cluster, "_asked", says_nothing)
    await runner.close()


async def _lines(site: ClusterSite, given: Assignment) -> list[str]:
    """The lines of its program: on a busy machine there are some about its pod's waiting, too."""
    return [line for line in (await log_of(site.blobs, given)).splitlines() if not line.startswith("[its pod waits")]


async def _again(stage: PodStage, given: Assignment) -> Assignment:
    """The next attempt of a run."""
    made = given._replace(token=given.token + 1, attempt=given.attempt + 1)
    stage.runner.launch([made])
    return made


# ---------------------------------------------------------------------------------------------- the API


async def test_an_api_that_is_away_is_waited_for(own_site: ClusterSite, own_server: Kubernetes) -> None:
    """Its pods go on; no line is lost and none comes twice; the end is the true one; no containers are offered
    meanwhile, and all pods are watched on without a new list."""
    stage = await own_site.stage()
    [given] = stage.launch(busy(command=f"{COUNTS}; exit 7"))
    await stage.until_lives(given)
    own_server.kill()
    await eventually(lambda: not stage.runner.labels(), within_seconds=90, what="it offers no containers")
    [refused] = stage.launch(stage.quick)
    assert (Verdict.UNOFFERED, "engine_away") == (await stage.listener.ending_of(refused))[:4:3]
    await own_server.start()
    ending = await stage.listener.ending_of(given)
    assert (Verdict.FAILED, "exit_code", ("7",)) == (ending.verdict, ending.reason, ending.symptoms), ending
    assert LINES == await _lines(own_site, given)
    await eventually(lambda: bool(stage.runner.labels()), within_seconds=90, what="it offers containers again")


async def test_an_end_while_the_api_is_away_is_read_when_it_is_back(
    own_site: ClusterSite, own_server: Kubernetes
) -> None:
    """With its log and its result."""
    stage = await own_site.stage()
    [given] = stage.launch(busy(command='echo ready; sleep 1; echo late; echo 5 >"$TICKWISE_RESULT_FILE"'))
    await stage.until_lives(given)
    own_server.kill()
    here = own_site.pod(given.run_id)
    assert here is not None
    await eventually(lambda: not here.log.is_open, within_seconds=90, what="its program has ended")
    await own_server.start()
    ending = await stage.listener.ending_of(given)
    assert (Verdict.OK, "5") == (ending.verdict, ending.result), ending
    assert ["ready", "late"] == await _lines(own_site, given)


async def test_a_rotated_token_is_read_anew(own_site: ClusterSite, own_server: Kubernetes) -> None:
    """The old one is refused with 401; the credentials of the file count as soon as they are there."""
    stage = await own_site.stage()
    [given] = stage.launch(busy(command=f"{COUNTS}; exit 7"))
    await stage.until_lives(given)
    await _let_in(own_site, own_server, "rotated")
    try:
        await eventually(lambda: not stage.runner.labels(), within_seconds=90, what="it is not let in")
        await asyncio.to_thread(own_site.write, "rotated")
        ending = await stage.listener.ending_of(given)
        assert (Verdict.FAILED, ("7",)) == (ending.verdict, ending.symptoms), ending
        assert LINES == await _lines(own_site, given)
    finally:
        await _let_in(own_site, own_server, TOKEN)
        await asyncio.to_thread(own_site.write)


async def _let_in(site: ClusterSite, server: Kubernetes, token: str) -> None:
    """Let no other token in from now on."""
    server.token = site.node.token = token
    server.kill()
    await server.start()
    site.node.authorise()


async def test_a_watch_that_is_too_old_lists_anew(site: ClusterSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server answers 410 Gone to a version that etcd has forgotten; nothing is lost by that."""
    stage = await site.stage()
    runner: Any = stage.runner
    watch = runner._watches["default"]
    [given] = stage.launch(busy(command="echo ready; sleep 2; exit 7"))
    await stage.until_lives(given)
    lists = watch.lists
    refused: list[Exception] = []
    plain = JobCluster.watch

    async def old(self: JobCluster, namespace: str, selector: str, version: str) -> AsyncIterator[Any]:
        # A version of long ago, to the real API server; the second time, the true one.
        asked = version if refused else "1"
        try:
            async for line in plain(self, namespace, selector, asked):
                yield line
        except Exception as error:
            refused.append(error)
            raise

    monkeypatch.setattr(JobCluster, "watch", old)
    for task in runner._tasks:
        if "PodWatch.run" in repr(task):
            task.cancel()
    again = asyncio.get_running_loop().create_task(watch.run())
    ending = await stage.listener.ending_of(given)
    # Where the machine stood still, the watch of before has told of the end already.
    await eventually(lambda: watch.lists > lists, within_seconds=90, what="it lists anew")
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)
    assert (Verdict.FAILED, ("7",)) == (ending.verdict, ending.symptoms), ending


# ---------------------------------------------------------------------------------------------- adoption


async def test_another_executor_goes_on_with_the_pod_of_a_dead_one(
    site: ClusterSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program is started once; log, result and end are those of the one pod."""
    dying = await site.stage()
    [lost] = dying.launch(busy(command=f'{COUNTS}; echo 3 >"$TICKWISE_RESULT_FILE"'))
    await dying.until_lives(lost)
    await killed(dying, monkeypatch)
    site.fates[lost.run_id, lost.token] = AttemptFate.LOST
    other = await site.stage()
    given = await _again(other, lost)
    ending = await other.listener.ending_of(given)
    assert (Verdict.OK, "3") == (ending.verdict, ending.result), ending
    assert LINES == await _lines(site, given)
    assert [f"tickwise-{lost.run_id}"] == site.node.starts
    await eventually(lambda: _none_left(site), within_seconds=90, what="nothing is left of it")


async def test_an_end_that_nobody_reported_is_adopted_too(site: ClusterSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod has ended between the death of its executor and the next attempt."""
    dying = await site.stage()
    [lost] = dying.launch(busy(command="echo ready; sleep 600; exit 7"))
    await dying.until_lives(lost)
    await killed(dying, monkeypatch)
    here = site.pod(lost.run_id)
    assert here is not None
    assert here.process is not None
    family = psutil.Process(here.process.pid)
    sleeps = await eventually(lambda: [each for each in family.children(recursive=True) if "600" in each.cmdline()])
    sleeps[-1].kill()
    await eventually(lambda: not here.log.is_open, within_seconds=90, what="its program has ended")
    site.fates[lost.run_id, lost.token] = AttemptFate.LOST
    other = await site.stage()
    given = await _again(other, lost)
    ending = await other.listener.ending_of(given)
    assert (Verdict.FAILED, ("7",)) == (ending.verdict, ending.symptoms), ending
    assert 1 == len(site.node.starts)


async def test_an_attempt_that_was_reported_is_not_adopted(site: ClusterSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Job could not be deleted; the next attempt waits until its pod is gone, and starts anew."""
    dying = await site.stage()
    [failed] = dying.launch(busy(command="echo ready; exec sleep 600"))
    await dying.until_lives(failed)
    await killed(dying, monkeypatch)
    site.fates[failed.run_id, failed.token] = AttemptFate.SETTLED
    other = await site.stage()
    given = failed._replace(token=failed.token + 1, task=busy(entrypoint=["true"], pull="missing"))
    first = site.pod(failed.run_id)
    assert first is not None
    other.runner.launch([given])
    ending = await other.listener.ending_of(given)
    assert Verdict.OK is ending.verdict, ending
    assert 2 == len(site.node.starts)
    assert first.process is not None
    assert first.process.returncode is not None


async def test_the_job_of_a_living_executor_is_left_alone(site: ClusterSite) -> None:
    """Two attempts of one run, by a store that was set back: the second one gives its run back."""
    holding = await site.stage()
    [given] = holding.launch(holding.lasting)
    await holding.until_lives(given)
    other = await site.stage()
    late = await _again(other, given)
    assert Verdict.RELEASED is (await other.listener.ending_of(late)).verdict
    early = given._replace(token=given.token - 1)
    third = await site.stage()
    third.runner.launch([early])
    assert Verdict.RELEASED is (await third.listener.ending_of(early)).verdict
    assert site.lives(given.run_id)
    assert 1 == len(site.node.starts)


async def test_an_executor_that_comes_late_cannot_end_what_another_has_adopted(site: ClusterSite) -> None:
    """It stood still for longer than its lease, and stops its tasks when it goes on."""
    sleeping = await site.stage()
    [given] = sleeping.launch(sleeping.lasting)
    await sleeping.until_lives(given)
    site.fates[given.run_id, given.token] = AttemptFate.LOST
    other = await site.stage()
    next_one = await _again(other, given)
    await other.listener.until_begun(next_one)
    sleeping.runner.stop(given.run_id, grace_seconds=0.1)
    await sleeping.runner.close()
    assert site.lives(given.run_id)
    assert given.run_id not in other.listener.endings


async def test_a_dead_executor_that_left_no_secret_is_adopted(
    site: ClusterSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died between the two: the pod waits for the Secret, which the next executor makes."""

    async def dies(*_: Any) -> None:
        raise ClusterAway("it is dead")

    dying = await site.stage()
    with monkeypatch.context() as only:
        only.setattr(JobCluster, "create_secret", dies)
        only.setattr(fence.JobFence, "end_job", dies)
        [lost] = dying.launch(busy(command="echo ready; exit 7"))
        await dying.listener.ending_of(lost)
    await killed(dying, monkeypatch)
    site.fates[lost.run_id, lost.token] = AttemptFate.LOST
    other = await site.stage()
    given = await _again(other, lost)
    ending = await other.listener.ending_of(given)
    assert (Verdict.FAILED, ("7",)) == (ending.verdict, ending.symptoms), ending
    assert 1 == len(site.node.starts)


# ---------------------------------------------------------------------------------------------- sweep


async def _none_left(site: ClusterSite) -> bool:
    return not any([await site.objects(kind) for kind in ("jobs", "pods", "secrets")])


@pytest.mark.parametrize("fate", [AttemptFate.SETTLED, AttemptFate.LOST])
async def test_what_a_dead_executor_left_is_removed(
    site: ClusterSite, monkeypatch: pytest.MonkeyPatch, fate: AttemptFate
) -> None:
    """Job, pod and Secret: at once if its attempt was settled, after a while if nobody adopts it; not while the store
    says that it is held, and not while the store is away."""
    monkeypatch.setattr("tickwise.adapters.runner.container.kubernetes.runner.SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(sweep, "ADOPTION_SECONDS", 0.5)
    dying = await site.stage()
    [lost] = dying.launch(dying.lasting)
    await dying.until_lives(lost)
    await killed(dying, monkeypatch)
    asked: list[AttemptFate | None] = []
    answer: list[AttemptFate | None] = [None]

    async def fate_of(_run: Any, _token: int) -> AttemptFate:
        asked.append(answer[0])
        if answer[0] is None:
            raise StoreUnavailable("away")
        return answer[0]

    await site.stage(fate_of=fate_of)
    await eventually(lambda: len(asked) > 2, within_seconds=90, what="it was asked while the store is away")
    answer[0] = AttemptFate.HELD
    await eventually(lambda: asked.count(AttemptFate.HELD) > 2, within_seconds=90, what="it was asked again")
    assert site.lives(lost.run_id)
    answer[0] = fate
    await eventually(lambda: _none_left(site), within_seconds=90, what="nothing is left of it")
    assert not site.lives(lost.run_id)


async def test_a_sweep_spares_what_began_while_it_looked(site: ClusterSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of Jobs that takes long has Jobs in it that were not there when it was asked for."""
    monkeypatch.setattr("tickwise.adapters.runner.container.kubernetes.runner.SWEEP_SECONDS", 0.1)
    plain, has_begun = JobCluster.jobs, asyncio.Event()
    looks: list[str] = []

    async def slow(self: JobCluster, namespace: str, selector: str) -> Any:
        looks.append(selector)
        await has_begun.wait()
        return await plain(self, namespace, selector)

    monkeypatch.setattr(JobCluster, "jobs", slow)
    stage = await site.stage()
    await eventually(lambda: bool(looks), what="a sweep asks for the Jobs")
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    has_begun.set()
    await eventually(lambda: len(looks) > 2, within_seconds=90, what="that sweep is over, and another one")
    [job] = await site.objects("jobs")
    assert "deletionTimestamp" not in job["metadata"]
    assert site.lives(given.run_id)


async def test_a_stop_ends_although_the_api_is_away(
    own_site: ClusterSite, own_server: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is removed when it is back."""
    monkeypatch.setattr("tickwise.adapters.runner.container.kubernetes.runner.MAX_KILL_SECONDS", 0.5)
    monkeypatch.setattr("tickwise.adapters.runner.container.kubernetes.runner.SWEEP_SECONDS", 0.1)
    stage = await own_site.stage()
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    await stage.listener.until_begun(given)  # what it does not know to have begun is given back
    own_server.kill()
    stage.runner.stop(given.run_id, grace_seconds=0.1)
    assert Verdict.CANCELLED is await stage.verdict_of(given)
    await own_server.start()
    # The garbage collector of the cluster comes back to an API server that was away up to a minute later.
    await eventually(lambda: _none_left(own_site), within_seconds=150, what="nothing is left of it")


# ---------------------------------------------------------------------------------------------- many logs


async def test_runs_of_one_instant_look_for_the_network_policy_once(
    site: ClusterSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share the look, and its failure too: then none begins, and the next ones look anew."""
    looks: list[str] = []
    is_away = True
    look = JobCluster.has_network_policy

    async def counted(cluster: JobCluster, namespace: str, name: str) -> bool:
        looks.append(namespace)
        if is_away:
            raise ClusterAway("it is away")
        return await look(cluster, namespace, name)

    monkeypatch.setattr(JobCluster, "has_network_policy", counted)
    stage = await site.stage(slots=20)
    for verdict in (Verdict.UNOFFERED, Verdict.OK):
        given = [stage.launch(stage.quick)[0] for _ in range(10)]
        assert {verdict} == {(await stage.listener.ending_of(each)).verdict for each in given}
        is_away = False
    assert 2 == len(looks)


async def test_a_log_without_a_connection_of_its_own_is_read_now_and_then(
    site: ClusterSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the logs that an executor follows at once: whole, in order, and before the end of its attempt."""
    monkeypatch.setattr(following.LogPlaces.__init__, "__defaults__", (1, 1, 1))
    stage = await site.stage()
    given = stage.launch(*[busy(command=f'{COUNTS}; echo 3 >"$TICKWISE_RESULT_FILE"')] * 3)
    for each in given:
        ending = await stage.listener.ending_of(each)
        assert (Verdict.OK, "3") == (ending.verdict, ending.result), ending
        assert LINES == await _lines(site, each)
