# Two commands on a fresh machine with Rust: `make demo` and `make test`. Both can be run again, and are fast then.
# What they lack (a Docker engine, a few Debian packages, Rust targets) they get first, saying so.

SHELL := /bin/bash
CARGO ?= cargo
ENGINE := scripts/engine.sh
# Where desktop agents run: the server must build there.
DESKTOPS := aarch64-apple-darwin x86_64-pc-windows-gnu
# The guest is built for both, whatever machine this is.
GUESTS := x86_64-unknown-linux-musl aarch64-unknown-linux-musl
# Where a release build lies.
BUILT = $${CARGO_TARGET_DIR:-$(CURDIR)/target}/release
# What `make bench` runs; nothing: every row.
BENCH ?=
# What `make fuzz` runs; nothing: every target.
FUZZ ?=
# How often `make crash` kills the server.
CRASH_KILLS ?= 200
# How long `make soak` takes, in minutes; with UPDATE_SECURITY=1 its table goes into SECURITY.md.
SOAK_MINUTES ?= 20
# Black-box checks, where the project is developed beside them.
ACCEPT ?= ../shared/accept/run

.DEFAULT_GOAL := help
.PHONY: help demo demo-here drill drill-here test test-here test-gvisor test-gvisor-here test-all test-all-here crash crash-here faults faults-here soak soak-here lint desktops suite images accept bench bench-here fuzz docs toolchain

help: ## Lists the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## Everything a fresh machine needs, then a conversation with the real server
	@$(ENGINE) $(MAKE) --no-print-directory demo-here

demo-here: toolchain
	$(CARGO) build --release --bins --example demo
	$(BUILT)/belljar images build
	$(BUILT)/examples/demo

drill: ## A model obeys an order that stands in a table, and nothing gets out
	@$(ENGINE) $(MAKE) --no-print-directory drill-here

drill-here: toolchain
	$(CARGO) build --release --bins --example exfiltration
	$(BUILT)/belljar images build
	$(BUILT)/examples/exfiltration

test: ## The whole test suite, with lints and the builds for desktops
	@$(ENGINE) --for-tests $(MAKE) --no-print-directory test-here

test-here: lint desktops images suite
	@echo 'NOT COVERED HERE: gVisor. `make test-gvisor` runs tests/escape and tests/egress under it.'

test-gvisor: ## Once more under gVisor, which is installed where it is missing: the way out, escapes, what protects PID 1
	@$(ENGINE) --for-tests $(MAKE) --no-print-directory test-gvisor-here

test-gvisor-here: images
	scripts/gvisor.sh
	BELLJAR_TEST_RUNTIME=runsc $(CARGO) test --test egress --test escape
	BELLJAR_TEST_RUNTIME=runsc $(CARGO) test --test docker -- init:: warm:: --skip with_the --skip with_science

faults: ## Every fault at every step, and daemons and disks that are stopped, killed and filled; as root, some minutes
	@$(ENGINE) --for-tests $(MAKE) --no-print-directory faults-here

faults-here: images
	$(CARGO) test --test faults -- --include-ignored --test-threads 1 --nocapture
	$(CARGO) test --test clumsy -- --ignored --nocapture

test-all: ## The same, 200 kills, every fault, the documentation, the dependencies' rules and the black-box checks
	@$(ENGINE) --for-tests $(MAKE) --no-print-directory test-all-here

test-all-here: test-here test-gvisor-here crash-here faults-here docs
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check; \
	 else echo 'cargo-deny is not installed: deny.toml was not checked'; fi
	@if [ -x $(ACCEPT) ]; then $(MAKE) --no-print-directory accept; fi

crash: ## The server killed 200 times in the middle of things, and what is left each time; CRASH_KILLS=20 for fewer
	@$(ENGINE) --for-tests $(MAKE) --no-print-directory crash-here

crash-here: images
	BELLJAR_CRASH_KILLS=$(CRASH_KILLS) $(CARGO) test --test crash -- --nocapture

soak: ## Eight clients at a time for 20 minutes, and a server that is as it was before; SOAK_MINUTES=3 for fewer
	@$(ENGINE) $(MAKE) --no-print-directory soak-here

soak-here: toolchain
	$(CARGO) bench --bench soak --no-run
	$(BUILT)/belljar images build
	$(CARGO) bench --bench soak -- --minutes $(SOAK_MINUTES) $(if $(UPDATE_SECURITY),--write)

lint: toolchain ## Formatting and clippy, where a warning is an error
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

desktops: toolchain ## Checks the server for macOS and Windows
	@if command -v rustup >/dev/null; then rustup target add $(DESKTOPS); fi
	CARGO=$(CARGO) scripts/desktops.sh $(DESKTOPS)

images: toolchain ## Builds the images that are missing or out of date
	$(CARGO) run --quiet -- images build

suite: ## The tests alone
	@if $(CARGO) nextest --version >/dev/null 2>&1; then $(CARGO) nextest run --workspace; \
	 else $(CARGO) test --workspace; fi

bench: ## Every row of BENCHMARKS.md, on a release build; BENCH='fresh --rounds 100' for some of them
	@$(ENGINE) $(MAKE) --no-print-directory bench-here

bench-here: toolchain
	$(CARGO) bench --bench belljar --no-run
	$(BUILT)/belljar images build
	$(CARGO) bench --bench belljar -- $(BENCH)

fuzz: ## Each reader of bytes of others, 20 s from its corpus; FUZZ_SECONDS=180 FUZZ='host frame' for longer, for some
	@CARGO=$(CARGO) scripts/fuzz.sh $(FUZZ)

docs: ## The documentation, where a broken link is an error
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --quiet

accept: ## The black-box checks, on a release build
	$(CARGO) build --release
	BELLJAR_BIN=$(BUILT)/belljar \
	    $(ACCEPT) $$(cd $(dir $(ACCEPT)) && ls test_*.py | sed 's/\.py$$//')

toolchain:
	@if command -v rustup >/dev/null; then \
	    rustup target add $(GUESTS) 2>&1 | grep -v 'up to date' || true; \
	    rustup component add clippy rustfmt 2>&1 | grep -v 'up to date' || true; \
	 fi
