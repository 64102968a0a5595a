# The application as an image: the worker, the migrate job and the command line. It holds no compiler and no secret.
# The servers it talks to are in docker-compose.yml.

FROM python:3.13-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build

# Dependencies come first and alone, so that a change of the code does not fetch them again.
COPY requirements/build.lock requirements/runtime.lock requirements/
RUN python -m venv /opt/poimen \
 && /opt/poimen/bin/pip install --require-hashes -r requirements/runtime.lock \
 && pip install --require-hashes -r requirements/build.lock

COPY pyproject.toml README.md LICENSE NOTICE ./
COPY client client
COPY memory memory
COPY executors executors
COPY activities activities
COPY workflows workflows
COPY worker worker
COPY vault vault
# Offline and without isolation: what builds is what build.lock holds, and nothing unchecked is fetched.
RUN pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheels ./client . \
 && /opt/poimen/bin/pip install --no-index --no-deps /wheels/*.whl \
 && /opt/poimen/bin/pip uninstall --yes pip \
 && rm -f vault/__init__.py

FROM python:3.13-slim-trixie
ARG VERSION=0.1.0
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="poimen-memory" \
      org.opencontainers.image.description="A Temporal worker that gives every step of a workflow a memory." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"

RUN groupadd --gid 10001 poimen \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/poimen --shell /usr/sbin/nologin poimen \
 && install --directory --owner 10001 --group 10001 --mode 0750 \
      /var/lib/poimen /var/lib/poimen/executor /var/lib/poimen/workspaces

COPY --from=build /opt/poimen /opt/poimen
# An empty named volume takes over what the image has in its place: the starter notes, and who owns them.
COPY --from=build --chown=10001:10001 /build/vault /var/lib/poimen/vault

ENV PATH=/opt/poimen/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/poimen \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    POIMEN_VAULT=/var/lib/poimen/vault \
    POIMEN_STATE=/var/lib/poimen/executor
USER 10001:10001
WORKDIR /var/lib/poimen
ENTRYPOINT ["poimen"]
CMD ["worker"]
