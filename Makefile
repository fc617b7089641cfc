# `make demo` and `make test` need Python 3.11+ and nothing else. There is one virtual environment: `make demo` puts the
# library into it, `make bot` and `make serve` what bot and service need, `make test` the rest. A step runs again only
# when pyproject.toml or what is locked in requirements/ changes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
BOT := $(VENV)/.bot
SERVICE := $(VENV)/.service
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-deps
# Files with a known hash and nothing else: no dependency that is not listed, and no source that would run while it is built.
LOCKED := $(PIP) --require-hashes --only-binary :all:
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make lock' $(UPGRADE)
TORCH := torch==2.13.0
AFTER_DEV := --constraint requirements/dev.txt
PINS := pyproject.toml $(wildcard requirements/*.txt)
# A folder with data that is not part of this repository, for `make eval`.
DATA ?=

.DEFAULT_GOAL := help
.PHONY: help install demo chat bot serve coverage test test-fast test-process test-all test-cluster test-image test-wheel \
	check audit format bench bench-scale eval torture \
	lock up down clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15

install: $(READY)  ## make the virtual environment with everything (a second call does nothing)

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit("channelmem needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(BASE): $(PINS) | $(VENV)/pyvenv.cfg
	@echo "Installing channelmem with its model and Redis Stack: 550 MB in $(VENV), about a minute ..."
	$(LOCKED) -r requirements/build.txt -r requirements/base.txt
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(BOT): $(BASE)
	@echo "Installing what the Discord bot needs: 120 MB more ..."
	$(LOCKED) -r requirements/bot.txt
	@touch $@

$(SERVICE): $(BASE)
	@echo "Installing what the service needs: 30 MB more ..."
	$(LOCKED) -r requirements/service.txt
	@touch $@

$(READY): $(BASE)
	@echo "Installing torch, the extras and the tools of development: 1.6 GB more, a few minutes ..."
	$(LOCKED) -r requirements/dev.txt
	$(LOCKED) -r requirements/torch-cpu.txt || { \
		echo "pip found no CPU build of torch; the default one brings gigabytes of CUDA (see Limits in README.md) ..."; \
		$(LOCKED) -r requirements/torch-cuda.txt; }
	@touch $@

demo: $(BASE)  ## play a conversation and ask the memory about it
	$(BIN)/channelmem demo

chat: $(BASE)  ## the same by hand
	$(BIN)/channelmem chat

bot: $(BOT)  ## start the Discord bot (needs DISCORD_TOKEN)
	$(BIN)/channelmem bot

serve: $(SERVICE)  ## the memory over HTTP, with a demo channel and a token for it
	$(BIN)/channelmem serve --demo

# In parallel, what no other process can disturb. `--dist worksteal` keeps the tests of a file together, and with them
# their browser and service.
PARALLEL := $(BIN)/python -m pytest -n auto --dist worksteal

test: $(READY)  ## all tests but those of processes and the slow ones
	$(PARALLEL) -m 'not process and not slow'

test-fast: $(READY)  ## the quick tests: those that need no Redis
	$(PARALLEL) -m 'not redis and not process and not slow'

test-process: $(READY)  ## the tests that start, stop or kill processes or measure a rate, one by one
	$(BIN)/python -m scripts.process_tests

test-all: $(READY)  ## all tests, with soak and scale runs, random examples, and a Redis Cluster
	$(PARALLEL) -m 'not process' --hypothesis-profile=random
	$(BIN)/python -m scripts.process_tests -m process --hypothesis-profile=random
	$(MAKE) test-cluster

CLUSTER_TESTS := $(wildcard $(addprefix tests/*/test_,$(addsuffix .py, \
	cluster cluster_moves cluster_tls \
	store store_lifetime store_limits store_removals search buffer_properties windows isolation reindex reindex_stops rebucket \
	worker worker_buckets worker_process enrich \
	consent decisions derived channel_state refused_windows withdrawn policies rosters local_copies \
	memory memory_answers memory_corners memory_privacy sources recall recap threads \
	summaries summaries_context summaries_model summaries_stops recaps related overview \
	attachments media media_privacy loads spending llm_spend access filtered_history context_window \
	api_asking api_messages api_names api_people api_settings api_tenants cli_settings cli_summaries \
	bot_e2e bot_media bot_redacting bot_summaries_e2e)))
test-cluster: $(READY)  ## the tests of store, privacy, ingest, search and what stands on them, on a Redis Cluster
	CHANNELMEM_TEST_CLUSTER=1 $(PARALLEL) -m 'not process and not slow' $(CLUSTER_TESTS)
	CHANNELMEM_TEST_CLUSTER=1 $(BIN)/python -m scripts.process_tests $(CLUSTER_TESTS)

# Images to use instead of those of Dockerfile and compose file.
BASE_IMAGE ?=
REDIS_IMAGE ?=
test-image:  ## build the image with docker, podman or buildah and use it (BASE_IMAGE=, REDIS_IMAGE= for your own)
	@$(PYTHON) -m scripts.test_image --base-image '$(BASE_IMAGE)' --redis-image '$(REDIS_IMAGE)' $(IMAGE_OPTIONS)

test-wheel: $(READY)  ## build the wheel and use it in a clean environment, outside this clone
	$(BIN)/python -m scripts.try_wheel

check: $(READY)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

coverage: $(READY)  ## which lines `make test` runs (htmlcov/index.html)
	$(PARALLEL) -p pytest_cov -m 'not process and not slow' --cov --cov-report=term --cov-report=html

# A vulnerability fails; a database that cannot be reached does not, since that says nothing about the code.
AUDITED := dev build torch-cuda
audit: $(READY)  ## look up the locked releases in the database of vulnerabilities
	@report=$(VENV)/audit.txt; \
	if $(BIN)/pip-audit --disable-pip --progress-spinner off $(AUDITED:%=--requirement requirements/%.txt) >$$report 2>&1; then \
		echo "No known vulnerabilities found. Releases that the database does not know: $$(grep -c 'could not be' $$report)"; \
	elif grep -q '^Found' $$report; then cat $$report; exit 1; \
	else echo "Not audited: $$(tail -1 $$report)"; fi

format: $(READY)  ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## the ratios that must be reached, in one run (a few minutes)
	$(BIN)/python -m scripts.bench

SIZES ?= 10000 100000
bench-scale: $(READY)  ## every operation while the store grows (SIZES="10000 100000 1000000")
	$(BIN)/python -m scripts.bench_scale --sizes $(SIZES)

eval: $(READY)  ## how good routing, recall, the decision and summaries are (DATA=folder adds data from outside this repository)
	$(BIN)/python -m scripts.train_about
	$(BIN)/python -m scripts.eval_scenes
	$(BIN)/python -m scripts.train_facts
	$(BIN)/python -m scripts.train_answers
	$(BIN)/python -m scripts.train_gist
	@if [ -z "$(DATA)" ]; then echo "Skipped data from outside this repository: DATA is not set."; \
	elif [ ! -d "$(DATA)" ]; then echo "Skipped data from outside this repository: there is no folder $(DATA)."; \
	else \
		$(BIN)/python -m scripts.eval_scenes --data "$(DATA)/scenes" && \
		$(BIN)/python -m scripts.eval_scenes --data "$(DATA)/scenes2" && \
		if [ -d "$(DATA)/gatemem" ]; then $(BIN)/python -m scripts.eval_gatemem --data "$(DATA)/gatemem"; \
		else echo "Skipped long questions: there is no $(DATA)/gatemem."; fi && \
		if [ -f "$(DATA)/irc_queries.jsonl" ] && [ -f "$(DATA)/locomo_questions.jsonl" ]; then \
			$(BIN)/python -m scripts.eval_recall --data "$(DATA)" --quick; \
		else echo "Skipped recall: $(DATA) lacks irc_queries.jsonl or locomo_questions.jsonl."; fi && \
		if [ -f "$(DATA)/locomo_messages.jsonl" ] && [ -f "$(DATA)/locomo_questions.jsonl" ]; then \
			$(BIN)/python -m scripts.eval_summaries --data "$(DATA)" && \
			$(BIN)/python -m scripts.count_summary_tokens --data "$(DATA)"; \
		else echo "Skipped summaries: $(DATA) lacks locomo_messages.jsonl or locomo_questions.jsonl."; fi && \
		if [ -f "$(DATA)/routing_open.jsonl" ]; then $(BIN)/python -m scripts.eval_routing --data "$(DATA)"; \
		else echo "Skipped routing: there is no $(DATA)/routing_open.jsonl."; fi; \
	fi

MINUTES ?= 20
SEED ?= 1
torture: $(READY)  ## random histories while everything breaks (MINUTES=20 SEED=1)
	$(BIN)/python -m scripts.torture --minutes $(MINUTES) --seed $(SEED)

lock: $(READY)  ## write the releases with their hashes to requirements/ (UPGRADE=--upgrade: newer ones)
	$(COMPILE) pyproject.toml --extra dev --no-emit-package torch --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml $(AFTER_DEV) --output-file requirements/base.txt
	$(COMPILE) pyproject.toml $(AFTER_DEV) --extra discord --extra llm --extra media --output-file requirements/bot.txt
	$(COMPILE) pyproject.toml $(AFTER_DEV) --extra service --output-file requirements/service.txt
	$(COMPILE) --group build $(AFTER_DEV) --output-file requirements/build.txt
	@# --no-config: here torch's own metadata counts, which ask for CUDA.
	echo '$(TORCH)' | $(COMPILE) - --no-config $(AFTER_DEV) --output-file requirements/torch-cuda.txt

up:  ## Redis Stack, RedisInsight and the bot with docker compose
	@docker compose up --detach --build --wait --wait-timeout 180 || { docker compose logs --tail 2 redis bot; exit 1; }

down:  ## stop what `make up` started
	docker compose down

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
