# In place of nginx:…-alpine: the user nginx, wget, and logs on the console.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends nginx-light wget && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --shell /usr/sbin/nologin nginx && ln -sf /dev/stderr /var/log/nginx/error.log
