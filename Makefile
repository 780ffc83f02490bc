# The commands of this repository; bare `make` prints them. Plain sh and GNU make, no tty needed, root or not.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup up down check test test-browser test-containers test-kubernetes test-cassandra test-s3 screenshots sim reference chaos mutants security bench bench-data bench-check bench-profile storm services-up services-down image deploy-check test-compose test-systemd sbom audit-deps clients fuzz-api \
	lock clean

# A hundred processes that tests start would each compile what was edited since `make setup`.
unexport PYTHONDONTWRITEBYTECODE

VENV    := .venv
BIN     := $(VENV)/bin
AUDIT   := .venv-audit
STAMP   := $(VENV)/.installed
PYTEST  := $(BIN)/python -m pytest
# One file's tests stay in one process (`loadfile`): databases and servers are fixtures of a module, so a file that
# is torn apart would start them twice. Two processes for `make check`, whose tests compute. Four for `make test`: the
# files of minutes wait for leases and timers and use 0.2 to 0.6 of a core each; one more process costs 6 s to collect.
WORKERS ?=
DATA    ?= C2
CASES   ?= T1 T2 T3 L1 L2 L3 CRON
FULL    ?=
FAILURES ?=
GROUP   ?=
NAMES   ?=
PARTS   ?=
PEERS   ?=
ROUNDS  ?=
RECORD  ?=
WRITE   ?=
ONLY    ?=
STORE   ?=
PORT    ?=
DATA_DIR ?=
TESTS   ?= tests
SEEDS   ?= 1000
MINUTES ?= 20
CLIENTS ?=
SEED    ?=
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/tickwise/__init__.py)
IMAGE   ?= tickwise:$(VERSION)
BASE    ?=
CHECKS  ?=
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-emit-package tickwise-sdk --constraint requirements/constraints.in $(if $(UPGRADE),--upgrade)
AT := $(if $(DATA_DIR),--data-dir $(DATA_DIR))
UP_OPTIONS := $(if $(PORT),--port $(PORT)) $(AT)

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup:  ## install everything into .venv (Python ≥ 3.11); quick when nothing changed
	@sh requirements/install.sh $(VENV) $(STAMP)
	@sh requirements/browser.sh

up: setup  ## start all roles in the background, run a first job, say where to look (PORT=, DATA_DIR=)
	@$(BIN)/tickwise up --background $(UP_OPTIONS)
	@$(BIN)/tickwise run examples/hello.py --now --key hello --follow $(AT)
	@echo
	@echo 'Tickwise is running. Next:'
	@echo '  $(BIN)/tickwise jobs list $(AT)         what is planned'
	@echo '  $(BIN)/tickwise runs list $(AT)         what happened'
	@echo '  $(BIN)/tickwise open $(AT)              the pages, in your browser'
	@echo "  $(BIN)/tickwise run examples/hello.py --cron '*/5 * * * *' $(AT)"
	@echo '  make down $(if $(DATA_DIR),DATA_DIR=$(DATA_DIR))                           stop it; the data stays'

down:  ## stop what `make up` started; the data stays
	@if [ -x $(BIN)/tickwise ]; then $(BIN)/tickwise down $(AT); \
	else echo 'Nothing is installed here, so nothing runs from here.'; fi

check: setup  ## the quick gate: format, lint, types, imports, dead code, unit tests, contracts on two stores; not the thorough
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(PYTEST) -n $(or $(WORKERS),3) --dist loadfile -m "not thorough" tests/style tests/unit tests/conformance

test: setup  ## everything, on a PostgreSQL, a Kafka and a Redis of its own, all from packages (TESTS=path for a part)
	$(PYTEST) -n $(or $(WORKERS),4) --dist loadfile $(TESTS)

test-browser: setup  ## the pages in Debian's Chromium: journeys, keyboard, phone, dark, axe (TESTS=path for a part)
	$(PYTEST) $(if $(filter-out tests,$(TESTS)),$(TESTS),tests/browser)

test-containers: setup  ## tasks in containers, every suite, on a Docker Engine from packages (TICKWISE_TEST_DOCKER=unix:///… for another, such as podman)
	TICKWISE_TEST_WHOLE_CONTAINERS=1 $(PYTEST) tests/conformance/test_containers.py tests/integration/test_container_*.py

test-kubernetes: setup  ## tasks in pods, on a control plane that Go builds once in ten minutes (TESTS=path for a part)
	$(BIN)/python -m tests.services.kubernetes_programs
	$(PYTEST) $(if $(filter-out tests,$(TESTS)),$(TESTS),tests/conformance/test_cluster_pods.py tests/integration/test_cluster_*.py tests/deploy/test_cluster_*.py)

test-cassandra: setup  ## every promise of the store's port on a real Cassandra node, through one keeper and over four shards (12 minutes)
	TICKWISE_TEST_WHOLE_CASSANDRA=1 $(PYTEST) tests/conformance/test_cassandra_store.py tests/conformance/test_sharded_cassandra.py tests/integration/processes/test_keepers.py

test-s3: setup  ## the tests of outputs in a bucket, on versitygw, which Go builds once in minutes (TESTS=path for a part)
	TICKWISE_TEST_S3=versitygw $(PYTEST) $(if $(filter-out tests,$(TESTS)),$(TESTS),tests/integration/storage tests/integration/storage/whole_server.py tests/conformance/test_blobs.py)

screenshots: setup  ## pictures of every page, with the jobs of a shop, into docs/screenshots/ (120 kB each at most)
	$(BIN)/python -m tests.browser.screenshots

services-up: setup  ## PostgreSQL, Kafka, Redis and nginx in the background; prints their addresses as TICKWISE_… lines (DATA_DIR=)
	@$(BIN)/python -m tests.services up $(AT)

services-down: setup  ## stop what `make services-up` started; the data stays
	@$(BIN)/python -m tests.services down $(AT)

sim: setup  ## simulated worlds, each one twice (SEEDS=1000; SEED=n shows one again)
	$(BIN)/python -m tickwise.testing.world $(if $(SEED),$(SEED),--seeds $(SEEDS))

reference: setup  ## five years of seven zones: every cron line by every rule beside a slow, obvious one (WRITE=1 keeps them)
	WRITE=$(WRITE) $(BIN)/python -m tests.reference

chaos: setup  ## harm real processes on a real database, judge, write bench/results/ (ROWS="R1 R2 …", SEED=, SHORT=1)
	SEED=$(SEED) SHORT=$(SHORT) $(BIN)/python -m tests.chaos $(ROWS)
	$(if $(ROWS),,$(PYTEST) tests/chaos/kafka_long.py)
	$(if $(ROWS),,$(PYTEST) -s tests/chaos/cassandra_long.py)
	$(if $(ROWS),,RUNS=100000 $(PYTEST) -s tests/integration/test_cassandra_worn.py)
	$(if $(ROWS),,LONG=1 HOSTILE=all $(PYTEST) tests/integration/test_long_output.py tests/integration/test_hostile_values.py)

mutants: setup  ## take each guard out, one at a time, and show which test misses it (ONLY="part of a name"); minutes
	ONLY="$(ONLY)" $(BIN)/python -m tests.mutants

security: setup  ## try every known attack and print what stopped it (ONLY="part of a test's name")
	@ONLY="$(ONLY)" $(BIN)/python -m tests.security

bench: setup  ## measure beside raw SQL, write bench/results/ (CASES="T1 T2 …", FULL=1, PEERS=1, ROUNDS=n; bench/README.md)
	@sh bench/tools.sh
	FULL=$(FULL) PEERS="$(PEERS)" ROUNDS=$(ROUNDS) $(BIN)/python -m bench $(CASES)

bench-data: setup  ## build the filled databases of C2, W1 and growth, kept in bench/.data (DATA="C2 growth", or how many jobs)
	$(BIN)/python -m bench.data $(DATA)

bench-check: setup  ## has the hot path become slower? short T1, T2, L2 beside the ratios of bench/check.json (RECORD=1)
	ROUNDS=$(ROUNDS) RECORD=$(RECORD) $(BIN)/python -m bench.check

storm: setup  ## 100,000 failures under one notification rule: how many messages, and do their counts add up? (FAILURES=, GROUP= s, NAMES=)
	FAILURES=$(FAILURES) GROUP=$(GROUP) NAMES=$(NAMES) $(BIN)/python -m bench.storm

bench-profile: setup  ## where each microsecond and byte of a run goes, into bench/COSTS.md (PARTS="whole stages.claim …")
	$(BIN)/python -m bench.costs $(PARTS)

image:  ## build the image of every role (IMAGE=tickwise:0.1.0, BASE=another image to build on)
	@sh requirements/browser.sh
	docker build --file deploy/Dockerfile --tag $(IMAGE) $(if $(BASE),--build-arg BASE=$(BASE)) \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse --short HEAD 2>/dev/null || echo unknown) .

deploy-check: setup  ## judge deploy/ by the programs that it is for: engine, helm, compose, systemd (CHECKS="chart …")
	BASE="$(BASE)" $(BIN)/python -m tests.deploy $(CHECKS)

test-compose: setup  ## the compose file run whole, on a Docker Engine of its own: up, a job, an upgrade under load, down (STORE=cassandra; root; minutes)
	$(BIN)/python -m tests.deploy.whole.compose$(if $(filter cassandra,$(STORE)),_cassandra)

test-systemd: setup  ## the units run whole, under a systemd that is process 1: install, a job in its sandbox, restart, upgrade, stop (root; minutes)
	$(BIN)/python -m tests.deploy.whole.systemd

sbom: setup  ## the bill of materials of the package and of the image, as CycloneDX, into dist/sbom/
	@$(BIN)/python -m tests.deploy.sbom dist/sbom

audit-deps: $(AUDIT)/.installed  ## known holes in the locked libraries, by pip-audit; asks the network
	@for lock in base local server build dev audit; do echo "requirements/$$lock.txt"; \
		$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/$$lock.txt || bad=1; \
	done; exit $${bad:-0}

$(AUDIT)/.installed: requirements/audit.txt
	python3 -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --require-hashes --requirement requirements/audit.txt
	touch $@

clients: setup  ## make clients with generators of others, build and use them on a real API (CLIENTS="go java …")
	$(BIN)/python -m tests.clients $(CLIENTS)

fuzz-api: setup  ## requests drawn from the description against a real API: nothing may disagree with it (MINUTES=20, SEED=)
	$(BIN)/python -m tests.clients.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

lock: setup  ## resolve the requirements anew into requirements/*.txt (UPGRADE=1 takes newer versions)
	$(UV_COMPILE) requirements/uv.in -o requirements/uv.txt
	$(UV_COMPILE) pyproject.toml --extra local --extra calendars --extra kafka --extra otel --extra redis --extra apprise --extra docker --extra kubernetes --extra sqs --extra cassandra --extra dev -o requirements/dev.txt
	$(UV_COMPILE) pyproject.toml --extra local -c requirements/dev.txt -o requirements/local.txt
	$(UV_COMPILE) pyproject.toml -c requirements/dev.txt -o requirements/base.txt
	$(UV_COMPILE) pyproject.toml --extra calendars --extra kafka --extra otel --extra redis --extra apprise --extra docker --extra kubernetes --extra sqs --extra cassandra -c requirements/dev.txt -o requirements/server.txt
	$(UV_COMPILE) requirements/clients.in -o requirements/clients.txt
	$(UV_COMPILE) requirements/audit.in -c requirements/dev.txt -o requirements/audit.txt
	$(UV_COMPILE) requirements/build.in -c requirements/dev.txt -o requirements/build.txt

clean:  ## remove the virtual environment and every cache; never data
	rm -rf $(VENV) $(AUDIT) build dist sdk/dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src sdk tests -name __pycache__ -type d -prune -exec rm -rf {} +
