# `make demo` and `make test` need Python 3.11+ and nothing else: the virtual environment is made on
# the first call and again only when pyproject.toml changes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo chat bot test test-all check format bench up down clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

install: $(READY)  ## make the virtual environment (a second call does nothing)

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("channelmem needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)  ## play a conversation and ask the memory about it
	$(BIN)/channelmem demo

chat: $(READY)  ## the same by hand
	$(BIN)/channelmem chat

bot: $(READY)  ## start the Discord bot (needs DISCORD_TOKEN)
	$(BIN)/channelmem bot

test: $(READY)  ## all tests but the slow ones
	$(BIN)/python -m pytest -n auto

test-all: $(READY)  ## with soak and scale runs
	$(BIN)/python -m pytest -m ''

check: $(READY)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## the ratios that must be reached, in one run (a few minutes)
	$(BIN)/python -m scripts.bench

up:  ## Redis Stack, RedisInsight and the bot with docker compose
	docker compose up --detach --build

down:  ## stop what `make up` started
	docker compose down

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
