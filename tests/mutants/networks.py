"""The guards around what a sandbox with a list of destinations reaches."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

NETWORK: Final = "src/tickwise/adapters/runner/process/sandbox/network/"
LISTS: Final = "tests/unit/adapters/test_allowed_destinations.py::"
SANDBOX: Final = "tests/integration/test_sandbox_network.py::"

NETWORKS: Final = (
    Mutant(
        "a name opens no credentials of a cloud, also if the installation allows it",
        NETWORK + "destinations.py",
        "access = replace(access, hosts=frozenset())",
        "pass",
        (LISTS + "test_metadata_is_closed_to_names_and_to_entries",),
    ),
    Mutant(
        "a list opens nothing of the executor's own machine",
        NETWORK + "destinations.py",
        "return not address.is_loopback and ",
        "return ",
        (LISTS + "test_the_machine_itself_is_closed_to_entries",),
    ),
    Mutant(
        "each address of a name is judged before a connection",
        NETWORK + "run_network.py",
        "self._destinations.check(address, host, port)",
        "pass",
        (SANDBOX + "test_a_name_that_leads_inside_is_refused",),
    ),
    Mutant(
        "a host that can be read in two ways is refused",
        NETWORK + "destinations.py",
        " or is_odd_number(host)",
        "",
        (LISTS + "test_a_number_in_another_spelling_is_no_name",),
    ),
    Mutant(
        "nothing of a task begins without the word of the proxy",
        NETWORK + "namespace_program.py",
        "if control.recv(len(GO)) != GO:",
        "if False:",
        (SANDBOX + "test_nothing_begins_if_the_proxy_ends_before_its_word",),
    ),
    Mutant(
        "a run holds no more connections than its share",
        NETWORK + "run_network.py",
        "len(self._tasks) >= CONNECTIONS_MAX",
        "False",
        (SANDBOX + "test_slow_requests_end_and_do_not_hinder_others",),
    ),
)
