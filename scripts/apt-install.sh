#!/usr/bin/env bash
# Installs Debian packages, or says how to.
# usage: apt-install.sh PACKAGE...
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
apt_install "$@"
