"""What people ask: submit, change, pause, cancel, retry, look up. Every call carries a `Principal`.

    api, command line, pages ──► Control ──► store        (the truth; single submits through a group commit)
                                    ├──────► blobs        (scripts, logs)
                                    └──────► signals      (only after the write: make it quick)

Invariant: nothing here knows HTTP, and nothing is accepted that would be ignored: what cannot be carried out is
refused with a pointer to the field at fault.
"""
