# In place of cassandra:…: the same user, folders, entry point, variables and commands. The jars are Maven's, cqlsh is PyPI's.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-21-jre-headless && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 999 cassandra && useradd --system --no-create-home --uid 999 --gid cassandra cassandra \
    && install -d -o cassandra -g cassandra -m 0777 /etc/cassandra /var/lib/cassandra /var/log/cassandra \
    && python3 -m venv /opt/cqlsh && /opt/cqlsh/bin/python -m pip install --quiet cqlsh==6.2.2 \
    && ln -s /opt/cqlsh/bin/cqlsh /usr/local/bin/cqlsh
COPY jars /opt/cassandra/lib
COPY cassandra/cassandra.yaml jvm.options logback.xml /etc/cassandra/
COPY cassandra/cassandra.sh /usr/local/bin/cassandra
COPY cassandra/docker-entrypoint.sh /usr/local/bin/
RUN chmod 0755 /usr/local/bin/cassandra /usr/local/bin/docker-entrypoint.sh
VOLUME ["/var/lib/cassandra"]
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["cassandra", "-f"]
