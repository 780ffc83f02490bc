"""What a report promises: verdict and contents agree, and all of it can be printed and sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickwise.importers.report import MAX_SHOWN_CHARACTERS, ImportReport, ImportVerdict, imported, refused, shown


def test_an_entry_is_changed_if_anything_changes() -> None:
    """Each change is said once."""
    assert imported(1, "a", job={"key": "k"}).as_json() == {
        "line": 1,
        "text": "a",
        "verdict": "same",
        "job": {"key": "k"},
    }
    assert imported(2, "b", job={"key": "k"}, changes=["x", "y", "x"]).as_json() == {
        "line": 2,
        "text": "b",
        "verdict": "changed",
        "job": {"key": "k"},
        "changes": ["x", "y"],
    }


def test_a_refused_entry_has_a_reason_and_no_job() -> None:
    """An import submits the others."""
    report = ImportReport((refused(1, "a", reason="why"), imported(2, "b", job={"key": "k"})))
    assert report.as_json() == {
        "entries": [
            {"line": 1, "text": "a", "verdict": "refused", "reason": "why"},
            {"line": 2, "text": "b", "verdict": "same", "job": {"key": "k"}},
        ]
    }
    assert report.jobs == ({"key": "k"},)
    assert [1, 0, 1] == [
        report.count(verdict) for verdict in (ImportVerdict.SAME, ImportVerdict.CHANGED, ImportVerdict.REFUSED)
    ]


@given(st.text(st.characters(), max_size=50), st.integers(0, 100))
def test_any_text_can_be_shown(text: str, times: int) -> None:
    """Printable, encodable, bounded; what is fine already stays as it is."""
    found = shown(text * times)
    assert found.encode().decode() == found
    assert found.replace("\n", "").replace("\t", "").isprintable()
    assert len(found) <= MAX_SHOWN_CHARACTERS
    assert shown(found) == found
