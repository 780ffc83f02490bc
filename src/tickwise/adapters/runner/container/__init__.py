"""Runs tasks in containers, on an engine with Docker's API.

    router ──► runner ──┬─ images     may this image be used, is it there, which one is it exactly
                        ├─ composing  the container of an attempt, as the engine wants it
                        ├─ handover   the script on its way in, the result on its way out: archives
                        ├─ following  its output and its end, over outages of the engine
                        ├─ causes     the true cause of an end
                        └─ sweep      what dead executors left behind
                                 all ──► engine   the engine's API, with our errors

`kubernetes` does the same with Jobs of a cluster. `kind` has the fields of a task of the kind `container`; it is
light."""
