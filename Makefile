# Every target works as the first command on a machine with Python 3.11 or newer, make, git and a
# package index. Everything it fetches is a package, checked by hash, and stays in this folder.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo up test check measure peers bench lock python clean

# Name another interpreter with: make PYTHON=/path/to/python3.12 setup
PYTHON ?=
# Test processes side by side. The tests wait for servers about as long as they compute.
JOBS ?= 2
# OPENSEARCH=1 makes `demo` and `up` run OpenSearch too; that needs a JDK of 21 or newer, and Maven.
OPENSEARCH ?=
# A path handed to `measure` and `bench`; what they measure on is not part of the project.
DATA ?=

BIN := .venv/bin
UV := .uv/bin/uv
LOCAL := .venv/installed-local
DEV := .venv/installed-dev

export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
export UV_CACHE_DIR ?= $(CURDIR)/.cache/uv
export POIMEN_CACHE ?= $(CURDIR)/.cache/poimen

# Run, not only found: a version manager leaves names on the path that start nothing.
find_python = for name in "$(PYTHON)" python3.13 python3.12 python3.11 python3.14 python3 python; do \
	  [ -n "$$name" ] || continue; \
	  python=$$("$$name" -c 'import sys, ssl, venv, ensurepip; assert sys.version_info >= (3, 11); print(sys.executable)' 2>/dev/null) && break; \
	  python=; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Poimen needs Python 3.11 or newer with its venv module (Debian, Ubuntu: python3-venv)." >&2; \
	  echo "If you have one that was not found: make PYTHON=/path/to/python $(or $(MAKECMDGOALS),help)" >&2; \
	  exit 2; \
	fi

# uv does not read the settings of pip, where a machine may name its package index.
index = index=$${PIP_INDEX_URL:-$$(.uv/bin/python -m pip config get global.index-url 2>/dev/null || true)}; \
	if [ -n "$$index" ] && [ -z "$${UV_DEFAULT_INDEX:-}$${UV_INDEX_URL:-}" ]; then \
	  export UV_DEFAULT_INDEX="$$index"; \
	fi
install = $(UV) pip install --quiet --python $(BIN)/python

help:
	@echo "make demo     see it: a small release runs several times, and memory changes what happens"
	@echo "make up       keep Temporal, PostgreSQL and a worker running for your workflows (Ctrl-C ends them)"
	@echo "make test     check, then every test"
	@echo "make check    style, types and layers"
	@echo "make measure  the bars at full size; DATA=folder where one is needed"
	@echo "make peers    our search beside other memories', over the same vectors; DATA=folder with retrieval/"
	@echo "make bench    what memory costs, as JSON"
	@echo "make setup    install only, into .venv"
	@echo "make lock     compile requirements/*.lock again"
	@echo "make clean    remove what was installed and cached; your state in .poimen stays"

setup: $(DEV)

demo:
	@start=$$(date +%s); $(MAKE) --silent --no-print-directory $(LOCAL) && \
	printf '[1/$(if $(OPENSEARCH),5,4)] packages  %3d s  .venv\n' $$(($$(date +%s) - start))
	@$(BIN)/poimen demo$(if $(OPENSEARCH), --opensearch)

up: $(LOCAL)
	@$(BIN)/poimen up$(if $(OPENSEARCH), --opensearch)

test: check
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile

check: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

measure: $(DEV)
	$(BIN)/python -m benchmarks.measure $(if $(DATA),--data "$(DATA)")

# The one target that fetches without a lock: what it compares with serves nothing else here, and the latest counts.
PEERS := .cache/peers
peers: $(DEV)
	@$(index); $(UV) venv --quiet --allow-existing --python $(BIN)/python $(PEERS)/venv && \
	$(UV) pip install --quiet --python $(PEERS)/venv/bin/python chromadb langgraph mem0ai numpy
	$(BIN)/python -m benchmarks.retrieval "$(DATA)/retrieval" --vectors $(PEERS)/vectors > $(PEERS)/ours.json
	$(PEERS)/venv/bin/python -m benchmarks.peers "$(DATA)/retrieval" --vectors $(PEERS)/vectors --ours $(PEERS)/ours.json

bench: $(DEV)
	$(BIN)/python -m benchmarks $(if $(DATA),--data "$(DATA)")

python:
	@$(find_python); echo "$$python"

.uv/installed: requirements/bootstrap.lock
	@$(find_python); rm -rf .uv && "$$python" -m venv .uv
	@.uv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(BIN)/python: | .uv/installed
	@$(find_python); $(UV) venv --quiet --clear --python "$$python" .venv

# The two projects themselves come last, built by the hashed tools: building fetches nothing.
$(LOCAL) $(DEV): .venv/installed-%: requirements/%.lock requirements/build.lock pyproject.toml client/pyproject.toml | $(BIN)/python .uv/installed
	@$(index); $(install) --require-hashes -r requirements/$*.lock -r requirements/build.lock
	@$(install) --no-deps --no-build-isolation --offline --editable client --editable .
	@touch $@

lock: .uv/installed
	@$(index); compile() { $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-emit-package poimen-client \
	    --custom-compile-command 'make lock' "$$@"; }; \
	compile requirements/bootstrap.in -o requirements/bootstrap.lock && \
	compile pyproject.toml --extra local --group dev -o requirements/dev.lock && \
	compile pyproject.toml --extra local -c requirements/dev.lock -o requirements/local.lock && \
	compile pyproject.toml --extra embedding --extra opensearch -c requirements/dev.lock -o requirements/runtime.lock && \
	compile requirements/build.in -c requirements/dev.lock -o requirements/build.lock

clean:
	rm -rf .uv .venv .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
