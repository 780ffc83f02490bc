"""Times at which a schedule may or must not fire: calendar entries, their search in time, the verdict on a fire."""
