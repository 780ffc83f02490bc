# In place of postgres:…-bookworm: the same variables, the same user, the same folder.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ \
    && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data && install -d -o postgres -m 3777 /var/run/postgresql
COPY postgres.sh /usr/local/bin/entrypoint
VOLUME ["/var/lib/postgresql/data"]
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/usr/local/bin/entrypoint"]
CMD ["postgres"]
