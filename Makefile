# `make demo` and `make test` set up, build and run; everything else is a part of those two.
PRESET ?= release
BUILD  := build/$(PRESET)
JOBS   ?= $(shell nproc)

.DEFAULT_GOAL := help
.PHONY: help setup setup-test configure build demo test ctest asan tsan fuzz lint lint-changed format install package check-package clean

help: ## Print this list
	@echo "easydel.cpp: large language models in C++. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "PRESET=release|dev|debug|asan|tsan|cuda picks the build; EASYDEL_TORCH=DIR another libtorch."
	@echo "PRESET=dev compiles every file alone: slower as a whole, faster for work on single files."

setup: ## Install what the build needs (idempotent)
	@scripts/setup.sh build

setup-test: setup
	@scripts/setup.sh test

configure: setup
	@cmake --preset $(PRESET) --log-level=$(if $(wildcard $(BUILD)/build.ninja),WARNING,STATUS)

build: configure ## Build the library, the easydel command, tests, examples and benchmarks
	@cmake --build $(BUILD) -j $(JOBS)

demo: configure ## Set up, build and run the main job on an embedded default
	@cmake --build $(BUILD) -j $(JOBS) --target easydel_cli
	$(BUILD)/bin/easydel doctor
	$(BUILD)/bin/easydel demo

test: setup-test build ctest ## Set up, build and pass all tests

ctest:
	@ctest --preset $(PRESET) -j $(JOBS) --progress $(CTEST_ARGS)

asan: ## Build and run all tests under the address and undefined behaviour sanitizers
	@$(MAKE) test PRESET=asan

tsan: ## Build and run all tests under the thread sanitizer
	@$(MAKE) test PRESET=tsan

fuzz: setup ## Fuzz every reader; FUZZ_SECONDS=60 for each
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),60)

lint: ## Check the format of all C++ files and run clang-tidy (LINT_FILES='a.cpp b.cpp': over those)
	@scripts/setup.sh build
	@scripts/setup.sh lint
	@scripts/lint.sh check $(LINT_FILES)

lint-changed: ## The same for the files that differ from BASE (default: origin/main, else the last commit)
	@scripts/setup.sh build
	@scripts/setup.sh lint
	@scripts/lint.sh changed $(BASE)

format: ## Format all C++ files in place
	@scripts/setup.sh lint
	@scripts/lint.sh format

install: build ## Install under PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

package: configure ## An archive and a .deb that run by themselves, under build/PRESET/packages
	@cmake --build $(BUILD) -j $(JOBS) --target easydel_cli
	@cmake -E rm -rf $(BUILD)/packages
	@cpack --config $(BUILD)/CPackConfig.cmake

check-package: package ## Run both packages in a bare root directory
	@scripts/check_package.sh $(BUILD)/packages

clean: ## Remove all builds; .venv stays
	rm -rf build
