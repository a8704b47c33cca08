SEEDS ?= 20000

.PHONY: help demo test lint bench chaos

help:
	@echo 'make demo    run the main job end to end'
	@echo 'make test    lint, then run every test'
	@echo 'make lint    run the linters only'
	@echo 'make bench   measure the engine'
	@echo 'make chaos   run SEEDS=$(SEEDS) simulated runs with faults'

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh

lint:
	@scripts/lint.sh

bench:
	@scripts/setup.sh dev
	.venv/bin/python -m benchmarks.engine

chaos:
	@scripts/setup.sh dev
	.venv/bin/python -m tests.simulation --seeds $(SEEDS)
