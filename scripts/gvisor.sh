#!/bin/bash
# Install gVisor's `runsc` and register it with the Docker daemon of this machine, for the benchmarks and probes under
# it:
#
#   scripts/gvisor.sh
#
# Debian only, as root or with sudo; every step is said before it is taken, and nothing is done where everything is
# there. The daemon is told to read its configuration again and is not restarted: running containers go on.
set -euo pipefail

CONFIG=/etc/docker/daemon.json
# Debian 12's own release of it is of 2022, and too old for what belljar needs; 13 has a newer one.
OLD_RELEASE=bookworm
SOURCE=/etc/apt/sources.list.d/belljar-backports.list
# `systrap` needs no KVM; sandboxes have no network anyway.
RUNTIME='{"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=systrap", "--network=none"]}'
REGISTERED_SECONDS=20

say() { printf 'gvisor: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

if [ "$(id -u)" = 0 ]; then
    root=
elif command -v sudo >/dev/null; then
    root=sudo
else
    die "this needs root: run it as root, or install sudo"
fi
as_root() {
    say "as root: $*"
    $root "$@"
}
get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q --yes --no-install-recommends "$@"
}

registered() {
    $root docker info --format '{{range $name, $_ := .Runtimes}}{{println $name}}{{end}}' | grep -qx runsc
}

install_runsc() {
    [ -x /usr/bin/runsc ] && return
    command -v apt-get >/dev/null || die "install runsc by hand (https://gvisor.dev/docs/user_guide/install/), then run this again"
    local release
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    if [ "$release" = "$OLD_RELEASE" ]; then
        as_root apt-get update -q
        # From where this machine has its other packages.
        local mirror
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' "Codename: $release" | head -n 1)
        [ -n "$mirror" ] || die "no source of $release's packages is known: add one of $release-backports, then run this again"
        say "adding $SOURCE"
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release-backports main" |
            $root tee "$SOURCE" >/dev/null
        as_root apt-get update -q
        get -t "$release-backports" runsc
    else
        as_root apt-get update -q
        get runsc
    fi
}

# Whatever else the daemon's configuration says stays as it is.
register() {
    command -v jq >/dev/null || get jq
    local new
    new=$({ $root cat "$CONFIG" 2>/dev/null || echo '{}'; } | jq --argjson runtime "$RUNTIME" '.runtimes.runsc = $runtime')
    [ -n "$new" ] || die "$CONFIG is not JSON"
    say "writing $CONFIG"
    $root mkdir -p "$(dirname "$CONFIG")"
    printf '%s\n' "$new" | $root tee "$CONFIG" >/dev/null
    if [ -d /run/systemd/system ]; then
        as_root systemctl reload docker
    else
        as_root kill -HUP "$($root cat /var/run/docker.pid)"
    fi
    local waited
    for waited in $(seq "$REGISTERED_SECONDS"); do
        if registered; then
            say "the daemon knows runsc after $waited s"
            return
        fi
        sleep 1
    done
    die "the daemon does not know runsc after $REGISTERED_SECONDS s: see its log"
}

install_runsc
if ! registered; then register; fi
say "$(/usr/bin/runsc --version | head -n 1) is there and registered"
