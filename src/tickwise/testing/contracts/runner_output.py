"""Output of tasks: it is stored whole, as far as the job's limit, or the attempt does not end well."""

from __future__ import annotations

import pytest

from tickwise.domain.errors import Bug
from tickwise.domain.retry import OUTPUT_LOST
from tickwise.ports.blobs import LOGS
from tickwise.ports.runner import TaskLimits, Verdict
from tickwise.testing.contracts.runner import RunnerBlobs, RunnerStage, RunnerSuite, Task, log_of


class RunnerOutputContract(RunnerSuite):
    """For runners whose tasks write output. The adapter's class provides two fixtures more: `talking`, a task that
    writes `says` and ends well, and `complaining`, a task that writes something and fails."""

    says = "hello\n"

    async def test_the_output_of_a_task_is_its_log(
        self, started: RunnerStage, blobs: RunnerBlobs, talking: Task
    ) -> None:
        """Complete when its end is reported; each attempt has a log of its own."""
        batch = started.launch(talking, talking)
        for given in batch:
            assert Verdict.OK is await started.verdict_of(given)
            assert self.says == await log_of(blobs, given)

    async def test_a_silent_task_leaves_no_log(self, started: RunnerStage, blobs: RunnerBlobs) -> None:
        """Nothing is stored for nothing."""
        [given] = started.launch(started.quick)
        assert Verdict.OK is await started.verdict_of(given)
        assert [] == list(await blobs.list(LOGS))

    async def test_too_much_output_fails_the_attempt(
        self, started: RunnerStage, blobs: RunnerBlobs, talking: Task
    ) -> None:
        """With the reason `output_limit`, also if the task has ended by itself; the allowed part is kept."""
        size = len(self.says) - 1
        [given] = started.launch(talking, limits=TaskLimits(size))
        ending = await started.listener.ending_of(given)
        assert (Verdict.FAILED, "output_limit") == (ending.verdict, ending.reason)
        assert self.says[:size] == await log_of(blobs, given)
        [allowed] = started.launch(talking, limits=TaskLimits(size + 1))
        assert Verdict.OK is await started.verdict_of(allowed)

    @pytest.mark.parametrize("error", [OSError("disk"), Bug("ours")], ids=repr)
    async def test_no_attempt_ends_well_whose_output_was_lost(
        self, started: RunnerStage, blobs: RunnerBlobs, talking: Task, complaining: Task, error: Exception
    ) -> None:
        """It fails with the reason `output_lost`; an attempt that failed by itself keeps its own reason."""
        blobs.error = error
        lost, failed, silent = started.launch(talking, complaining, started.quick)
        ending = await started.listener.ending_of(lost)
        assert (Verdict.FAILED, OUTPUT_LOST) == (ending.verdict, ending.reason)
        assert str(error) in (ending.error or "")
        assert (await started.listener.ending_of(failed)).reason not in (None, OUTPUT_LOST)
        assert Verdict.OK is await started.verdict_of(silent)
