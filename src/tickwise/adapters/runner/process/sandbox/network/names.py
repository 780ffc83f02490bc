"""The names inside one sandbox: each allowed name has a loopback address of its own, and the proxy answers for it.

    task: where is api.example.com? ──► 127.64.0.1 ──► connects there ──► the proxy knows which name is meant
    any other name ──► there is no such name

Invariant: a query leads to no query outside. A name is resolved outside when a connection to it is made, so a question
carries nothing out, however the name is spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from tickwise.adapters.runner.process.sandbox.network.destinations import AllowedDestinations, DestinationRefused

FIRST: Final = int(IPv4Address("127.64.0.1"))
NAMES_MAX: Final = 4_096
"""Of one run: the names below a wildcard are without end."""
TTL_SECONDS: Final = 60
"""An address stands for its name as long as the run goes on."""
UDP_BYTES: Final = 512
"""An answer is one address, and smaller."""


class NameBook:
    """The addresses that stand for names, in the order in which they were asked for."""

    def __init__(self, names: list[str]) -> None:
        """`names` have the first addresses, in their order."""
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for name in names:
            self.address_of(name)

    def address_of(self, name: str) -> str | None:
        """The address that stands for this name; None: there are too many names."""
        found = self._addresses.get(name)
        if found is None and len(self._addresses) < NAMES_MAX:
            found = str(IPv4Address(FIRST + len(self._addresses)))
            self._addresses[name], self._names[found] = found, name
        return found

    def name_of(self, address: str) -> str | None:
        """The name that this address stands for; None: none."""
        return self._names.get(address)


def answer(
    wire: bytes, destinations: AllowedDestinations, book: NameBook, refused: Callable[[str], None]
) -> bytes | None:
    """The answer to one query; None: it deserves none. `refused` gets the line for the log of a refused name."""
    try:
        query = dns.message.from_wire(wire)
        if query.flags & dns.flags.QR:
            return None
        response = dns.message.make_response(query, recursion_available=True)
    except Exception:  # noqa: BLE001  # bytes of a task: what the parser cannot read gets no answer
        return None
    if query.opcode() != dns.opcode.QUERY:
        response.set_rcode(dns.rcode.NOTIMP)
    elif len(query.question) != 1:
        response.set_rcode(dns.rcode.FORMERR)
    else:
        _fill(response, destinations, book, refused)
    return response.to_wire(max_size=UDP_BYTES)


def _fill(
    response: dns.message.Message, destinations: AllowedDestinations, book: NameBook, refused: Callable[[str], None]
) -> None:
    question = response.question[0]
    try:
        name = destinations.admit_name(question.name.to_text(omit_final_dot=True))
    except DestinationRefused as error:
        response.set_rcode(dns.rcode.NXDOMAIN)
        if question.rdtype in (dns.rdatatype.A, dns.rdatatype.AAAA):
            refused(str(error))
        return
    if question.rdtype != dns.rdatatype.A or question.rdclass != dns.rdataclass.IN:
        return  # the name is there, without records of this type
    address = book.address_of(name)
    if address is None:
        response.set_rcode(dns.rcode.SERVFAIL)
        return
    response.answer.append(dns.rrset.from_text(question.name, TTL_SECONDS, "IN", "A", address))
