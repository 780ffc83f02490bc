"""Masking of secrets in outputs: every form, every cut, and what is not masked."""

from __future__ import annotations

import base64
import html
import itertools
import json
import random
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.secrets.output_masking import HEAD_BYTES, MaskedStream, ValueForms, forms_of, maskable

TOKEN = b"s3cr3t-Canary/42+x"
SHAPES = {
    "plain": TOKEN,
    "blanks and quotes": b"a \"quoted\" 'value' \\ with %41 & more",
    "percent": b"100%25;drop=all&x=%zz",
    "unicode": "schlüssel-✓-Wert".encode(),
    "bytes": bytes(range(128, 160)),
    "lines": b"-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASC==\n-----END KEY-----\n",
    "ended by a line break": b"token-of-a-file-0815\n",
    "long": random.Random(1).randbytes(3 * HEAD_BYTES + 7),
    "repeating": b"abababababab",
}
"""Values as people have them."""


def in_forms(value: bytes) -> list[bytes]:
    """The value as programs write it."""
    plain = value.strip()
    found = [plain, quote(plain, safe="").encode(), quote(plain).encode(), quote_plus(plain).encode()]
    found += [base64.b64encode(bytes(before) + plain) for before in range(3)]
    found += [base64.urlsafe_b64encode(b"\xff" * before + plain + b"\xfe\xff") for before in range(3)]
    try:
        text = plain.decode()
    except UnicodeDecodeError:
        return found
    return [*found, json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode(), repr(text).encode()]


def streamed(forms: ValueForms, pieces: list[bytes]) -> bytes:
    """The masked output of these pieces."""
    stream = MaskedStream(forms)
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.end(is_cut=False)])


@pytest.mark.parametrize("name", SHAPES)
def test_no_form_of_a_value_is_left_in_an_output_wherever_it_is_cut(name: str) -> None:
    """Into two pieces at each place, and into single bytes: the same output, and in it nothing of the value."""
    value = SHAPES[name]
    forms = ValueForms([value])
    for form in in_forms(value):
        output = b"before " + form + b" after\n"
        whole = streamed(forms, [output])
        assert all(part in whole for part in (b"before ", b" after\n", b"***")), form
        for known in forms_of(value):
            assert known not in whole
        places = range(len(output)) if len(output) < 400 else range(0, len(output), 97)
        for place in places:
            assert whole == streamed(forms, [output[:place], output[place:]]), place
        assert whole == streamed(forms, [output[place : place + 1] for place in range(len(output))])


def test_lines_of_a_value_are_masked_each_by_itself() -> None:
    """As a program shows them that reads the value line by line. Short lines are not: they are of other texts, too."""
    value = b'{\n  "key": "4711-0815-abc",\n  "id": 7\n}\n'
    assert b"> ***\n" == ValueForms([value]).masked(b'> "key": "4711-0815-abc",\n')
    assert b"{\n}\n" == ValueForms([value]).masked(b"{\n}\n")


def test_the_value_inside_of_other_text_is_found_in_base64() -> None:
    """At each alignment, with text before and behind that shares its characters."""
    forms = ValueForms([TOKEN])
    for before in range(9):
        for behind in range(4):
            encoded = base64.b64encode(b"x" * before + TOKEN + b"y" * behind)
            masked = forms.masked(encoded)
            assert b"***" in masked, (before, behind)
            assert len(encoded) - len(masked) >= len(TOKEN) * 4 // 3 - 6


def test_several_values_are_masked_also_where_they_overlap() -> None:
    """All bytes of each are gone."""
    forms = ValueForms([b"alpha-beta", b"beta-gamma"])
    assert b"<***>" == forms.masked(b"<alpha-beta-gamma>")


def test_a_line_without_a_value_is_given_out_at_once() -> None:
    """A reader who follows a run does not wait for the next line."""
    stream = MaskedStream(ValueForms([TOKEN, SHAPES["lines"]]))
    assert b"step 1\n" == stream.feed(b"step 1\n")
    assert b"step" == stream.feed(b"step")
    assert b" 2\n" == stream.feed(b" 2\n")


def test_at_most_the_head_of_a_value_is_held_back() -> None:
    """The rest of a long one is masked as it comes."""
    value = SHAPES["long"] * 50
    stream, found = MaskedStream(ValueForms([value])), b""
    for place in range(0, len(value), 1_000):
        found += stream.feed(value[place : place + 1_000])
        assert len(stream._held) <= HEAD_BYTES  # the bound that is promised
    assert b"***" == found + stream.end()


def test_an_output_that_ends_within_a_value_ends_masked() -> None:
    """The task was killed while it wrote: the half of the value is not told either."""
    stream = MaskedStream(ValueForms([TOKEN]))
    assert b"it is " == stream.feed(b"it is " + TOKEN[:12])
    assert b"***" == stream.rest()
    assert b"***" == stream.end()
    assert b"s3c" == stream.feed(b"s3c") + stream.end()
    assert "status 500: ***" == ValueForms([TOKEN]).masked_text(f"status 500: {TOKEN[:12].decode()}")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "fewer than 4 bytes"),
        (b"abc", "fewer than 4 bytes"),
        (b" ab \n", "fewer than 4 bytes"),
        (b"8080", "a number"),
        (b"aaaaaaaa", "one character"),
        (b"true\n", "a common word"),
        (b"PassWord", "a common word"),
    ],
)
def test_a_value_that_would_mask_everything_is_not_masked(value: bytes, reason: str) -> None:
    """And the reason is told without the value."""
    told = maskable(value)
    assert told is not None
    assert reason in told
    assert b"8080 abc ab true aaaaaaaa PassWord" == ValueForms([value]).masked(b"8080 abc ab true aaaaaaaa PassWord")


@pytest.mark.parametrize("value", [b"hunter2", b"123456", b"pass", "äö".encode(), b"a1b2"])
def test_a_value_of_four_bytes_is_masked(value: bytes) -> None:
    """If it is no word of ordinary outputs."""
    assert maskable(value) is None
    assert b"=***=" == ValueForms([value]).masked(b"=" + value + b"=")


def test_a_result_stays_json() -> None:
    """Texts, names and numbers are masked each by itself; what holds no value is as it was."""
    forms = ValueForms([b"4711-0815", b"123456"])
    assert {"***": ["***", "x***"], "n": "***"} == json.loads(
        forms.masked_json('{"4711-0815": ["4711-0815", "x4711-0815"], "n": 123456}')
    )
    untouched = '{"a":1.50, "b":"\\u00e4"}'
    assert untouched == forms.masked_json(untouched)
    assert "***" == json.loads(forms.masked_json(json.dumps("\u0034711-0815")))


@given(
    values=st.lists(st.text("abc", min_size=4, max_size=9).filter(lambda text: len(set(text)) > 1), max_size=3),
    output=st.text("abc\n", max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_masking_is_that_of_all_occurrences_at_once(values: list[str], output: str, cuts: list[int]) -> None:
    """Every byte of each occurrence is masked, and no other one, however the output comes."""
    forms = ValueForms([value.encode() for value in values])
    content = output.encode()
    known = [form for value in values for form in forms_of(value.encode())]
    covered = [False] * len(content)
    for form in known:
        for place in range(len(content)):
            if content.startswith(form, place):
                covered[place : place + len(form)] = [True] * len(form)
    expected, before = b"", False
    for place, is_covered in enumerate(covered):
        if not is_covered:
            expected += content[place : place + 1]
        elif not before:
            expected += b"***"
        before = is_covered
    places = sorted({0, len(content), *(min(cut, len(content)) for cut in cuts)})
    pieces = [content[begin:end] for begin, end in itertools.pairwise(places)]
    assert expected == streamed(forms, pieces)


@pytest.mark.parametrize("value", ["pä$$wörd/\"x'&<z>", "it's-a-s3cret", 'say "please" & wait', "a<b>c-1234"])
def test_a_value_is_found_as_shells_pages_and_bytes_of_python_write_it(value: str) -> None:
    """What `set -x`, `shlex.quote`, `html.escape` and `repr` of bytes leave of it in a log: accidents of debugging."""
    trace = value.replace("'", "'\\''")
    html_texts = [html.escape(value), html.escape(value).replace("&#x27;", "&#39;"), html.escape(value, quote=False)]
    for form in (trace, shlex.quote(value), repr(value.encode()), repr(value.encode() + b"\"'"), *html_texts):
        masked = ValueForms([value.encode()]).masked(f"before {form} behind".encode()).decode()
        rest = masked.removeprefix("before ").removesuffix(" behind")
        assert rest.count("***") == 1, form
        assert set(rest) <= set("*'\"\\b"), form


@pytest.mark.parametrize(
    ("writer", "form"),
    [
        ("Go", r"k\u0026ä\u003cz\u003e=d+e'f\"g\\h/1"),
        ("Jinja", r"k\u0026\u00e4\u003cz\u003e=d+e\u0027f\"g\\h/1"),
        ("Gson", r"k\u0026ä\u003cz\u003e\u003dd+e\u0027f\"g\\h/1"),
        ("Django", r"k\u0026\u00e4\u003Cz\u003E=d+e'f\"g\\h/1"),
    ],
)
def test_a_value_is_found_as_writers_of_json_for_pages_escape_it(writer: str, form: str) -> None:
    """They write by number what HTML or a quoted attribute could take for its own. A base64 text ends in `=`, so a
    password of that kind is told by a debug line of Gson."""
    value = "k&ä<z>=d+e'f\"g\\h/1"
    assert value == json.loads(f'"{form}"'), writer
    assert b'{"key":"***"}' == ValueForms([value.encode()]).masked(f'{{"key":"{form}"}}'.encode())


def test_a_value_is_found_as_dot_net_escapes_it() -> None:
    """`System.Text.Json` writes also `+`, quotes and backticks by number."""
    value, form = 'Zm9v+YmFy/"`it\'s`"&<x>==', r"Zm9v\u002BYmFy/\u0022\u0060it\u0027s\u0060\u0022\u0026\u003Cx\u003E=="
    assert value == json.loads(f'"{form}"')
    assert b'{"key":"***"}' == ValueForms([value.encode()]).masked(f'{{"key":"{form}"}}'.encode())


def test_a_value_that_no_writer_escapes_by_number_has_no_further_forms() -> None:
    """Most tokens are letters and digits: each form costs a search."""
    plain, escaped = b"tok-4711-abcdefgh", b"tok&4711+abcdefgh"
    assert len(set(forms_of(plain))) < len(set(forms_of(escaped)))
    assert [] == [form for form in forms_of(plain) if b"\\u" in form]
