# One image for the web process, the workers and the other commands; the container's command selects one (`serve`, `worker`, `migrate`, …).
# deploy/README.md lists the permissions that a worker's container needs.
# The workflow "Pin images" adds the base image's digest, and keeps it current; both stages have the same.
FROM python:3.12-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python3 -m venv /opt/selfheal && python3 -m venv /opt/build \
    && /opt/selfheal/bin/pip install --no-deps --require-hashes --only-binary :all: -r requirements.lock \
    && /opt/build/bin/pip install --no-deps --require-hashes --only-binary :all: -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY agent agent
COPY sandbox sandbox
COPY webhooks webhooks
RUN /opt/build/bin/python -m hatchling build -t wheel -d /wheel && /opt/selfheal/bin/pip install --no-deps /wheel/*.whl

FROM python:3.12-slim-bookworm
# Additional Debian packages for your repositories' tests, for example "nodejs npm", "postgresql redis-server", "gcc libc6-dev".
ARG TOOLS=""
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        bubblewrap ca-certificates git libseccomp2 make util-linux ${TOOLS} \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 selfheal \
    && useradd --uid 10001 --gid selfheal --home-dir /data --no-create-home --shell /usr/sbin/nologin selfheal \
    && install -d -o selfheal -g selfheal -m 0700 /data
COPY --from=build /opt/selfheal /opt/selfheal
# Selfheal writes only to /data and /tmp, so the root can be mounted read-only.
ENV PATH=/opt/selfheal/bin:$PATH \
    HOME=/data \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SELFHEAL_DATA_DIR=/data \
    SELFHEAL_HOST=0.0.0.0
USER selfheal
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
# For the web process. compose.yaml defines another health check for workers, and Fly.io ignores an image's.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["selfheal"]
CMD ["serve"]
