#!/bin/sh
# What all images share, as their first layer, so that it is built and stored once: the small tools
# that scripts reach for, the sandbox users, and the two folders that a program may write to.
set -eu
here=$(dirname "$0")

# Manuals and translations are of no use to a program; the licences stay.
cat >/etc/dpkg/dpkg.cfg.d/belljar <<'CFG'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
CFG

sh "$here/install.sh" \
    bc bzip2 ca-certificates curl file gawk git jq less openssh-client patch procps ripgrep \
    sqlite3 tree tzdata unzip xz-utils zip zstd

# Every live sandbox has a uid of its own out of this range. git, ssh and getpass look the user up and
# give up on one without a name, so all of them have one.
seq 52000 54047 | while read -r uid; do
    echo "sandbox$uid:x:$uid:$uid::/workspace/.home:/bin/bash" >>/etc/passwd
    echo "sandbox$uid:x:$uid:" >>/etc/group
done

# git refuses to commit for an author without a name, and passwd has no full names.
cat >/etc/gitconfig <<'CFG'
[user]
	name = sandbox
	email = sandbox@localhost
[init]
	defaultBranch = main
CFG

# Under the sandbox both are tmpfs. A runtime that ignores the mode asked for uses the folder's own.
mkdir -p /workspace
chmod 1777 /workspace /tmp

# What is in here is copied to HOME when a sandbox starts.
mkdir -p /usr/share/belljar/skel
