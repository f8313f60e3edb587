#!/bin/bash
# The compiler for `scripts/fuzz.sh`: cargo calls it with the compiler and its arguments. What is fuzzed gets the counters
# that libFuzzer reads, by flags that every compiler takes, and knows that it is fuzzed; dependencies stay as they are, which
# is quicker to build and to run. The guest, which the build script of belljar builds for its own target, is left alone.
set -euo pipefail

instrumented=(
    --cfg fuzzing
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    # With more units than one the linker drops counters that belong together.
    -Ccodegen-units=1
)
known=(--check-cfg 'cfg(fuzzing)')

case " $* " in
*' --target '*) ;;
*' --crate-name belljar '* | *' --crate-name belljar_wire '* | *' --crate-name belljar_fuzz '* | *' --crate-name target '*)
    exec "$@" "${known[@]}" "${instrumented[@]}"
    ;;
esac
exec "$@"
