# The commands of a newcomer and of a developer. `make` alone lists them.

# rustup's folder is not on the PATH of every shell.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# Not the first python3 on PATH, which may belong to pyenv or to a virtual environment:
# packages are built with the system's.
PYTHON := /usr/bin/python3

# Tests that run the real mock are ignored unless a checkout of it is named.
ifdef ROCMRPM_LAB_MOCK
WITH_MOCK = -- --include-ignored
ABOUT_MOCK = echo "the tests with the real mock ran, from $(ROCMRPM_LAB_MOCK)"
else
WITH_MOCK =
ABOUT_MOCK = printf '%s\n' "The tests with the real mock did not run. To run them:" \
    "  git clone https://github.com/rpm-software-management/mock" \
    "  make lab-test ROCMRPM_LAB_MOCK=\$$PWD/mock"
endif

# Tests that build packages, or whole stacks of them.
SLOW = $(foreach tests,real_ quickstart:: container:: waivers:: newcomers,--skip $(tests))

.PHONY: help quickstart check test compiled lab lab-test copr-test lab-llama lab-vllm bench survey fuzz build install clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

quickstart: ## install what is missing, build rocmrpm, build examples/quickstart with it
	@bash tools/setup.sh quickstart
	cargo run --locked --bin rocmrpm -- trust examples/quickstart
	cargo run --locked --bin rocmrpm -- -C examples/quickstart build --chroot host

check: ## run the fast checks and tests: format, lint, unit tests, and most of tests/workspace
	cargo fmt --all --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo test --locked --quiet --lib --bins
	cargo test --locked --quiet --test workspace -- $(SLOW)

test: ## install what is missing, run every check and test
	@bash tools/setup.sh test
	cargo fmt --all --check
	@$(MAKE) --no-print-directory --jobs=2 lab compiled
	cargo test --locked $(WITH_MOCK)
	cd examples/quickstart/src/rocm-smoke && $(PYTHON) -B -m unittest
	@$(MAKE) --no-print-directory quickstart
	@$(ABOUT_MOCK)

# Beside the laboratory, which leaves a core idle. cargo has no use for make's job server.
compiled:
	MAKEFLAGS= cargo clippy --all-targets --locked -- -D warnings
	MAKEFLAGS= cargo test --locked --no-run --quiet
	cargo package --locked --offline --quiet --no-verify --allow-dirty \
	    -p md5-lanes -p rocmrpm-base -p rocmrpm-rpms -p rocm-inspect

lab: ## make the laboratory, a Fedora 43 from Debian's packages; minutes, cached
	@bash tools/setup.sh test
	@bash tests/lab/make

lab-test: lab ## run the end-to-end tests in the laboratory
	cargo test --locked --test laboratory $(WITH_MOCK)
	@$(ABOUT_MOCK)

copr-test: ## test COPR with its own frontend, from COPR=CHECKOUT of fedora-copr/copr
	@test -d "$(COPR)/frontend" || { printf '%s\n' "error: COPR=CHECKOUT is missing" \
	    "help: git clone https://github.com/fedora-copr/copr, then make copr-test COPR=\$$PWD/copr" >&2; exit 2; }
	@bash tools/setup.sh copr
	ROCMRPM_COPR='$(abspath $(COPR))' cargo test --locked --test copr accepted:: -- --test-threads=2

lab-llama: ## compile llama.cpp for gfx1151 in the laboratory; 66 minutes of CPU time
	@bash tools/setup.sh test
	@bash tests/lab/make llama
	cargo build --locked
	@bash tests/laboratory/llama

lab-vllm: ## install vLLM and its locked closure in the laboratory, and import all models
	@bash tools/setup.sh test
	@bash tests/lab/make vllm
	cargo build --locked
	@bash tests/laboratory/vllm

bench: ## measure speed beside other tools, on real wheels; takes some minutes
	@bash tools/setup.sh test
	cargo bench --locked --bench closure
	cargo bench --locked --bench inspect
	cargo bench --locked --bench wheel
	cargo bench --locked --bench index
	cargo bench --locked --bench growth

survey: ## inspect published wheels with GPU code, and write crates/rocm-inspect/survey/README.md
	@bash tools/setup.sh build
	cargo build --release --locked -p rocm-inspect
	$(PYTHON) -B crates/rocm-inspect/survey/survey.py --program target/release/rocm-inspect \
	    --reports target/survey

FUZZ_SECONDS ?= 60
fuzz: ## run each fuzz target for FUZZ_SECONDS, by default 60; FUZZ_TARGETS="elf lock" selects
	@bash fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_TARGETS)

build: ## build rocmrpm, optimised, into target/release
	@bash tools/setup.sh build
	cargo build --release --locked

install: ## build rocmrpm and put it where cargo puts programs
	@bash tools/setup.sh build
	cargo install --path . --locked

clean: ## remove what was built; caches outside this folder stay
	rm -rf target build examples/*/build
