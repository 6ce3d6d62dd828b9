# Each target is a script: scripts/ and bench/ say what they need and install it
# where they can.
.DEFAULT_GOAL := help
.PHONY: demo test check bench soak record image image-all build clean help

demo: image build ## a workflow of agents mends a small repository, in containers, with replayed models
	@scripts/demo.sh

test: ## everything a change must pass: check, then every test with the real engine (-race)
	@scripts/test.sh

check: ## format, vet, staticcheck, import rules
	@scripts/check.sh

bench: image build ## speed beside make, ninja, act and the engine's own calls, as ratios
	@bench/run.sh

record: image ## the demo's cassettes anew, from the scripted model server
	@scripts/record-demo.sh

soak: image build ## 200 boxes with random kills, then the suite again and again; SOAK_BOXES=200 SOAK_ROUNDS=5
	@scripts/soak.sh

image: ## the agent image, a local tag; also starts the engine where it can
	@scripts/engine.sh
	@scripts/agent-image.sh

image-all: image ## the same with every engine, as herd-runner/agent:all
	@scripts/agent-image.sh all

build: ## bin/herd-runner
	@scripts/build.sh bin/herd-runner

clean: ## what the targets above have made, but not the images
	@rm -rf bin dist .cache cmd/herd-guest/embedded internal/guests/embedded

help:
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8
