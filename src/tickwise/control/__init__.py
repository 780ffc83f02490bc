"""The service layer: everything that people and programs ask of Tickwise. Every call carries a `Principal`.

    api, command line, pages ──► Control ──► store        (the truth; single submits through a group commit)
                                    ├──────► blobs        (scripts, logs)
                                    └──────► signals      (only after the write: make it quick)

One package for each duty: `jobs`, `schedules`, `runs`, `explain`, `bulk`, `buffered`, `keys`. Through
`requests` jobs are created, changed and cancelled, buffered or at once. Each is above what it is made of, and
import-linter keeps it so; `control` puts them together. Roles do not know this layer: what a scheduler or a recorder
needs of it, the composition root hands in.

Each public method of a service declares the permission that it needs, and refuses a principal without it (`access`).
Services share parts, and none calls another. Parts check nothing: roles carry accepted requests out through them.

Invariant: nothing here knows HTTP, and nothing is accepted that would be ignored: what cannot be carried out is
refused with a pointer to the field at fault.
"""
