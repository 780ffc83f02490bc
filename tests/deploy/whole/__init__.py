"""Deployments as a whole: each way of `deploy/` from nothing to a job's end, through an upgrade, and away again.

    make test-compose   the compose file, on a Docker Engine of its own in a machine without a network
    make test-systemd   the units, under a systemd that is process 1
    make test-chart     the chart, on a Kubernetes API server with its controllers

Servers and images come from Debian's packages, not from registries of images. They are commands and no part of
`make test`: the first call makes images for some minutes.
"""
