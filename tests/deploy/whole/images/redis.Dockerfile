# In place of redis:…-alpine.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/* \
    && install -d -o redis -g redis /data
WORKDIR /data
COPY redis.sh /usr/local/bin/entrypoint
ENTRYPOINT ["sh", "/usr/local/bin/entrypoint"]
CMD ["redis-server"]
