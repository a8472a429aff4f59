# One word for each thing that people do; CMake does the work. `make help` lists them.
BUILD ?= build
JOBS ?= $(shell nproc)

.DEFAULT_GOAL := all
# The Python of the benchmark holds torch, which the build folder's own does not.
PYTHON ?= python3

.PHONY: help setup configure all lib demo test format lint gpu gpu-pack bench clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BUILD)/.ready: tools/setup.sh tools/requirements.txt
	tools/setup.sh $(BUILD)

setup: $(BUILD)/.ready ## install what is missing: Debian packages, and pip packages in the build folder's virtual environment

$(BUILD)/build.ninja: $(BUILD)/.ready
	cmake -S . -B $(BUILD) -G Ninja

configure: $(BUILD)/build.ninja

all: configure ## library, CLI, model and tests
	cmake --build $(BUILD) -j $(JOBS)

lib: configure ## the library alone
	cmake --build $(BUILD) -j $(JOBS) --target tandem

demo: configure ## build, then attention on the bundled sample: on a GPU if there is one, else on the CPU
	cmake --build $(BUILD) -j $(JOBS) --target tandem_cli
	$(BUILD)/bin/tandem run examples/sample.safetensors --causal --check

test: all ## every test that needs no GPU
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error -LE gpu

format: ## format every C++ and kernel file
	tools/lint.sh format --fix

lint: configure ## formatting, and clang-tidy over the library and the CLI (minutes)
	tools/lint.sh format
	BUILD=$(BUILD) JOBS=$(JOBS) tools/lint.sh tidy

gpu: configure ## the GPU suite, on a machine with an H100 or H200: tests, sanitizers, a record in tests/records
	$(PYTHON) tools/gpu_suite.py --build $(BUILD)

gpu-pack: configure ## the kernels that those two will ask for, compiled here (minutes, no GPU): set TANDEM_AOT_DIR=build/gpu-pack there
	cmake --build $(BUILD) -j $(JOBS) --target hopper_kernels tandem_cli
	$(BUILD)/bin/hopper_kernels $(BUILD)/gpu-kernels.txt
	$(BUILD)/bin/tandem compile $$(sed 's/^/--spec /' $(BUILD)/gpu-kernels.txt) --output $(BUILD)/gpu-pack --jobs $(JOBS)

bench: lib ## the benchmark, on such a machine, beside cuDNN, FlashAttention-2 and -3: a record in bench/records
	cmake --build $(BUILD) -j $(JOBS) --target tandem_cli
	$(PYTHON) bench/bench.py
	$(PYTHON) bench/readme_table.py

clean: ## forget the build, keep the installed packages
	cmake --build $(BUILD) --target clean
