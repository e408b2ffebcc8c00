# `make help` lists the targets. Everything is installed in $(VENV), once for each change of pyproject.toml.

PYTHON ?= python3
VENV ?= .venv
SEEDS ?= 1000
PARALLEL ?= --numprocesses=auto --maxprocesses=4 --dist=loadfile
FUZZ_SECONDS ?= 150

BIN := $(VENV)/bin

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help run test check format lint types layers simulate fuzz bench peers

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/.project ## start the orders example on http://127.0.0.1:8787
	@echo
	@echo 'Open http://127.0.0.1:8787/ for the routes of examples/orders, or try in another terminal:'
	@echo
	@echo '  curl -X POST http://127.0.0.1:8787/orders -d '"'"'{"id": "1001", "sku": "mug", "quantity": 2, "amount_cents": 2400, "address": "1 Main Street"}'"'"
	@echo '  curl -X POST http://127.0.0.1:8787/webhooks/payment -d '"'"'{"order_id": "1001", "amount_cents": 2400}'"'"
	@echo '  curl http://127.0.0.1:8787/orders/1001'
	@echo
	@echo 'Watch it at http://127.0.0.1:8787/cdn-cgi/local/explorer/'
	@echo
	@exec $(BIN)/workflow-emulator dev examples/orders

test: $(VENV)/.dev ## run every test
	$(BIN)/python -m pytest $(PARALLEL)

check: format lint types layers test ## all that must hold before a commit

format: $(VENV)/.dev ## is the code formatted?
	$(BIN)/ruff format --check

lint: $(VENV)/.dev ## ruff's rules
	$(BIN)/ruff check

types: $(VENV)/.dev ## pyright, strict
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: $(VENV)/.dev ## imports go down only
	$(BIN)/lint-imports

simulate: $(VENV)/.dev ## crash and replay the engine on SEEDS seeds (make simulate SEEDS=5000)
	$(BIN)/python -m pytest tests/simulation --seeds=$(SEEDS)

fuzz: $(VENV)/.dev ## send both REST APIs whatever their documents allow, and what they do not, for FUZZ_SECONDS each
	$(BIN)/python -m pytest tests/wire/test_fuzzing.py --fuzz-seconds=$(FUZZ_SECONDS)

bench: $(VENV)/.project ## measure
	$(BIN)/python -m benchmarks

peers: $(VENV)/.project ## measure beside other engines, which it installs in .benchmarks
	$(BIN)/python -m benchmarks.peers

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Python 3.11 or later is needed. On Debian: apt-get install python3 python3-venv' >&2; \
	  echo 'Another interpreter: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo 'The venv module is not complete. On Debian: apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

# Dependency groups need pip 25.1, which is newer than Debian's.
$(VENV)/.project: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.project
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@
