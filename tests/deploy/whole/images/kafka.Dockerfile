# In place of apache/kafka: the same user, the same folders, the three scripts that the stack calls. The jars are Maven's.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-21-jre-headless && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --shell /bin/sh --uid 1000 appuser \
    && install -d -o appuser -g root -m 0775 /etc/kafka /var/lib/kafka /var/lib/kafka/data
COPY jars /opt/kafka/libs
COPY kafka /opt/kafka/bin
RUN chmod 0755 /opt/kafka/bin/*
VOLUME ["/var/lib/kafka/data"]
USER appuser
