# The verbs of the project. `make` alone lists them; each sets up what it needs in .venv by itself.

PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
APP := .venv/installed-app
SPARK := .venv/installed-spark
DEV := .venv/installed-dev
CLASSES := .venv/prepared-classes
PORTS := 19092 19093 19094
COMPOSE := docker compose $(if $(SECURE),--file docker-compose.yml --file docker-compose.secure.yml)

# Tests start hundreds of processes: each would compile all of the code for itself.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo demo-transactions demo-spark test test-long hostile cycles planted schedules check sim up down lint types bench

help:  ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(APP)  ## make .venv with the package in it, so that .venv/bin/minikafka runs
	@echo "ready: $(BIN)/minikafka --help"

demo: $(APP)  ## start three brokers, stream real files, kill the leader and the controller, count what was lost
	@$(BIN)/minikafka demo $(ARGS)

demo-transactions: $(APP)  ## a bank that books in transactions, while its application and its brokers are killed
	@$(BIN)/minikafka demo transactions $(ARGS)

demo-spark: $(SPARK)  ## archive, aggregate and audit a topic with Spark while its brokers are killed
	@$(BIN)/minikafka pipeline demo $(ARGS)

test: $(DEV) $(CLASSES)  ## run the tests, four at a time (ARGS='-k fetch' narrows it)
	@$(BIN)/pytest -n 4 $(ARGS)

test-long: $(DEV) $(CLASSES)  ## run the few tests that take long, which `make test` leaves out, and properties with more examples
	@$(BIN)/pytest -n 2 -m 'long or hypothesis' --hypothesis-profile thorough $(ARGS)

hostile: $(DEV)  ## attack a node with a million changed frames at its decoders, 50,000 through sockets, 10,000 logins and handshakes left half-way, and logs with 50,000 batches
	@HOSTILE_DECODED=$(or $(DECODED),1000000) HOSTILE_SENT=$(or $(SENT),50000) HOSTILE_SCENES=$(or $(SCENES),2000) \
		$(BIN)/pytest -m '' tests/hostile tests/fuzz/records tests/cluster/test_bad_*.py $(ARGS)

cycles: $(DEV)  ## repeat each kind of operation N times, all together and each by itself, and look for what grows (three minutes)
	@CYCLES=$(or $(N),30) $(BIN)/pytest -m '' tests/cycles $(ARGS)

planted: $(DEV)  ## plant bugs one by one, show which suite catches each and how soon (SUITE='raft groups' narrows it, PIN=1 finds quick seeds)
	@$(if $(PIN),PIN=$(PIN) )$(BIN)/python tests/planted $(SUITE)

schedules: $(DEV)  ## sweep N random schedules of the pure protocol machines from SEED on (N=1 prints the one)
	@SEED=$(or $(SEED),0) $(BIN)/python tests/planted/schedules.py $(or $(N),10000) $(SUITE)

check: lint types test  ## what CI runs: lint, types, import contracts, tests

sim: $(DEV)  ## simulate a cluster under faults (SEED=7 replays one, SEEDS=1000 sweeps, VOTER=1 damages each byte of a voter)
	@$(BIN)/python tests/sim/sim_main.py $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),$(if $(VOTER),1,20))) \
		$(if $(VOTER),--voter $(VOTER)) $(ARGS)

up:  ## start the three-node compose cluster on 127.0.0.1:19092-19094 (SECURE=1: with TLS, users and ACLs)
	@test -n "$$(docker compose ps --quiet)" || for port in $(PORTS); do \
		! bash -c "exec 3<>/dev/tcp/127.0.0.1/$$port" 2>/dev/null || { \
		echo "port $$port is in use; stop what uses it: \`minikafka cluster list\` shows clusters, \`minikafka cluster stop\` stops one"; exit 1; }; done
	@$(COMPOSE) up --build --detach --wait
	@$(if $(SECURE),echo "passwords and certificates: docker compose cp node-1:/var/lib/minikafka/security ./security",true)
	@echo "bootstrap.servers=127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094 (in other containers: node-1:9092,node-2:9092,node-3:9092)"

down:  ## stop the compose cluster (its volumes stay; `docker compose down -v` removes them)
	@docker compose down --remove-orphans

lint: $(DEV)  ## style, formatting and who may import whom
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

types: $(DEV)  ## mypy --strict
	@$(BIN)/mypy

bench: $(DEV)  ## measure the figures of benchmarks/README.md
	@$(BIN)/python -m benchmarks $(ARGS)

# A stamp file per set of packages: made again when pyproject.toml changes.
$(APP): EXTRAS := chaos
$(SPARK): EXTRAS := chaos,lake
$(DEV): EXTRAS := dev
$(APP) $(SPARK) $(DEV): pyproject.toml | $(BIN)/python
	@echo "==> installing minikafka and its packages into .venv (a minute or so the first time)"
	@$(BIN)/python -m pip install --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

$(CLASSES): $(DEV) minikafka/spark/java.py minikafka/spark/shared_classes.py minikafka/spark/typical_jobs.py
	@echo "==> preparing the classes of Spark, which the tests start twenty times (a minute, once)"
	@$(BIN)/minikafka pipeline prepare
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "minikafka needs Python 3.11 or newer; none was found on the PATH. Name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "minikafka needs Python 3.11 or newer; $(PYTHON) is not. Name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "==> making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear .venv
