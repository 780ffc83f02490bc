"""Jobs: create them, look them up, change them, and decide whether they fire.

    JobBody ──► scene: what the store has of what it names ──► compose, pure ──► NewJob ──► group commit ──► store
    change  ──► replan, pure ──► JobChange, under the version that was read ──► store

- `service` is the entrance; `control.requests` is the one to create, change and cancel. `submission` stores what was
  composed.
- `composer` looks up the objects that a body names. `composing` makes the job: it asks `planning`, `resolving`,
  `lanes`, `policies` and `successors` once each, in this order, and each hands over a value.
- These and `replans` are pure functions over bodies and rows. A refusal points at a field.
- `successors` and `links` keep sequences of jobs free of circles.
- `rechecking` composes again what another process has accepted.

Invariant: nothing is accepted that would be ignored.
"""
