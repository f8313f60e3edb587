#!/bin/bash
# Make sure that a Docker engine answers, then run a command that needs one:
#
#   scripts/engine.sh [--for-tests] COMMAND [ARGUMENT…]
#
# Where none answers, it is installed and started on Debian and Ubuntu, as root or with sudo, and every such
# step is said before it is taken; elsewhere it says what to install. `--for-tests` also brings what only the
# tests need. Nothing is done where everything is there, so that it costs nothing the second time.
set -euo pipefail

START_SECONDS=60

say() { printf 'engine: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

for_tests=no
if [ "${1:-}" = --for-tests ]; then
    for_tests=yes
    shift
fi
[ $# -gt 0 ] || die "usage: scripts/engine.sh [--for-tests] COMMAND [ARGUMENT…]"

# Nothing, `sudo`, or `none` where this user cannot become root.
if [ "$(id -u)" = 0 ]; then
    root=
elif command -v sudo >/dev/null; then
    root=sudo
else
    root=none
fi
as_root() {
    say "as root: $*"
    $root "$@"
}
can_install() { command -v apt-get >/dev/null && [ "$root" != none ]; }

answers() { timeout 20 docker version >/dev/null 2>&1; }

# install PACKAGE… [-- PACKAGE…]: after the `--` those that not every release has.
install() {
    local packages=() optional=no package
    as_root apt-get update -q
    for package in "$@"; do
        if [ "$package" = -- ]; then
            optional=yes
        elif [ "$optional" = no ] || [[ "$(apt-cache policy "$package")" == *"Candidate: "[^\(]* ]]; then
            packages+=("$package")
        fi
    done
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q --yes --no-install-recommends "${packages[@]}"
}

# A daemon that was killed leaves its process id behind. Where another process has that id by now, a new
# daemon believes that the old one lives.
forget_dead() {
    local file=$1 name=$2 pid
    pid=$($root cat "$file" 2>/dev/null) || return 0
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$name" ]; then
        as_root rm -f "$file"
    fi
}

start() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl start docker
    else
        if ! grep -q ' /sys/fs/cgroup' /proc/mounts && command -v cgroupfs-mount >/dev/null; then
            as_root cgroupfs-mount
        fi
        forget_dead /var/run/docker.pid dockerd
        forget_dead /var/run/docker/containerd/containerd.pid containerd
        as_root sh -c 'setsid dockerd </dev/null >>/var/log/dockerd.log 2>&1 &'
    fi
    local waited
    for waited in $(seq "$START_SECONDS"); do
        if [ -S /var/run/docker.sock ] && timeout 20 $root docker version >/dev/null 2>&1; then
            say "the Docker engine answers after $waited s"
            return
        fi
        sleep 1
    done
    $root tail -n 20 /var/log/dockerd.log >&2 || true
    die "the Docker engine does not answer after $START_SECONDS s"
}

ensure_engine() {
    if answers; then return; fi
    if [ -n "${DOCKER_HOST:-}" ]; then
        die "no Docker engine answers at DOCKER_HOST=$DOCKER_HOST: start it, or unset the variable"
    fi
    if [ "$(uname -s)" != Linux ]; then
        die "no Docker engine answers: install and start Docker Desktop or Colima, then run this again"
    fi
    if ! command -v dockerd >/dev/null && ! [ -x /usr/sbin/dockerd ] || ! command -v docker >/dev/null; then
        can_install || die "no Docker engine answers, and this user cannot install one: install Docker (Debian and Ubuntu: \`apt-get install docker.io\`) and start it, then run this again"
        say "no Docker engine answers: installing Debian's (docker.io)"
        install ca-certificates docker.io iptables -- docker-cli cgroupfs-mount
    fi
    if answers; then return; fi
    if [ "$root" = none ]; then
        die "no Docker engine answers: start it (\`systemctl start docker\`), and let this user reach it (\`usermod -aG docker $(id -un)\`), then run this again"
    fi
    if ! $root docker version >/dev/null 2>&1; then
        say "no Docker engine answers: starting it"
        start
    fi
}

# The base image comes from a registry where one is reached, else it is made with mmdebstrap.
ensure_base_tool() {
    if command -v mmdebstrap >/dev/null || docker_run image inspect debian:trixie-slim >/dev/null 2>&1; then return; fi
    if can_install; then
        install mmdebstrap debian-archive-keyring
    fi
}

# The guest for the other processor is run once; pip and npm are asked where their registries are.
ensure_test_tools() {
    local missing=()
    command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
    command -v pip >/dev/null || missing+=(python3-pip)
    command -v npm >/dev/null || missing+=(npm)
    [ ${#missing[@]} -gt 0 ] || return 0
    can_install || die "the tests need \`qemu-aarch64\`, \`pip\` and \`npm\` (Debian and Ubuntu: \`apt-get install ${missing[*]}\`)"
    install "${missing[@]}"
}

# Runs docker with the rights that `exec_with_docker` gives.
docker_run() {
    if [ "$through_group" = yes ]; then
        sg docker -c "docker $(printf '%q ' "$@")"
    else
        docker "$@"
    fi
}

ensure_engine
through_group=no
if ! answers; then
    # The engine runs, but this user may not reach its socket.
    say "the group \`docker\` reaches the engine; whoever is in it can become root on this machine"
    id -nG "$(id -un)" | grep -qw docker || as_root usermod -aG docker "$(id -un)"
    through_group=yes
    docker_run version >/dev/null || die "the Docker engine runs, but user $(id -un) cannot reach it"
fi
ensure_base_tool
if [ "$for_tests" = yes ]; then ensure_test_tools; fi

if [ "$through_group" = yes ]; then
    exec sg docker -c "$(printf '%q ' "$@")"
fi
exec "$@"
