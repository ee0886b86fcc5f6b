# One command per intent. `make` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL ?= 1.5b

.PHONY: help demo test test-all test-local test-clients test-web lint typecheck format fuzz mutants bench bench-peers bench-server bench-hostile bench-web eval eval-retrieval clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

ifneq ($(shell command -v uv 2>/dev/null),)
MAKE_VENV := uv venv --quiet --seed --python 3.11 $(VENV)
INSTALL := uv pip install --quiet --python $(BIN)/python
else
# Older versions of pip do not know --group.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MAKE_VENV := $(PYTHON) -m venv $(VENV)
INSTALL := $(PIP_INSTALL) 'pip>=25.1' && $(PIP_INSTALL)
endif

# Two stamps, each written when all went well: what a user of the demo needs, and what the tests
# need besides. An environment without pip was half made, and is made anew.
$(VENV)/.installed: pyproject.toml
	@echo "Installing the package into $(VENV) ..."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV) && $(MAKE_VENV); }
	@$(INSTALL) -e '.[local]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	@echo "Installing what the tests need ..."
	@$(INSTALL) -e '.[ag-ui,dbos,encryption,flows,knowledge,local,mcp,openai,otel,postgres,serve,terraform]' --group dev
	@touch $@

QUESTION := Which documents are still missing for claim-857?

demo: $(VENV)/.installed  ## Answer a real question with the embedded model (fetches 1.1 GB once)
	@$(BIN)/orchestrator models pull $(MODEL) --no-warm
	@echo && echo "The question: $(QUESTION)"
	@$(BIN)/orchestrator invoke examples/insurance "$(QUESTION)" \
	  --model local:$(MODEL) --trace --state :memory:
	@echo && echo "Go on with:   $(BIN)/orchestrator chat examples/insurance" \
	  && echo "or, first:    source $(BIN)/activate"

# Images of containers often forbid it to keep what was compiled: each worker would compile all
# tests anew, and each process that a test starts all of the package.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile --inline-snapshot=disable

test: $(VENV)/.installed-dev  ## Run the tests, but for exhaustive ones; five minutes on two cores
	@$(PYTEST)

test-all: $(VENV)/.installed-dev  ## Run all tests, each property with many examples
	@$(PYTEST) --exhaustive

# What tests marked `local` need.
WEIGHTS := 0.5b minilm
test-local: $(VENV)/.installed-dev  ## Run the tests of embedded models (fetches 0.6 GB once)
	@for name in $(WEIGHTS); do $(BIN)/orchestrator models pull $$name || exit 1; done
	@$(BIN)/python -m pytest -m local --exhaustive

# Clients that others wrote pin versions of their own, so they have an environment of their own.
CLIENTS := .venv-clients
$(CLIENTS)/.installed: tests/clients/requirements.txt
	@echo "Installing clients of others into $(CLIENTS) ..."
	@rm -rf $(CLIENTS) && $(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Those of npm. Without Node.js the tests say at their end what to install.
NODE_CLIENTS := tests/clients/node
$(NODE_CLIENTS)/node_modules/.installed: $(NODE_CLIENTS)/package-lock.json
	@if command -v npm >/dev/null; then \
	  echo "Installing clients of npm into $(@D) ..." && \
	  npm ci --prefix $(NODE_CLIENTS) --silent && touch $@; fi

test-clients: $(VENV)/.installed-dev $(CLIENTS)/.installed $(NODE_CLIENTS)/node_modules/.installed  ## Run other people's clients against the server
	@AWS_CLI=$(CURDIR)/$(CLIENTS)/bin/aws $(BIN)/python -m pytest -q tests/server/test_aws_cli.py
	@$(CLIENTS)/bin/python -m pytest -q tests/clients -p no:cacheprovider \
	  --override-ini addopts= --override-ini filterwarnings=default

# What looks at the workbench's pages as people with a screen reader or a keyboard have them.
BROWSER_TOOLS := tests/browser/node
$(BROWSER_TOOLS)/node_modules/.installed: $(BROWSER_TOOLS)/package-lock.json
	@if command -v npm >/dev/null; then \
	  echo "Installing axe-core into $(@D) ..." && npm ci --prefix $(BROWSER_TOOLS) --silent && touch $@; fi

test-web: $(VENV)/.installed-dev $(BROWSER_TOOLS)/node_modules/.installed  ## Use the workbench in a real browser (needs Chromium)
	@CI_BROWSER=1 $(BIN)/python -m pytest -q tests/browser

lint: $(VENV)/.installed-dev  ## Check style and the order of imports
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

typecheck: $(VENV)/.installed-dev  ## Check types
	@$(BIN)/mypy

format: $(VENV)/.installed-dev  ## Format the code
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

# The same seed gives the same inputs, and how many of them depends on the machine.
FUZZ_MINUTES ?= 60
fuzz: $(VENV)/.installed-dev  ## Feed spoilt inputs to all that reads them; FUZZ_MINUTES=60, SEED=number
	@$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) $(if $(SEED),--seed $(SEED))

# The tool for it runs beside the tests, not in them, so it has an environment of its own.
MUTANTS ?= 300
MUTANTS_VENV := .venv-mutants
$(MUTANTS_VENV)/.installed: tests/mutants/requirements.txt
	@echo "Installing what mutation tests need into $(MUTANTS_VENV) ..."
	@rm -rf $(MUTANTS_VENV) && $(PYTHON) -m venv $(MUTANTS_VENV)
	@$(MUTANTS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

mutants: $(VENV)/.installed-dev $(MUTANTS_VENV)/.installed  ## Change the code, and see whether tests notice; MUTANTS=300, SEED=1
	@$(MUTANTS_VENV)/bin/python -m tests.mutants --mutants $(MUTANTS) --seed $(or $(SEED),1)

bench: $(VENV)/.installed-dev  ## Measure the engine's own cost against a floor
	@$(BIN)/python -m bench

# Other frameworks pin versions of their own, so each has an environment of its own. One that cannot
# be installed here is left out, and its row of the table says so.
PEERS := $(patsubst bench/peers/%.txt,.venv-peers/%/.installed,$(wildcard bench/peers/*.txt))
.venv-peers/%/.installed: bench/peers/%.txt
	@echo "Installing $* into $(@D) ..."
	@rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@ \
	  || echo "$* was not installed"

bench-peers: $(VENV)/.installed-dev $(PEERS)  ## Measure other frameworks beside the engine
	@$(BIN)/python -m bench.peers

bench-server: $(VENV)/.installed-dev  ## Measure the server under 64 boto3 clients; ten minutes
	@$(BIN)/python -m bench.server

bench-hostile: $(VENV)/.installed-dev  ## Measure the server while it is attacked; two minutes
	@$(BIN)/python -m bench.hostile --check

bench-web: $(VENV)/.installed-dev  ## Measure the workbench's pages beside plain ones (needs Chromium)
	@$(BIN)/python -m bench.web

# A run that was interrupted goes on. After a change, give another folder: OUT=evals/results/after
OUT ?= evals/results
eval: $(VENV)/.installed-dev  ## Thirty questions to both embedded models, and ten conversations
	@mkdir -p $(OUT)
	@for model in 1.5b 0.5b; do \
	  $(BIN)/orchestrator models pull $$model || exit 1; \
	  for cases in questions conversations; do \
	    $(BIN)/orchestrator eval examples evals/$$cases.jsonl --model local:$$model --min 0 \
	      --around evals/scratch.py:open_scratch --out $(OUT)/$$cases-$$model.jsonl || exit 1; \
	  done; done

eval-retrieval: $(VENV)/.installed-dev  ## Sixty questions to local knowledge bases
	@$(BIN)/orchestrator models pull minilm
	@$(BIN)/python evals/retrieval/run.py

clean:  ## Remove the environment and all caches
	rm -rf $(VENV) .venv-peers $(CLIENTS) $(NODE_CLIENTS)/node_modules $(BROWSER_TOOLS)/node_modules $(MUTANTS_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
