#!/bin/sh
# Install Debian packages, bring those that are there up to date, and leave nothing of apt behind:
# install.sh PACKAGE...
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -o Acquire::Retries=3 update
apt-get -o Acquire::Retries=3 upgrade --yes --no-install-recommends
apt-get -o Acquire::Retries=3 install --yes --no-install-recommends "$@"
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/apt /var/log/dpkg.log /var/log/alternatives.log
