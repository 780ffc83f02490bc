# In place of prom/prometheus: the same entry point, the same user, the same folder.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/* \
    && install -d -o nobody -g nogroup /prometheus
USER nobody
VOLUME ["/prometheus"]
ENTRYPOINT ["prometheus"]
