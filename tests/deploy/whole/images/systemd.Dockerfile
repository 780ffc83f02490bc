# A machine with systemd as its first process, as docs/how-to/deploy.md expects one: PostgreSQL, bubblewrap, Python, and the
# wheels of this tree with those that they need, because the machine has no network to fetch them by.
ARG BASE
FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv tools
COPY tree/requirements/build.txt tree/requirements/server.txt requirements/
RUN tools/bin/python -m pip install --quiet --require-hashes -r requirements/build.txt \
    && tools/bin/python -m pip download --quiet --dest wheels --require-hashes --only-binary :all: -r requirements/server.txt
COPY tree/pyproject.toml tree/README.md tree/LICENSE ./
COPY tree/src src
COPY tree/sdk sdk
RUN tools/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir wheels ./sdk .

FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends \
        systemd systemd-sysv dbus bubblewrap postgresql acl procps util-linux \
    && rm -rf /var/lib/apt/lists/* \
    # A container has neither a console nor devices to wait for.
    && systemctl mask systemd-udevd.service systemd-networkd-wait-online.service getty.target console-getty.service \
    && systemctl set-default multi-user.target
COPY --from=build /build/wheels /wheels
ENV container=docker
STOPSIGNAL SIGRTMIN+3
CMD ["/sbin/init"]
