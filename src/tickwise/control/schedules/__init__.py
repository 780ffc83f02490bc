"""Schedules: their next fires, the fates of their occurrences, and the calendars that close times.

- `previews` shows the next fires of a saved or unsaved schedule; `occurrences` is the time line of a job.
- `plans` has the starts to come of a whole namespace.
- `fires` skips or moves the next occurrence alone; `backfills` runs occurrences of the past.
- `calendars` and `windows` keep calendars and maintenance windows, over the part that they share, `stored_rules`.

Invariant: a preview goes by the rules of the scheduler's own decision.
"""
