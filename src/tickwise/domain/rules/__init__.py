"""The rules of a run, written once: pure functions that every store follows.

    overlap     may a run start while earlier runs of its job are unfinished?
    limits      has a concurrency key a free slot, and which waiting runs get the next slots?
    rates       which slot does a start get under a rate?
    returns     where does a run go that its holder gives back, and from when on can it be claimed?
    requests    which of two requests to the holder of a run stands?
    capacities  which counted capacities does a run hold, and which executor has them?
    confinement what surrounds its task, and which labels must its executor offer for that?
    losses      what follows when the executor of a run is gone?
    sentences   the reasons and sentences that stores put on record

Inputs are frozen values: what a store has found, and its clock's reading. Outputs are verdicts. No function reads a
clock or a store, and none changes its arguments.

A store calls these functions, or carries a rule out in its own language where one statement has to do all (the SQL of
the PostgreSQL store). `testing.contracts.store.dispatch.rule_tables` sets up every situation of small domains in a
store and compares the outcome with the verdict given here, so that both say the same.
"""
