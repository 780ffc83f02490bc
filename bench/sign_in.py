"""A sign-in by a provider, from the button to the session: `python -m bench.sign_in [TIMES]`.

The provider is the one of the tests, in a process of its own; the pages and the API run in this one, over a store in
memory. A browser that knows the provider already clicks: three requests to us and one to the provider by the browser,
and two by us, for the tokens and for userinfo. Signed in each time anew, with the roles judged anew.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

from tests.services.oidc_provider import OidcProviderServer
from tests.support.pages import LOCAL
from tests.support.sso import Person, sso_pages
from tickwise.control.people import pace
from tickwise.control.people.sso.service import CALLBACK
from tickwise.ports.limits import Pace


async def measured(times: int) -> dict[str, float]:
    """Milliseconds of sign-ins: the whole, and our part of it without the provider's pages."""
    whole, ours = [], []
    async with OidcProviderServer([LOCAL + CALLBACK]) as server, sso_pages(server) as rig:
        ada = Person(rig, "ada")
        await ada.sign_in()  # at the provider, too
        for _ in range(times):
            began = time.perf_counter()
            url = await ada.begin()
            there = time.perf_counter()
            back = await ada.at_provider(url)
            here = time.perf_counter()
            answer = await ada.get(back)
            ended = time.perf_counter()
            assert answer.status_code == 303, answer.text
            whole.append(1_000 * (ended - began))
            ours.append(1_000 * (ended - began - (here - there)))
    return {
        "times": times,
        "whole_median_ms": round(statistics.median(whole), 1),
        "whole_p95_ms": round(sorted(whole)[int(0.95 * times)], 1),
        "without_pages_of_provider_median_ms": round(statistics.median(ours), 1),
    }


if __name__ == "__main__":
    pace.BURST = 10_000  # type: ignore[misc]  # one address signs in again and again
    pace.ATTEMPTS = Pace(10_000.0, 10_000)  # type: ignore[misc]  # as above
    found = asyncio.run(measured(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
    print(json.dumps(found))
