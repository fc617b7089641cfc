# Two stages: the first exports the model with torch, the second carries neither torch nor sentence-transformers.
FROM python:3.12-slim AS build
# Your index of CPU builds of torch; without it the default build brings CUDA packages, which are removed again below.
ARG TORCH_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /venv
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY channelmem channelmem
COPY bot bot
RUN /venv/bin/pip install ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch==2.13.0 \
 && /venv/bin/pip install '.[llm]'
# int8 is made from fp32, which stays beside it: one run exports both.
RUN CHANNELMEM_CACHE_DIR=/model CHANNELMEM_EMBEDDING_PRECISION=int8 /venv/bin/python -c "from channelmem.embedding.embed import open_embedder; from channelmem.settings import Settings; open_embedder(Settings()).close()"
# The exported models need none of these again; the weights' package stays, since it names the model and its tokenizer.
RUN /venv/bin/pip freeze | grep -iE '^(torch|triton|nvidia|cuda|sentence-transformers|transformers|scikit-learn|scipy|sympy|networkx|onnx)(==|-| @)' \
  | grep -viE '^onnxruntime' | sed 's/[= @].*//' | xargs /venv/bin/pip uninstall --yes --quiet

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 channelmem
COPY --from=build /venv /venv
COPY --from=build --chown=channelmem /model /model
ENV PATH=/venv/bin:$PATH CHANNELMEM_CACHE_DIR=/model CHANNELMEM_METRICS_PORT=9464 PYTHONUNBUFFERED=1
USER channelmem
WORKDIR /home/channelmem
# The bot's own /healthz: well while Discord is connected, with or without Redis. http.client, since it heeds no proxy.
# With the port switched off (0) nothing is asked. Nor is a container that runs another command, such as a worker: that
# ends when it cannot go on, so the container's life is its health, and `restart` its cure.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-c", "import http.client, os, sys; port = int(os.environ['CHANNELMEM_METRICS_PORT']); is_bot = b'bot' in open('/proc/1/cmdline', 'rb').read().split(bytes(1)); bot = http.client.HTTPConnection('127.0.0.1', port, timeout=5); sys.exit(is_bot and port > 0 and (bot.request('GET', '/healthz') or bot.getresponse().status != 200))"]
ENTRYPOINT ["channelmem"]
CMD ["bot"]
