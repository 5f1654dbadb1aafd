# make help lists the targets. CMakePresets.json says how each folder of build/ is compiled.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
ROWS ?= ../shared/rows/dev.jsonl

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-dev peers test-browser bench fuzz format format-check lint docs results docs-check install clean

configure = cmake --preset $(1) --log-level=WARNING

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## install and build what is missing (minutes the first time, then nothing)
	@scripts/setup

build: setup ## the tool, at build/release/pith
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target pith_tool

demo: build ## answer a question about a long text with a tenth of the cache, and compare methods
	@scripts/demo

test: setup ## all tests, on the release build
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS)
	@ctest --preset release -j $(JOBS)

test-dev: setup ## the tests that need no downloaded model, under the sanitizers
	@$(call configure,dev)
	@cmake --build --preset dev -j $(JOBS)
	@ctest --preset dev -j $(JOBS)

test-browser: ## the page of compare --html in headless Chromium
	@scripts/setup --browser
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target unit_tests
	@ctest --preset release -L browser

peers: ## fetch kvpress (2 GB) and OpenVINO GenAI (80 MB): the entries that the one keeps, the speed of the other
	@scripts/setup --peers
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target peer_tests pith_tool
	@ctest --test-dir build/release -L '^peer$$' -V
	@scripts/openvino_bench

bench: setup ## build and run the benchmarks
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target pith_benches
	@for program in build/release/bench/*_bench; do echo "== $$program"; $$program || exit 1; done

fuzz: ## build the fuzz targets on libFuzzer, in build/fuzz/fuzz
	@scripts/setup --fuzz
	@$(call configure,fuzz)
	@cmake --build --preset fuzz -j $(JOBS)

format: ## rewrite the sources in the project's layout
	@scripts/setup --dev
	@scripts/format

format-check: ## fail where `make format` would change something
	@scripts/setup --dev
	@scripts/format --check

lint: ## clang-tidy and the rules on which folder may include which
	@scripts/check_layers
	@scripts/setup --dev
	@$(call configure,release)
	@scripts/lint

docs: build ## write what README.md and docs/policies.md say of the registry
	@scripts/update_docs

results: build ## measure every policy on ROWS (LIMIT rows of each kind; goes on where it was) and write docs/results
	@scripts/results $(ROWS) --limit $(or $(LIMIT),0)

docs-check: build ## fail where `make docs` would change something
	@scripts/update_docs --check

install: build ## install to PREFIX (default /usr/local)
	@cmake --install build/release --prefix "$(PREFIX)"

clean: ## remove build/; the cache folder stays
	rm -rf build
