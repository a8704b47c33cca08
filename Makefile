SEEDS ?= 20000
ROUNDS ?= 2
MINUTES ?= 20

.PHONY: help demo test test-all test-torch test-embedded test-trainers test-agents test-vllm test-ray test-grpo lint bench bench-collect bench-processes bench-cluster bench-tokens bench-gateway bench-browser bench-web bench-viewer bench-model chaos pool-campaign

help:
	@echo 'make demo           run the main job end to end'
	@echo 'make test           lint, then run the tests'
	@echo 'make test-all       the same, with the campaigns: long or broad tests'
	@echo 'make test-torch     open our files with torch, which this downloads'
	@echo 'make test-embedded  run the bundled language model, which this downloads'
	@echo 'make test-trainers  load exports with TRL and others, which this downloads'
	@echo 'make test-agents    roll out agents of frameworks, which this downloads'
	@echo 'make test-vllm      ask a real vLLM on the CPU, which this downloads (2.5 GB)'
	@echo 'make test-ray       kill nodes of a real Ray cluster, ROUNDS=$(ROUNDS) times; downloads Ray'
	@echo 'make test-grpo      train a tiny model on its own rollouts; downloads torch'
	@echo 'make lint           run the linters only'
	@echo 'make bench          measure the engine'
	@echo 'make bench-collect  measure ng_collect_rollouts against a bare loop'
	@echo 'make bench-processes measure collecting in two processes, and on Ray, against one'
	@echo 'make bench-cluster  simulate 100 nodes, and compare the simulation with a real run'
	@echo 'make bench-tokens   measure what exact tokens cost'
	@echo 'make bench-gateway  measure what the gateway adds to a call'
	@echo 'make bench-browser  measure browser steps against plain Playwright'
	@echo 'make bench-web      measure web rollouts against two simpler ways'
	@echo 'make bench-viewer   measure the viewer with 200,000 rollouts'
	@echo 'make bench-model    measure the bundled language model on small web tasks'
	@echo 'make pool-campaign  run a pool for MINUTES=$(MINUTES) under a slow trainer that is killed again and again'
	@echo 'make chaos          run SEEDS=$(SEEDS) simulated runs with failures and crashes'

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh

test-all:
	@scripts/test.sh -m 'not torch and not embedded and not trainers and not vllm and not agents and not grpo and not ray'

test-torch:
	@scripts/setup.sh dev
	@python=$$(scripts/torch_env.sh torch) && ROLLGYM_TORCH_PYTHON="$$python" .venv/bin/python -m pytest -m torch \
		tests/integration/webgym/trajectory/test_torch.py

test-embedded:
	@scripts/setup.sh dev
	@scripts/setup.sh model
	@.venv/bin/python -m webgym.miniwob --fetch
	.venv/bin/python -m pytest -m embedded responses_api_models/embedded_model responses_api_agents/command_agent \
		tests/e2e/test_small_model.py

test-trainers:
	@scripts/setup.sh dev
	@python=$$(scripts/torch_env.sh trainers) && ROLLGYM_TRAINERS_PYTHON="$$python" .venv/bin/python -m pytest \
		-m trainers tests/integration/export/test_trainers.py

test-agents:
	@scripts/setup.sh dev
	@python=$$(scripts/torch_env.sh agents) && ROLLGYM_AGENTS_PYTHON="$$python" .venv/bin/python -m pytest -v -m agents \
		responses_api_agents/command_agent

test-vllm:
	@scripts/setup.sh dev
	@python=$$(scripts/torch_env.sh vllm) && ROLLGYM_VLLM_PYTHON="$$python" .venv/bin/python -m pytest -v -m vllm tests/vllm

test-ray:
	@scripts/setup.sh dev
	@python=$$(scripts/torch_env.sh ray) && ROLLGYM_RAY_PYTHON="$$python" ROLLGYM_RAY_ROUNDS=$(ROUNDS) \
		.venv/bin/python -m pytest -v -m ray tests/ray

test-grpo:
	@scripts/setup.sh dev
	@python=$$(scripts/torch_env.sh grpo) && ROLLGYM_GRPO_PYTHON="$$python" .venv/bin/python -m pytest -v -m grpo tests/grpo

lint:
	@scripts/lint.sh

bench:
	@scripts/setup.sh dev
	.venv/bin/python -m benchmarks.engine

bench-collect bench-tokens bench-gateway bench-browser bench-viewer: bench-%:
	@scripts/setup.sh dev
	.venv/bin/python -m benchmarks.$*

bench-processes:
	@python=$$(scripts/torch_env.sh ray) && PYTHONPATH=. "$$python" -m benchmarks.processes

bench-cluster:
	@scripts/setup.sh dev
	.venv/bin/python -m benchmarks.cluster
	.venv/bin/python -m benchmarks.cluster --measure

bench-web:
	@scripts/setup.sh dev
	.venv/bin/python -m benchmarks.web_rollouts

bench-model:
	@scripts/setup.sh dev
	@scripts/setup.sh model
	@.venv/bin/python -m webgym.miniwob --fetch
	.venv/bin/python -m benchmarks.small_model

chaos:
	@scripts/setup.sh dev
	.venv/bin/python -m tests.simulation --seeds $(SEEDS)

pool-campaign:
	@scripts/setup.sh dev
	.venv/bin/python -m benchmarks.pool --minutes $(MINUTES)
