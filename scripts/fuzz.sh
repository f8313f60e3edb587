#!/bin/bash
# Fuzz what reads bytes of others, from the corpora in `fuzz/corpus/`:
#
#   scripts/fuzz.sh [TARGET…]
#
# Without a name, every target. A stable compiler and one for C++ are all that it needs; the latter is installed on Debian
# and Ubuntu where it is missing. One input that breaks a target ends the run with an error, and is left in
# `fuzz/artifacts/<target>/`.
#
#   FUZZ_SECONDS=20   how long each target runs
#   FUZZ_JOBS=2       how many run at a time; the number of processors unless set
#   FUZZ_MERGE=yes    instead of fuzzing for the sake of it: keep what is new in `fuzz/corpus/`, as few files as reach as much
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-20}
jobs=${FUZZ_JOBS:-$(nproc)}
merge=${FUZZ_MERGE:-no}
# The longest input, in bytes: the rules are about what is short, and the bounds have tests of their own.
MAX_LENGTH=4096
# One input may take this many seconds on a busy machine, and this much memory in MiB.
INPUT_SECONDS=60
MEMORY_MIB=1024

say() { printf 'fuzz: %s\n' "$*"; }
die() {
    printf 'fuzz: %s\n' "$*" >&2
    exit 1
}

if ! command -v "${CXX:-c++}" >/dev/null; then
    command -v apt-get >/dev/null || die "install a compiler for C++, which builds libFuzzer"
    root=
    [ "$(id -u)" = 0 ] || root=sudo
    say "installing a compiler for C++"
    $root apt-get update -q
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -q --yes --no-install-recommends g++
fi

# Shared with the tests: dependencies and the guest are built once for both.
target_dir=${CARGO_TARGET_DIR:-$PWD/target}
began=$SECONDS
RUSTC_WRAPPER=$PWD/scripts/fuzz-rustc.sh \
    ${CARGO:-cargo} build --manifest-path fuzz/Cargo.toml --target-dir "$target_dir" --locked
say "built in $((SECONDS - began)) s"
program=$target_dir/debug/target

if [ $# -gt 0 ]; then targets=("$@"); else mapfile -t targets < <(ls fuzz/corpus); fi
logs=$(mktemp -d)
# What targets write of their own lies there too, since a fuzzer that ends cleans nothing up.
export TMPDIR=$logs
trap 'rm -rf "$logs"' EXIT

# One target: what is new goes to a folder that nobody keeps, unless it is to be merged.
fuzz() {
    local name=$1 corpus=fuzz/corpus/$1 found=$logs/$1.found status=0
    mkdir -p "$found" "fuzz/artifacts/$name"
    FUZZ_TARGET=$name "$program" "$found" "$corpus" -max_total_time="$seconds" -max_len="$MAX_LENGTH" \
        -timeout="$INPUT_SECONDS" -rss_limit_mb="$MEMORY_MIB" -print_final_stats=1 \
        -artifact_prefix="fuzz/artifacts/$name/" >"$logs/$name.log" 2>&1 || status=$?
    if [ "$status" = 0 ] && [ "$merge" = yes ]; then
        local kept=$logs/$name.kept
        mkdir "$kept"
        FUZZ_TARGET=$name "$program" -merge=1 -max_len="$MAX_LENGTH" "$kept" "$corpus" "$found" \
            >>"$logs/$name.log" 2>&1 || status=$?
        if [ "$status" = 0 ]; then
            rm -rf "$corpus"
            mv "$kept" "$corpus"
        fi
    fi
    rmdir "fuzz/artifacts/$name" 2>/dev/null || true
    echo "$status" >"$logs/$name.status"
}

for name in "${targets[@]}"; do
    [ -d "fuzz/corpus/$name" ] || die "there is no corpus fuzz/corpus/$name"
done
for name in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    fuzz "$name" &
done
wait

failed=()
printf '%-14s %12s %9s %9s %7s\n' target inputs coverage features corpus
for name in "${targets[@]}"; do
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$name.log" | head -n 1)
    last=$(grep -E ' cov: [0-9]+ ft: [0-9]+' "$logs/$name.log" | grep -v MERGE | tail -n 1)
    read -r coverage features < <(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\).*/\1 \2/p' <<<"$last") || true
    printf '%-14s %12s %9s %9s %7s\n' "$name" "${inputs:-?}" "${coverage:-?}" "${features:-?}" \
        "$(find "fuzz/corpus/$name" -type f | wc -l)"
    [ "$(cat "$logs/$name.status" 2>/dev/null)" = 0 ] || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
    for name in "${failed[@]}"; do
        say "--- $name"
        tail -n 40 "$logs/$name.log"
    done
    die "broken: ${failed[*]}; the inputs are in fuzz/artifacts/"
fi
say "nothing was found in $seconds s each"
