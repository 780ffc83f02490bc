# A machine with a Docker Engine and Compose, from Debian's packages. It runs as a privileged container without a network
# of its own but loopback, so that bridges, addresses and fixed ports of a stack are seen by nobody else.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends docker.io docker-cli docker-compose iptables iproute2 \
    && rm -rf /var/lib/apt/lists/*
VOLUME ["/var/lib/docker"]
CMD ["dockerd", "--host=unix:///var/run/docker.sock", "--ip6tables=false", "--exec-opt=native.cgroupdriver=cgroupfs"]
