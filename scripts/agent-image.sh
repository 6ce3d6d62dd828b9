#!/usr/bin/env bash
# Builds the agent image with Claude Code, or with the engines that are named
# (all, or some of claude codex gemini opencode). Does nothing where it is up to
# date. What images/agent/build.sh needs is installed where it can be.
#
#   HERD_EXTRA_CA=FILE         PEM certificates the image is to trust as well
#   HERD_IMAGE_FROM=hub|debian which way to build
#   HERD_DEBIAN_MIRROR=URL     where Debian's packages come from
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$here")

export HERD_IMAGE_CACHE=$top/.cache/agent-image HERD_IMAGE_PROVIDE=$here/apt-install.sh
engines=$(IFS=, && echo "${*:-claude}")
exec "$top/images/agent/build.sh" --engines "$engines" ${HERD_EXTRA_CA:+--ca "$HERD_EXTRA_CA"}
