# Commands for newcomers and developers. `make` lists them.

# rustup's folder is not on the PATH of every shell.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# Packages are built with the system's Python. The first python3 on PATH may belong to pyenv or
# to a virtual environment.
PYTHON := /usr/bin/python3

# Tests with the real mock run only if ROCMRPM_LAB_MOCK names a checkout of it.
ifdef ROCMRPM_LAB_MOCK
WITH_MOCK = -- --include-ignored
ABOUT_MOCK = echo "the tests with the real mock ran, from $(ROCMRPM_LAB_MOCK)"
else
WITH_MOCK =
ABOUT_MOCK = printf '%s\n' "The tests with the real mock did not run. To run them:" \
    "  git clone https://github.com/rpm-software-management/mock" \
    "  make lab-test ROCMRPM_LAB_MOCK=\$$PWD/mock"
endif

# Tests that build packages or whole stacks, or wait for killed runs.
SLOW = $(foreach tests,real_ quickstart:: guides:: container:: waivers:: newcomers other_gpus:: \
    builds_and_rebuilds concurrent_runs killed_runs committed_package_tables,--skip $(tests))

.PHONY: help quickstart check test compiled copr-tests other-tests lab lab-test copr-test lab-kernels lab-llama lab-llama-vulkan lab-package lab-sdk lab-torch lab-torch-extensions lab-triton lab-vllm lab-vllm-kernels bench bench-mock survey add-survey add-survey-lab lint-survey fuzz book build static dist install install-pages clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

quickstart: ## install missing packages, build rocmrpm, and build examples/quickstart with it
	@bash tools/setup.sh quickstart
	cargo run --locked --bin rocmrpm -- trust examples/quickstart
	cargo run --locked --bin rocmrpm -- -C examples/quickstart build --chroot host

check: ## run the fast checks and tests: format, lint, unit tests, and most of tests/workspace
	cargo fmt --all --check
	cargo clippy --all-targets --locked -- -D warnings
	bash tools/in-memory.sh cargo test --locked --quiet --lib --bins
	bash tools/in-memory.sh cargo test --locked --quiet --test workspace -- $(SLOW)

test: ## install missing packages, then run every check and test
	@bash tools/setup.sh test
	cargo fmt --all --check
	@$(MAKE) --no-print-directory --jobs=2 lab compiled
	@$(MAKE) --no-print-directory --jobs=2 copr-tests other-tests
	cd examples/quickstart/src/rocm-smoke && $(PYTHON) -B -m unittest
	cd smoke && $(PYTHON) -B -m unittest
	@$(MAKE) --no-print-directory book
	@$(MAKE) --no-print-directory quickstart
	@$(ABOUT_MOCK)

# Runs beside the laboratory, which leaves a core idle. cargo does not need make's job server.
compiled:
	MAKEFLAGS= cargo clippy --all-targets --locked -- -D warnings
	MAKEFLAGS= cargo test --locked --no-run --quiet
	cargo package --locked --offline --quiet --no-verify --allow-dirty \
	    -p md5-lanes -p rocmrpm-base -p rocmrpm-rpms -p rocm-inspect

# Tests of COPR mostly wait for their server, so they run beside the others.
OTHER_TESTS = $(filter-out copr,$(notdir $(patsubst %/main.rs,%,$(wildcard tests/*/main.rs))))

copr-tests:
	MAKEFLAGS= bash tools/in-memory.sh cargo test --locked --quiet --test copr -- --test-threads=4

other-tests:
	MAKEFLAGS= bash tools/in-memory.sh cargo test --locked --lib --bins $(OTHER_TESTS:%=--test %) $(WITH_MOCK)
	MAKEFLAGS= cargo test --locked --doc

lab: ## build the laboratory, a Fedora 43 from Debian's packages; takes minutes, cached
	@bash tools/setup.sh test
	@bash tests/laboratory/system/make

lab-test: lab ## run the end-to-end tests in the laboratory
	cargo test --locked --test laboratory $(WITH_MOCK)
	@$(ABOUT_MOCK)

copr-test: ## test COPR with its own frontend, from COPR=CHECKOUT of fedora-copr/copr
	@test -d "$(COPR)/frontend" || { printf '%s\n' "error: COPR=CHECKOUT is missing" \
	    "help: git clone https://github.com/fedora-copr/copr, then make copr-test COPR=\$$PWD/copr" >&2; exit 2; }
	@bash tools/setup.sh copr
	ROCMRPM_COPR='$(abspath $(COPR))' cargo test --locked --test copr -- --test-threads=2 accepted:: resets_the_settings

lab-package: lab ## build rocmrpm's own package in the laboratory, install it, and run it
	bash tools/in-memory.sh cargo test --locked --test laboratory -- --include-ignored own_package

KERNELS ?= triton-kernels flash-attn aotriton
lab-kernels: ## compile Triton kernels for gfx1151 without a GPU, of KERNELS="flash-attn ..." [default: all three]
	@bash tools/setup.sh kernels
	cargo build --locked
	@bash tests/laboratory/kernels/run $(KERNELS)

# The laboratory's system with this release of ROCm, 6.4 or 7.2.
ROCM ?= 6.4
lab-llama: ## compile llama.cpp for gfx1151 in the laboratory, with ROCM=7.2 if set; 66 minutes of CPU time
	@bash tools/setup.sh test
	@ROCMRPM_LAB_ROCM='$(ROCM)' bash tests/laboratory/system/make llama
	cargo build --locked
	@ROCMRPM_LAB_ROCM='$(ROCM)' bash tests/laboratory/llama rocm

lab-llama-vulkan: ## compile llama.cpp for Vulkan in the laboratory, and run it on Mesa's driver for CPUs
	@bash tools/setup.sh test
	@bash tests/laboratory/system/make vulkan
	cargo build --locked
	@bash tests/laboratory/llama vulkan

lab-vllm-kernels: ## compile vLLM's kernels for gfx1151 with ROCm 7.2 in the laboratory
	@bash tools/setup.sh test
	@ROCMRPM_LAB_ROCM=7.2 bash tests/laboratory/system/make
	cargo build --locked
	@bash tests/laboratory/vllm-kernels

lab-torch-extensions: ## compile torchvision and torchaudio with ROCm 7.2 in the laboratory, from VISION=FOLDER and AUDIO=FOLDER if set
	@bash tools/setup.sh test
	@ROCMRPM_LAB_ROCM=7.2 bash tests/laboratory/system/make extensions
	cargo build --locked
	@bash tests/laboratory/torch-extensions torchvision $(if $(VISION),'$(abspath $(VISION))')
	@bash tests/laboratory/torch-extensions torchaudio $(if $(AUDIO),'$(abspath $(AUDIO))')

lab-torch: ## compile PyTorch for gfx1151 with mock, resume with ccache, write a record; needs Fedora and many cores
	@bash tools/setup.sh build
	cargo build --locked
	@bash tests/laboratory/torch

lab-triton: ## compile Triton with LLVM 22.1.8 of Debian in the laboratory, from TRITON=FOLDER if set, and use it for gfx1151
	@bash tools/setup.sh test
	@ROCMRPM_LAB_ROCM=7.2 bash tests/laboratory/system/make triton
	cargo build --locked
	@bash tests/laboratory/triton $(if $(TRITON),'$(abspath $(TRITON))')

lab-vllm: ## install vLLM and its locked closure in the laboratory, and import all models
	@bash tools/setup.sh test
	@bash tests/laboratory/system/make vllm
	cargo build --locked
	@bash tests/laboratory/vllm

lab-sdk: ## make ROCm's Python packages in the laboratory and test them with upstream's tests, from THEROCK=CLONE
	@git -C "$(THEROCK)" cat-file -e HEAD:build_tools/packaging/python 2>/dev/null || { printf '%s\n' \
	    "error: THEROCK=CLONE is missing" \
	    "help: git clone https://github.com/ROCm/TheRock, then make lab-sdk THEROCK=\$$PWD/TheRock" >&2; exit 2; }
	@bash tools/setup.sh test
	@ROCMRPM_LAB_ROCM=7.2 bash tests/laboratory/system/make sdk
	cargo build --locked
	@THEROCK='$(abspath $(THEROCK))' bash tests/laboratory/sdk

bench: ## compare speed with other tools, on real wheels; takes some minutes
	@bash tools/setup.sh test
	cargo bench --locked --bench closure
	cargo bench --locked --bench inspect
	cargo bench --locked --bench wheel
	cargo bench --locked --bench index
	cargo bench --locked --bench growth

bench-mock: lab ## compare the time of a build with that of mock alone, in the laboratory; needs ROCMRPM_LAB_MOCK
	cargo build --release --locked --bin rocmrpm
	@bash tests/laboratory/mock-overhead

survey: ## inspect published wheels with GPU code, and write crates/rocm-inspect/survey/README.md
	@bash tools/setup.sh build
	cargo build --release --locked -p rocm-inspect
	$(PYTHON) -B crates/rocm-inspect/survey/survey.py --program target/release/rocm-inspect \
	    --reports target/survey

add-survey: ## add and lint the projects of tools/add-survey.toml [or NAMES="ujson lz4"], and print a table
	cargo build --locked --bin rocmrpm
	rm -rf target/add-survey
	$(PYTHON) -B tools/add_survey.py target/debug/rocmrpm target/add-survey $(NAMES)

SEED ?= $(shell date +%Y%m%d)
add-survey-lab: ## the same for twenty by chance [SEED=N, or NAMES]; build and install them in the laboratory's mock
	@test -n "$$ROCMRPM_LAB_MOCK" || { printf '%s\n' "error: ROCMRPM_LAB_MOCK is not set" \
	    "help: set it to a checkout of rpm-software-management/mock" >&2; exit 2; }
	@bash tests/laboratory/system/make survey
	cargo build --locked --bin rocmrpm
	$(PYTHON) -B tools/add_survey.py target/debug/rocmrpm target/add-survey-lab --build \
	    $(if $(NAMES),$(NAMES),--choose 20 --seed $(SEED) --write docs/reference/added-projects.md)

# The specs are a checkout of yours; rpm runs the code in their %(...), so it must be trusted.
lint-survey: ## lint every spec of SPECS=FOLDER [for CHROOT, every EVERYth], and count findings by rule
	@test -d "$(SPECS)" || { printf '%s\n' "error: SPECS=FOLDER is missing" \
	    "help: check out spec files, such as those of Fedora's dist-git, and run rocmrpm trust FOLDER" >&2; exit 2; }
	cargo build --locked --bin rocmrpm
	$(PYTHON) -B tools/lint_survey.py $(if $(CHROOT),--chroot '$(CHROOT)') $(if $(EVERY),--every '$(EVERY)') \
	    --findings target/lint-survey.tsv target/debug/rocmrpm '$(SPECS)'

FUZZ_SECONDS ?= 60
fuzz: ## run each fuzz target for FUZZ_SECONDS [default: 60], or those in FUZZ_TARGETS="elf lock"
	@bash fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# Sphinx comes from pip's index, in the versions of docs/requirements.txt.
BOOK = target/book

$(BOOK)/venv: docs/requirements.txt
	$(PYTHON) -m venv --clear $@
	$@/bin/pip install --quiet --requirement docs/requirements.txt
	touch $@

book: $(BOOK)/venv ## build the documentation into target/book/html, and check its links
	PYTHONDONTWRITEBYTECODE=1 $(BOOK)/venv/bin/sphinx-build -q -n -W --keep-going -E \
	    -d $(BOOK)/doctrees -b html docs $(BOOK)/html

build: ## build an optimized rocmrpm in target/release
	@bash tools/setup.sh build
	cargo build --release --locked

# The C code of zstd and xz is compiled for it too.
MUSL = x86_64-unknown-linux-musl
static: ## build rocmrpm and rocm-inspect without shared libraries, for any Linux on x86_64
	@bash tools/setup.sh static
	@rustc --print target-libdir --target $(MUSL) | xargs test -d || rustup target add $(MUSL)
	CC_x86_64_unknown_linux_musl=musl-gcc LZMA_API_STATIC=1 \
	    cargo build --release --locked --target $(MUSL) -p rocmrpm -p rocm-inspect --bins

dist: static ## pack the static programs as a release, in target/dist
	@bash tools/dist.sh

# Where cargo installs programs, unless PREFIX names another folder. man finds the pages beside a
# folder of the PATH by itself.
PREFIX ?= $(or $(CARGO_INSTALL_ROOT),$(CARGO_HOME),$(HOME)/.cargo)

install: ## build rocmrpm; install it, its man pages, and completions below PREFIX
	@bash tools/setup.sh build
	cargo install --path . --locked --root '$(PREFIX)'
	@$(MAKE) --no-print-directory install-pages ROCMRPM='$(PREFIX)/bin/rocmrpm'

# Installs only man pages and completions, for packages: ROCMRPM is the built program, and DESTDIR
# the root of the package.
SHARE = $(DESTDIR)$(PREFIX)/share
install-pages:
	'$(ROCMRPM)' man '$(SHARE)/man/man1'
	mkdir -p '$(SHARE)/bash-completion/completions' '$(SHARE)/zsh/site-functions' '$(SHARE)/fish/vendor_completions.d'
	'$(ROCMRPM)' completions bash > '$(SHARE)/bash-completion/completions/rocmrpm'
	'$(ROCMRPM)' completions zsh > '$(SHARE)/zsh/site-functions/_rocmrpm'
	'$(ROCMRPM)' completions fish > '$(SHARE)/fish/vendor_completions.d/rocmrpm.fish'

clean: ## remove build results, but not the caches outside this folder
	rm -rf target build examples/*/build
