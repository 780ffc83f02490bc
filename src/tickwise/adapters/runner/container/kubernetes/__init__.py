"""Runs attempts as Jobs of Kubernetes, one each.

    runner ──┬─ composing   the Job and the Secret of an attempt, with the operator's pod template
             ├─ entering    what runs before a script, and how its result comes out: lines of its log
             ├─ fence       one Job for a run: made, adopted from a dead executor, or refused
             ├─ watch       one watch for all pods of a namespace
             ├─ following   the log of a pod, over outages
             ├─ causes      the true cause of an end, or of a pod that does not begin
             └─ sweep       Jobs that no executor holds
                      all ──► cluster   the API, with our errors

The kind, the policy of images and the reasons are those of containers on an engine."""
