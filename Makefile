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
# Black-box checks, where the project is developed beside them.
ACCEPT ?= ../shared/accept/run

.DEFAULT_GOAL := help
.PHONY: help demo demo-here drill drill-here test test-here test-gvisor test-gvisor-here test-all test-all-here lint desktops suite images accept bench bench-here docs toolchain

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

test-gvisor: ## Escapes and the way out of sandboxes once more, under gVisor, which is installed and registered where it is missing
	@$(ENGINE) --for-tests $(MAKE) --no-print-directory test-gvisor-here

test-gvisor-here: images
	scripts/gvisor.sh
	BELLJAR_TEST_RUNTIME=runsc $(CARGO) test --test egress --test escape

test-all: ## The same, the documentation, the dependencies' rules and the black-box checks
	@$(ENGINE) --for-tests $(MAKE) --no-print-directory test-all-here

test-all-here: test-here test-gvisor-here docs
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check; \
	 else echo 'cargo-deny is not installed: deny.toml was not checked'; fi
	@if [ -x $(ACCEPT) ]; then $(MAKE) --no-print-directory accept; fi

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
