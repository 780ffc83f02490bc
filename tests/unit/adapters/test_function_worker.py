"""What a function worker sends."""

from __future__ import annotations

import msgspec
import pytest

from tickwise.adapters.runner.function.wire import Frames, Report, Result
from tickwise.adapters.runner.function.worker import _framed
from tickwise.ports.runner import Verdict


@pytest.mark.parametrize(
    "odd",
    [Result(2, 1.0, 2.0, '"\udcff"'), Result(2, 1.0, 2.0, symptoms=("\ud800",)), Result(2, 1.0, 2.0, error=object())],  # type: ignore[arg-type]  # that is what is tested
    ids=["result", "symptom", "type"],
)
def test_a_result_that_cannot_be_sent_fails_and_the_others_are_sent_as_they_are(odd: Result) -> None:
    """With everything else that its report holds."""
    first, last = Result(1, 1.0, 2.0, '"ü"'), Result(3, 1.0, 2.0)
    content = _framed(Report([first, odd, last], [(4, 1.0)], [5], [(1, b"printed")]))
    (body,) = Frames().feed(content)
    report = msgspec.msgpack.decode(body, type=Report)
    assert [result.number for result in report.results] == [1, 2, 3]
    assert [result.verdict for result in report.results] == [None, Verdict.FAILED, None]
    assert report.results[1].reason == "result"
    assert (report.results[1].error or "").startswith("its result cannot be sent: ")
    assert report.results[0].result == '"ü"'
    assert (report.began, report.returned, report.outputs) == ([(4, 1.0)], [5], [(1, b"printed")])
