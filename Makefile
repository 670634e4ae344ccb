# SPDX-License-Identifier: Apache-2.0
# Two commands on a fresh machine: `make demo` and `make test`. The rest is for daily work.
SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
.DEFAULT_GOAL := help

# Colcon is asked again only when something that it installs or generates has changed;
# Python sources are linked into the workspace and need no build.
BUILD_INPUTS := $(shell find src launch config models colcon.meta scripts requirements -type f \
	-not -name '*.pyc' \( -name package.xml -o -name 'setup.*' -o -name CMakeLists.txt -o -name '*.msg' \
	-o -name '*.srv' -o -name '*.action' -o -name '*.in' -o -name '*.txt' -o -name '*.sh' -o -name '*.meta' \) 2>/dev/null) \
	$(shell find src launch config models -type d -not -name __pycache__ 2>/dev/null)
ENV := source ./env.sh

.PHONY: help setup build lint format test quick soak bench demo up reference lock clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup:  ## the Python environment, linked as .venv
	@scripts/setup.sh

build: setup install/.built  ## setup, then the colcon workspace

install/.built: $(BUILD_INPUTS)
	@scripts/build.sh
	@touch $@

lint: setup  ## ruff and mypy
	@. .venv/bin/activate && ruff check . && ruff format --check . && scripts/types.sh

format: setup  ## let ruff rewrite the sources
	@. .venv/bin/activate && ruff check --fix . && ruff format .

test: build lint  ## everything: set-up, build, lint, every test
	@$(ENV) && scripts/test.sh

quick: build  ## the tests that take seconds
	@$(ENV) && scripts/test.sh -m "not slow"

soak: build  ## kills at random moments and half an hour of adaptation, to soak/ (SOAK_KILLS, SOAK_MINUTES)
	@$(ENV) && NEWFOUND_KILLS=$(or $(SOAK_KILLS),200) python -m pytest -q -p no:cacheprovider -k killed src/newfound_core/test/knowledge
	@$(ENV) && python -m studies.learning_kills --kills $(or $(SOAK_KILLS),200) --out soak/learning_kills
	@$(ENV) && python -m studies.soak --minutes $(or $(SOAK_MINUTES),30) --out soak/adaptation

demo: build  ## the open-world loop on the simulated camera, reported on in demo_report/; KEEP=1: stay, with the page
	@$(ENV) && python -m scripts.demo $(if $(KEEP),--keep)

up: build  ## the nodes of PARAMS (default config/simulation.yaml) and the operator's page (PORT), until Ctrl-C
	@$(ENV) && exec python -m scripts.up --params $(or $(PARAMS),config/simulation.yaml) $(if $(PORT),--port $(PORT))

bench: build  ## benchmark tables, as ratios measured in one run, to bench/
	@$(ENV) && python -m tests.bench $(ONLY) $(if $(QUICK),--quick) $(if $(PAGE),--page $(PAGE))

reference: build  ## docs/reference.md, from the nodes themselves
	@$(ENV) && python -m scripts.reference

lock: setup  ## pin the newest versions that requirements/*.in allow
	@scripts/lock.sh

clean:  ## remove what was built here; environments stay in the cache
	rm -rf build install log bench soak demo_report .venv
