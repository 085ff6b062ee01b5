# Seedbed. `make` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first Python on PATH that is new enough; PYTHON=… names another one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

# -- without Docker

.PHONY: demo
demo: $(VENV)/demo ## crawl the sample shop on this machine (SITE=URL: a site of yours; WORKERS=2, KEEP=1)
	@$(BIN)/python -m bench.demo $(if $(SITE),--site '$(SITE)') $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(PRODUCTS),--products $(PRODUCTS)) $(if $(KEEP),--keep)

.PHONY: bench
bench: $(VENV)/dev ## measure it beside scrapy-redis and plain Scrapy, and write a report (QUICK=1; ONLY='crawl frontier')
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

# -- with Docker

CONTAINERS := docker compose
# A worker's container that runs something else and goes away again.
ONE_OFF := $(CONTAINERS) run --rm --no-deps -T worker

.PHONY: init
init: ## make the secrets of the deployment; those that are there are kept
	@python3 deploy/init.py $(SECRETS_DIR)

# A plain `docker compose up` would put the number of workers back to what .env says. Redis reads its accounts at its
# start only.
.PHONY: up
up: ## start the deployment or bring it up to date; the number of workers stays (WORKERS=8: as many)
	@made=$$(python3 deploy/init.py $(SECRETS_DIR)); echo "$$made"; \
	workers='$(WORKERS)'; \
	if [[ -n $$($(CONTAINERS) ps --quiet redis) ]]; then \
		if [[ $$made == *redis_acl* ]]; then $(CONTAINERS) restart redis; fi; \
		workers=$${workers:-$$($(CONTAINERS) ps --quiet worker | wc -l)}; \
	fi; \
	$(CONTAINERS) up --detach --build --wait --wait-timeout 300 $${workers:+--scale worker=$$workers}

.PHONY: down
down: ## stop the deployment and remove its containers; the data stay
	$(CONTAINERS) --profile '*' down

.PHONY: scale
scale: ## have N workers, at any time
	@test -n '$(N)' || { echo 'make: how many workers? make scale N=4' >&2; exit 2; }
	$(CONTAINERS) scale --no-deps worker=$(N)

.PHONY: seed
seed: ## put URL, or each line of FILE, into the queue of SPIDER
	@test -n "$${URL:-$${FILE:-}}" || { echo "make: which page? make seed SPIDER=site URL='https://…', or FILE=urls.txt" >&2; exit 2; }
	@if [[ -n $${URL:-} ]]; then $(ONE_OFF) scrapy seed $${SPIDER:-site} "$$URL" </dev/null; \
	else $(ONE_OFF) scrapy seed $${SPIDER:-site} --file - <"$$FILE"; fi

.PHONY: status
status: ## show the containers, and what is queued, leased, done and dead
	@$(CONTAINERS) ps --all --format 'table {{.Name}}\t{{.Status}}'
	@$(ONE_OFF) scrapy frontier status </dev/null

.PHONY: archive
archive: ## move pages older than ARCHIVE_AFTER_DAYS into WARC files (ARGS='--older-than 60d --dry-run', '--list', …)
	@$(CONTAINERS) --profile archive run --rm --no-deps -T archive scrapy archive $(ARGS) </dev/null

.PHONY: backup
backup: ## write MongoDB, as of one point in time, into a new file in the folder TO (backups)
	@bash deploy/backup.sh backup '$(or $(TO),backups)'

.PHONY: restore
restore: ## put the backup FROM in the place of what is in MongoDB
	@test -n '$(FROM)' || { echo 'make: which backup? make restore FROM=backups/seedbed-….archive.gz' >&2; exit 2; }
	@bash deploy/backup.sh restore '$(FROM)'

.PHONY: logs
logs: ## follow the logs of the workers (SERVICE=exporter: of another service)
	@$(CONTAINERS) logs --follow --tail 100 $(or $(SERVICE),worker)

.PHONY: bench-stack
bench-stack: $(VENV)/dev ## load the running deployment with more and more workers, and note it in Grafana (WORKERS='1 2 4')
	@$(BIN)/python -m bench.stack $(if $(WORKERS),--workers $(WORKERS)) $(if $(PRODUCTS),--products $(PRODUCTS))

# -- for its developers

.PHONY: test
test: $(VENV)/dev ## run the tests (ARGS='-k frontier'); it brings its own servers
	$(BIN)/python -m pytest $(ARGS)

.PHONY: lint
lint: $(VENV)/dev ## check style, types and that generated files are current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: format
format: $(VENV)/dev ## put the code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: venv
venv: $(VENV)/dev ## make the virtual environment for development

LOCK := $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --custom-compile-command 'make lock' pyproject.toml

.PHONY: lock
lock: $(VENV)/dev ## bring the locked dependencies up to date with pyproject.toml
	$(LOCK) -o requirements/runtime.txt
	$(LOCK) --extra embedded -c requirements/runtime.txt -o requirements/embedded.txt
	$(LOCK) --extra dev -c requirements/embedded.txt -o requirements/dev.txt

.PHONY: wheels
wheels: $(VENV)/dev ## fetch what the image is built from, for a build without a registry
	$(BIN)/python -m pip download --quiet --dest wheels --require-hashes --only-binary :all: --implementation cp \
		--python-version 3.13 --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
		--platform manylinux2014_x86_64 --platform manylinux_2_5_x86_64 -r requirements/runtime.txt

.PHONY: clean
clean: ## remove what the demo, the tests and the tools left (not the containers' data)
	rm -rf .run .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# What `make demo` needs, and what development needs: one environment, the second a superset of the first.
$(VENV)/demo: requirements/embedded.txt | $(VENV)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/dev: requirements/dev.txt | $(VENV)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@ $(VENV)/demo

$(VENV)/python:
	@test -n "$(PYTHON)" || { echo 'make: Python 3.11 or newer is wanted; name it with PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@
