#!/bin/bash
# Check the server for systems that it cannot be built for here:
#
#   scripts/desktops.sh TARGET…
#
# One dependency has C and assembly in it, and no compiler for those systems is at hand. A check links nothing, so
# that empty objects do.
set -euo pipefail

[ $# -gt 0 ] || { printf 'usage: scripts/desktops.sh TARGET…\n' >&2; exit 1; }

stand_ins=$(mktemp -d)
trap 'rm -rf "$stand_ins"' EXIT

cat >"$stand_ins/cc" <<'CC'
#!/bin/sh
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then : >"$2"; fi
    shift
done
CC
cat >"$stand_ins/ar" <<'AR'
#!/bin/sh
for argument; do
    case $argument in *.a) : >"$argument" ;; esac
done
AR
chmod +x "$stand_ins/cc" "$stand_ins/ar"

for target in "$@"; do
    name=${target//-/_}
    env "CC_$name=$stand_ins/cc" "AR_$name=$stand_ins/ar" "${CARGO:-cargo}" check --target "$target"
done
