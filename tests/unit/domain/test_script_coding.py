"""A script keeps its bytes on its way as text: what Python would read is what runs."""

from __future__ import annotations

import pytest

from tickwise.domain.errors import Invalid
from tickwise.domain.scripts.coding import source_bytes, source_text

SCRIPTS = [
    b"print('plain')\n",
    b"# -*- coding: latin-1 -*-\nprint('\xfc')\n",
    b"#!/usr/bin/python3\n# vim: set fileencoding=cp1252 :\nprint('\x80')\n",
    "print('ü')\r\nprint(1)\r\n".encode(),
    b"print(1)\n\n# coding: latin-1\nprint('\xc3\xbc')\n",
    b"#coding:koi8-r\r\n'\xf2'",
]


@pytest.mark.parametrize("content", SCRIPTS)
def test_a_script_comes_back_as_it_was(content: bytes) -> None:
    """In its own coding, with its own line ends."""
    assert content == source_bytes(source_text(content))


@pytest.mark.parametrize("content", SCRIPTS)
def test_it_is_read_as_python_reads_it(content: bytes) -> None:
    """The constants of the compiled script are the judge."""
    text = compile(content, "task.py", "exec").co_consts
    assert text == compile(source_text(content), "task.py", "exec").co_consts


def test_a_byte_order_mark_says_nothing() -> None:
    """Python passes over it."""
    assert source_text(b"\xef\xbb\xbfprint(1)\n") == "print(1)\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"print('\xfc')", "not UTF-8 text"),
        (b"x = 1\n# coding: latin-1\nprint('\xfc')", "line 3"),
        (b"# coding: punycode\nprint(1)", "'punycode'"),
        (b"# coding: utf-16\nprint(1)", "'utf-16'"),
        (b"# coding: no-such\nprint(1)", "'no-such'"),
    ],
)
def test_what_python_could_not_read_is_refused(content: bytes, words: str) -> None:
    """So are codings whose work is not bounded."""
    with pytest.raises(Invalid) as refused:
        source_text(content)
    assert refused.value.code == "script_invalid"
    assert words in refused.value.detail


def test_a_sign_that_its_coding_does_not_have_is_refused() -> None:
    """It could not be written."""
    with pytest.raises(Invalid) as refused:
        source_bytes("# coding: latin-1\n\nprint('€')")
    assert "line 3" in refused.value.detail
