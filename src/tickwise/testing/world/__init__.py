"""A simulated world: the product's own scheduler, executor and control, in which everything goes wrong that can.

                         one seed: order of steps · time · chance · ids · faults · workload
                                                       │
      clients ──► api ──► ┌──────────┐   scheduler ──► ┌──────────┐   executor ──► runner ──► tasks on a host
       (workload)         │  links   │                 │  links   │                              │ (tasks)
                          └────┬─────┘    bell ◄──────►└────┬─────┘                              │
                               ▼        (signals)           ▼                                    ▼
                          the memory store, all at once ◄── weather: lost, late, cut, dead   written outside
                               │                                                                 │
                               └────► watch: journal, leases, trace ────► verdict ◄──────────────┘

The roles are untouched. What is ours stands around their ports: a link to the store that loses requests and answers, a
bell that is heard late, twice or never, a runner whose tasks take virtual time, and an event loop whose clock is a
number and whose order is drawn. So a role can be killed or frozen between any two of its awaits.

    swarm      what a seed draws before anything happens        weather    what goes wrong, and when
    loop       time and order                                   workload   what clients ask and are told
    process    a life of a role, its death, its clock           watch      what really happened to runs and leases
    link       the way to the store                             verdict    whether all that was right
    signals · tasks · nodes                                     world      one world from its beginning to its end

A world has a rough time of a minute or two, in which things go wrong and things are asked for, and a calm, in which all
must come to its end. Then three judges speak: the history checker (`domain.history`) over what clients were told, what
happened to each run, and what the tasks themselves wrote; the state of the store, the hosts and the roles, in which
nothing may be left over; and the roles' own logs, in which no error may stand that nothing explains.

    make sim SEEDS=1000              a thousand worlds, each one twice
    make sim SEED=1234               one of them, with what is wrong and the end of its trace

What is not simulated: a machine's power failing under the store (its effects are durable at once), clocks that run
fast or slow, more than one store. A request that takes effect after its caller gave up (`Fate.LATE`) is there and is
drawn by no seed, but by `tests/simulation/test_gaps.py`.

Invariants: the same seed comes to the same trace, byte for byte, in any process; what must happen sometimes is counted
(`SOMETIMES`), and a batch of worlds in which it never did has failed.
"""

from tickwise.testing.world.swarm import Swarm, draw
from tickwise.testing.world.world import SOMETIMES, SeedReport, play, played

__all__ = ["SOMETIMES", "SeedReport", "Swarm", "draw", "play", "played"]
