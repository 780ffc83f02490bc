"""What people and tasks may write costs a page no more than a page is worth."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.support.app import API
from tests.support.pages import Markup, pages
from tests.support.scene import SHELL
from tickwise.web.ansi import OutputLine, Piece, lines_of, marked
from tickwise.web.columns import TEXT_MAX, _written
from tickwise.web.json_text import INDENTED_BYTES_MAX, pretty
from tickwise.web.texts import visible


class Watched(dict[str, Any]):
    """Counts how often it is looked into."""

    looks = 0

    def items(self) -> Any:
        Watched.looks += 1
        return super().items()


def test_a_cell_looks_at_no_more_than_it_shows() -> None:
    Watched.looks = 0
    text = _written([Watched(name=number) for number in range(10_000)])
    assert (TEXT_MAX, "…") == (len(text), text[-1])
    assert Watched.looks < TEXT_MAX
    assert '{"token":"***","a":[1,"two",null,true]}' == _written({"token": "x", "a": [1, "two", None, True]})
    assert TEXT_MAX == len(_written({"a": "x" * 1_000_000}))


def test_an_indent_makes_no_book_of_a_payload() -> None:
    deep = b"[" * 900 + b"]" * 900
    for text in (b"[" + b",".join([deep] * 500) + b"]", deep * 2, b"\xff", b"{"):
        assert len(pretty(text)) <= len(text) + INDENTED_BYTES_MAX
    assert '{\n  "a": [\n    1,\n    "[[[["\n  ]\n}' == pretty(b'{"a":[1,"[[[["]}')
    flat = msgspec.json.encode({f"name {number}": number for number in range(10_000)})
    assert pretty(flat).count("\n") == 10_001


def test_what_cannot_be_seen_is_spelled_out_however_much_there_is_of_it() -> None:
    assert "\\u0001" * 1_000_000 == visible("\x01" * 1_000_000)
    assert "a\\u202eb\\u009fc\n\tü" == visible("a\u202eb\x9fc\n\tü")


def _naive(pieces: list[Piece], needle: str) -> list[tuple[str, str, bool]]:
    """As long as it takes."""
    text = "".join(piece.text for piece in pieces).lower()
    borders, at = [], text.find(needle)
    while at >= 0:
        borders += [at, at + len(needle)]
        at = text.find(needle, at + len(needle))
    found, begin = [], 0
    for piece in pieces:
        cuts = [border - begin for border in borders if begin < border < begin + len(piece.text)]
        for first, last in pairwise([0, *cuts, len(piece.text)]):
            found.append((piece.classes, piece.text[first:last], bisect_right(borders, begin + first) % 2 == 1))
        begin += len(piece.text)
    return [each for each in found if each[1]]


def test_hits_are_marked_across_colours() -> None:
    draw = random.Random(7)
    for _ in range(300):
        pieces = [
            Piece(draw.choice(["", "a-red"]), "".join(draw.choices("abA ", k=draw.randint(1, 6))))
            for _ in range(draw.randint(1, 6))
        ]
        needle = "".join(draw.choices("ab", k=draw.randint(1, 3)))
        [line] = marked([OutputLine(0, pieces)], needle)
        assert _naive(pieces, needle) == [tuple(each) for each in line.pieces]
    [line] = marked(lines_of(b"\x1b[31ma\x1b[32mb" * 50_000, 0), "a")
    assert (100_000, 50_000) == (len(line.pieces), sum(each.hit for each in line.pieces))


def test_adjacent_pieces_of_one_style_are_one_piece() -> None:
    assert [OutputLine(0, [Piece("", "a" * 10_000)])] == lines_of(b"a\x1b[m" * 10_000, 0)


async def test_a_namespace_that_is_not_there_is_a_page() -> None:
    """For an administrator, who may ask for any, and with a name too long for one."""
    async with pages() as rig:
        browser = await rig.signed_in("ada", ("admin", "*"))
        for name in ("nosuch", "x" * 201):
            answer = await browser.get(f"/jobs?namespace={name}")
            assert 404 == answer.status_code
            assert "content-security-policy" in answer.headers
            assert "there is no namespace" in Markup(answer.text).words.lower()


@pytest.mark.parametrize("path", ["/runs?labels=a%3Db", "/jobs?job_name=x", "/runs?duebefore=2026-01-01"])
async def test_a_filter_that_a_list_does_not_know_is_refused(path: str) -> None:
    """An action on all that match would concern everything."""
    async with pages() as rig:
        browser = await rig.signed_in("ada", ("operator", "default"))
        answer = await browser.get(path)
        assert (422, True) == (answer.status_code, "there is no filter" in Markup(answer.text).words.lower())


async def test_runs_are_found_by_the_label_of_their_job_and_by_time() -> None:
    async with pages() as rig:
        browser = await rig.signed_in("ada", ("operator", "default"))
        for name in ("acme", "umbrella"):
            body = {"name": f"of {name}", "schedule_type": "ON_DEMAND", "task": SHELL, "labels": {"customer": name}}
            job = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
            await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})

        async def names(query: str) -> set[str]:
            words = Markup((await browser.get(f"/runs?{query}")).text).words
            return {name for name in ("of acme", "of umbrella") if name in words}

        assert {"of acme"} == await names("label=customer%3Dacme")
        assert {"of acme", "of umbrella"} == await names("due_after=2020-01-01T00:00")
        assert set() == await names("due_before=2020-01-01T00:00Z")
        asked = Markup((await browser.get("/bulk/runs/cancel?of=all&label=customer%3Dacme")).text).words
        assert "1 run" in asked
