"""Where machines of clouds get their credentials is closed, whatever network is open."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from tickwise.adapters.outgoing.access import METADATA, PRIVATE, AddressRefused, HttpAccess

WIDE = ("168.63.0.0/16", "192.0.0.0/24", "100.64.0.0/10", "fc00::/7", "169.254.0.0/16")


@pytest.mark.parametrize("address", METADATA, ids=str)
def test_no_network_opens_an_address_of_metadata(address: object) -> None:
    """Nor does `allow_private` of a channel; also in another spelling."""
    found = ip_address(str(address))
    mapped = ip_address(f"::ffff:{found}") if found.version == 4 else found
    for access in (HttpAccess(networks=PRIVATE), HttpAccess.of(WIDE)):
        for spelled in (found, mapped):
            with pytest.raises(AddressRefused, match="metadata"):
                access.check(spelled, str(spelled), 80)


@pytest.mark.parametrize("address", METADATA, ids=str)
def test_an_entry_of_this_very_address_opens_it(address: object) -> None:
    """With a port it opens that port alone."""
    found = ip_address(str(address))
    HttpAccess.of([str(found)]).check(found, str(found), 80)
    entry = f"[{found}]:80" if found.version == 6 else f"{found}:80"
    HttpAccess.of([entry]).check(found, str(found), 80)
    with pytest.raises(AddressRefused):
        HttpAccess.of([entry]).check(found, str(found), 8080)
