"""Masks the values of secrets in the output of a task, while it is written.

    bytes of the task ──feed──► all that is decided, each value as `***`        held back: the end of the output, as
                      ──end───► the rest                                        long as it may be the start of a value

A value is found as it is, in each alignment of base64, quoted for addresses, escaped as JSON, Python, HTML and shells
write it, and line by line. What a task changes in any other way (reversed, encrypted, cut into pieces) is not found:
masking is against accidents, not against a task that wants to tell.

Invariants: the masked output does not depend on where the output was cut into pieces; at most `HEAD_BYTES` of it are
held back; a value that would mask half of all outputs (`maskable`) is not masked.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus

MASK: Final = b"***"
SHORTEST: Final = 4
"""Bytes of a value that is masked."""
SHORTEST_NUMBER: Final = 6
"""Digits of a value that is a number: shorter ones are years, ports and counts as well."""
HEAD_BYTES: Final = 512
"""The part of a longer form by which it is found. What follows is masked as far as it is the same."""
PART_BYTES: Final = 8
"""An output that ends within a value ends masked, from so many bytes of the value on."""
LINES_MOST: Final = 256
"""Lines of one value that are masked each by itself."""
ESCAPED_BYTES: Final = 64 << 10
"""The beginning of a value whose escaped forms are known: to make them takes 0.2 µs a byte."""
COMMON: Final = frozenset(
    [
        "admin",
        "administrator",
        "changeme",
        "debug",
        "default",
        "demo",
        "dev",
        "development",
        "disabled",
        "enabled",
        "error",
        "example",
        "false",
        "guest",
        "hello",
        "http",
        "https",
        "info",
        "localhost",
        "main",
        "master",
        "none",
        "null",
        "passwd",
        "password",
        "postgres",
        "private",
        "prod",
        "production",
        "public",
        "root",
        "secret",
        "service",
        "staging",
        "system",
        "test",
        "token",
        "true",
        "undefined",
        "unknown",
        "user",
        "username",
        "value",
        "warning",
        "world",
    ]
)
"""Values that are words of ordinary outputs."""

JSON_ESCAPES: Final = (
    ("<>&\u2028\u2029", "04x", False),  # Go's encoding/json, Rails
    ("<>&'", "04x", True),  # Jinja's tojson
    ("<>&='", "04x", False),  # Gson
    ("<>&", "04X", True),  # Django's json_script
    ("\"&'+<>`", "04X", True),  # .NET's System.Text.Json
)
"""Characters that writers of JSON escape by number, though they need not; the form of the number; true for writers that
escape all that is not ASCII as well."""

Span = tuple[int, int]


def maskable(value: bytes) -> str | None:
    """The reason that a value is not masked in outputs, for people, without the value; None: it is masked."""
    plain = value.strip()
    if len(plain) < SHORTEST:
        return f"it has fewer than {SHORTEST} bytes"
    if plain.isdigit() and len(plain) < SHORTEST_NUMBER:
        return f"it is a number of fewer than {SHORTEST_NUMBER} digits"
    if len(set(plain)) == 1:
        return "it is one character, repeated"
    if plain.lower().decode("ascii", "replace") in COMMON:
        return "it is a common word"
    return None


def forms_of(value: bytes) -> Iterator[bytes]:
    """The forms in which a value is found. One that cannot be masked has none."""
    if maskable(value) is not None:
        return
    plain = value.strip()
    yield plain
    for line in plain.splitlines()[:LINES_MOST]:
        for each in {line, line.strip()}:
            if maskable(each) is None:
                yield each
    yield from _in_base64(plain)
    yield from _escaped(plain[:ESCAPED_BYTES])


def _in_base64(plain: bytes) -> Iterator[bytes]:
    """The characters of base64 that depend on the value alone, for each number of bytes before it."""
    for before, dropped in enumerate((0, 2, 3)):
        bits = 8 * (before + len(plain))
        for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
            core = encode(bytes(before) + plain)[dropped : bits // 6]
            if len(core) >= SHORTEST:
                yield core


def _escaped(plain: bytes) -> Iterator[bytes]:
    for form in (quote(plain, safe=""), quote(plain), quote_plus(plain)):
        yield form.encode()
        yield _lower_hex(form).encode()
    # Python chooses the quotes by what is between them, and a longer text may have both.
    yield from (form.encode() for form in (repr(plain)[2:-1], repr(plain + b"\"'")[2:-4]))
    for quoted in (b"'\\''", b"'\"'\"'"):  # as `set -x` of shells, and as `shlex.quote`, write a quote within quotes
        yield plain.replace(b"'", quoted)
    try:
        text = plain.decode()
    except UnicodeDecodeError:
        return
    yield html.escape(text).encode()
    yield html.escape(text).replace("&#x27;", "&#39;").encode()
    yield html.escape(text, quote=False).encode()
    yield json.dumps(text)[1:-1].encode()
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode()
    yield json.dumps(text)[1:-1].replace("/", "\\/").encode()
    yield repr(text)[1:-1].encode()
    yield from _in_careful_json(text)


def _in_careful_json(text: str) -> Iterator[bytes]:
    """As JSON that may stand within HTML."""
    for characters, number, is_ascii in JSON_ESCAPES:
        if not any(each in text for each in characters):
            continue
        numbers = {ord(each): f"\\u{ord(each):{number}}" for each in characters}
        parts = text.split('"') if '"' in characters else [text]
        inner = (json.dumps(part, ensure_ascii=is_ascii)[1:-1] for part in parts)
        yield numbers.get(ord('"'), "").join(inner).translate(numbers).encode()


def _lower_hex(quoted: str) -> str:
    first, *others = quoted.split("%")
    return "%".join([first, *(f"{each[:2].lower()}{each[2:]}" for each in others)])


class _Form(NamedTuple):
    """One form of a value."""

    head: bytes
    whole: bytes
    """Equal to the head if that is all of it."""


_FREQUENT: Final = (
    b" etaoinsrhldcumfpgwybvk\n0123456789.,:-_/=\"'()[]{}TZEAOINSRHLDCUMFPGWYBVKjxqzJXQ+%&?;<>|*#@!~^`$\\\t\r"
)
"""The bytes of ordinary outputs, the most frequent first."""
_COSTS: Final = tuple(1.0 + (150.0 * 0.93 ** _FREQUENT.find(byte) if byte in _FREQUENT else 0.0) for byte in range(256))
"""The time of a search for one byte in ordinary outputs, with a look at each of its places. 1: with none there."""
KEY_BYTES: Final = 4
TRIES: Final = 16
"""Places of the byte that are looked at one by one: a search for a byte takes 0.02 ns a byte, a pattern 0.3 to 2 ns."""


class _Group:
    """Forms that have one byte in common. A search for that byte finds their places."""

    def __init__(self, byte: int, forms: Iterable[_Form]) -> None:
        self._byte = byte
        keys: dict[bytes, list[tuple[int, _Form]]] = defaultdict(list)
        for form in forms:
            place = form.head.find(byte)
            keys[form.head[place : place + KEY_BYTES]].append((place, form))
        self._keys: Mapping[bytes, Sequence[tuple[int, _Form]]] = keys
        """By the bytes from the common one on: the forms, each with the place of that byte."""
        self._lengths = sorted({len(key) for key in keys})

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """The places of the byte with one of the keys."""
        rest = b"|".join(re.escape(key[1:]) for key in self._keys)
        return re.compile(re.escape(bytes([self._byte])) + b"(?=" + rest + b")")

    def places(self, text: bytes) -> Iterator[tuple[int, _Form]]:
        """The places of the heads of its forms in a text."""
        at = text.find(self._byte)
        for _ in range(TRIES):
            if at == -1:
                return
            yield from self._forms_at(text, at)
            at = text.find(self._byte, at + 1)
        if at != -1:
            for found in self._pattern.finditer(text, at):
                yield from self._forms_at(text, found.start())

    def _forms_at(self, text: bytes, at: int) -> Iterator[tuple[int, _Form]]:
        for length in self._lengths:
            for place, form in self._keys.get(text[at : at + length], ()):
                if at >= place and text.startswith(form.head, at - place):
                    yield at - place, form


def _groups(forms: Iterable[_Form]) -> list[_Group]:
    """Few groups with bytes that outputs seldom have: each group is a search through all of the output."""
    left = {form: frozenset(form.head) for form in forms}
    counts = Counter(byte for present in left.values() for byte in present)
    found: list[_Group] = []
    while left:
        byte = min((each for each in counts if counts[each]), key=lambda each: (_COSTS[each] / counts[each], each))
        taken = [form for form, present in left.items() if byte in present]
        found.append(_Group(byte, taken))
        for form in taken:
            counts.subtract(left.pop(form))
    return found


class _Going(NamedTuple):
    """A long form that the text has agreed with up to its end."""

    form: _Form
    done: int
    """Bytes of the form."""


class ValueForms:
    """The forms of all secrets of one attempt."""

    def __init__(self, values: Iterable[bytes]) -> None:
        self._values = tuple(values)
        self._heads: dict[bytes, Sequence[bytes]] = {}

    @cached_property
    def _forms(self) -> Sequence[_Form]:
        """Made when something is to be masked: most tasks write nothing, or nothing with a secret."""
        found = dict.fromkeys(form for value in self._values for form in forms_of(value))
        return [_Form(whole[:HEAD_BYTES], whole) for whole in found]

    @cached_property
    def _groups(self) -> Sequence[_Group]:
        return _groups(self._forms)

    def add(self, value: bytes) -> None:
        """Mask this value too, from now on."""
        self._values = (*self._values, value)
        self._heads.clear()
        for made in ("_forms", "_groups"):
            self.__dict__.pop(made, None)

    def masked(self, content: bytes) -> bytes:
        """A text with the values masked. It may have been cut off: an end that is the start of a value is masked."""
        stream = MaskedStream(self)
        return stream.feed(content) + stream.end()

    def masked_text(self, text: str) -> str:
        """The masked form of a text."""
        content = text.encode(errors="surrogatepass")
        found = self.masked(content)
        return text if found == content else found.decode(errors="replace")

    def masked_json(self, text: str) -> str:
        """A JSON text whose texts, names and numbers are masked each by itself, so that it stays JSON."""
        try:
            value = json.loads(text)
            found = self._masked_value(value)
            return text if found == value else json.dumps(found, ensure_ascii=False)
        except (ValueError, RecursionError):
            found = self.masked_text(text)
            return text if found == text else json.dumps(found)

    def _masked_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.masked_text(value)
        if isinstance(value, dict):
            return {self.masked_text(name): self._masked_value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._masked_value(inner) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = json.dumps(value)
            return value if (found := self.masked_text(written)) == written else found
        return value

    def spans(self, text: bytes) -> tuple[list[Span], list[_Going]]:
        """The places of all forms, and those of long forms that go on behind the text."""
        found: list[Span] = []
        going: list[_Going] = []
        for group in self._groups:
            for begin, form in group.places(text):
                end = begin + len(form.head)
                if len(form.whole) > len(form.head):
                    end += _agreeing(text, end, form.whole, len(form.head))
                    if end == len(text) and end - begin < len(form.whole):
                        going.append(_Going(form, end - begin))
                found.append((begin, end))
        return found, going

    def _ending_in(self, last: bytes) -> Sequence[bytes]:
        """The heads of which a beginning ends in this byte."""
        found = self._heads.get(last)
        if found is None:
            found = self._heads[last] = [form.head for form in self._forms if last in form.head[:-1]]
        return found

    def begun(self, text: bytes) -> int:
        """The number of bytes at the end of a text that may be the start of a value."""
        best, last = 0, text[-1:]
        for head in self._ending_in(last):
            most = min(len(head) - 1, len(text))
            while most > best:
                most = head.rfind(last, 0, most) + 1
                if most > best and text.endswith(head[:most]):
                    best = most
                most -= 1
        return best


def _agreeing(text: bytes, at: int, whole: bytes, done: int) -> int:
    """The number of bytes from here on that are the same in both."""
    most, found = min(len(text) - at, len(whole) - done), 0
    step = most
    while step:
        begin = found
        if text[at + begin : at + begin + step] == whole[done + begin : done + begin + step]:
            found += step
            step = min(step, most - found)
        else:
            step //= 2
    return found


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The bytes with each span apart from the others."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


class MaskedStream:
    """One output."""

    def __init__(self, forms: ValueForms) -> None:
        self._forms = forms
        self._held = b""
        """Of what came: its end, as long as it may be the start of a value."""
        self._covered = 0
        """The bytes of it, from its start, that belong to a value whose mask was given out."""
        self._is_open = False
        """True if the last bytes given out are a mask. It stands for all that touches it."""
        self._going: list[_Going] = []

    def feed(self, piece: bytes) -> bytes:
        """Take a piece of the output. Returns the part of it, and of what was held back, that is decided."""
        if not piece:
            return b""
        text = self._held + piece
        spans = self._spans(text)
        keep = len(text) - self._forms.begun(text)
        found, covered, is_open = self._given(text, spans, keep)
        if keep:
            self._covered, self._is_open = covered, is_open
        elif self._is_open and spans and spans[0][0] == 0:
            self._covered = spans[0][1]
        self._held = text[keep:]
        return found

    def end(self, *, is_cut: bool = True) -> bytes:
        """The rest of the output, which ends here. With `is_cut`, the start of a value is masked as well."""
        found = self.rest(is_cut=is_cut)
        self._held, self._covered, self._is_open, self._going = b"", 0, False, []
        return found

    def rest(self, *, is_cut: bool = True) -> bytes:
        """The bytes that `end` would return."""
        text = self._held
        spans = self._forms.spans(text)[0] if text else []
        if is_cut and len(text) >= PART_BYTES:
            spans.append((0, len(text)))
        if self._covered:
            spans.append((0, self._covered))
        return self._given(text, _merged(spans), len(text))[0]

    def _spans(self, text: bytes) -> list[Span]:
        """The spans to mask, with those that go on from before."""
        spans, going = self._forms.spans(text)
        at = len(self._held)
        for form, done in self._going:
            more = _agreeing(text, at, form.whole, done)
            if more:
                spans.append((at, at + more))
            if at + more == len(text) and done + more < len(form.whole):
                going.append(_Going(form, done + more))
        self._going = list(dict.fromkeys(going))
        if self._covered:
            spans.append((0, self._covered))
        return _merged(spans)

    def _given(self, text: bytes, spans: Sequence[Span], keep: int) -> tuple[bytes, int, bool]:
        """The masked text up to `keep`; the bytes behind it that its last mask stands for; whether it ends with one."""
        pieces: list[bytes] = []
        place, covered, is_open = 0, 0, False
        for begin, end in spans:
            if begin >= keep:
                break
            pieces.append(text[place:begin])
            if begin > 0 or not self._is_open:
                pieces.append(MASK)
            place = min(end, keep)
            if end >= keep:
                covered, is_open = end - keep, True
        pieces.append(text[place:keep])
        return b"".join(pieces), covered, is_open
