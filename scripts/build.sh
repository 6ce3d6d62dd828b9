#!/usr/bin/env bash
# Builds herd-runner, for GOOS and GOARCH as the go command takes them:
#   scripts/build.sh OUT [FLAG…]     flags of go build
# For Linux it carries the SDK agent as a program of its own (cmd/herd-runner,
# agent_carried.go), elsewhere the agent is linked.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
[ $# -gt 0 ] || die "expected a file name: scripts/build.sh bin/herd-runner"
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
shift
cd "$here/.."

export CGO_ENABLED=0
if [ "$(go env GOOS)" != linux ]; then
  exec go build -trimpath "$@" -o "$out" ./cmd/herd-runner
fi

embedded=cmd/herd-runner/embedded
mkdir -p "$embedded"
if have flock; then # one build at a time: they lay the agent of their platform in one place
  exec 9>"$embedded/lock"
  flock -w 600 9 || die "another build has not ended after 10 minutes (it holds $embedded/lock)"
fi
go build -trimpath -ldflags='-s -w' -o "$embedded/herd-agent" ./cmd/herd-agent

tags=carryagent
flags=()
for flag; do
  case $flag in
    -tags=*) tags+=,${flag#-tags=} ;;
    *) flags+=("$flag") ;;
  esac
done
go build -trimpath ${flags[@]+"${flags[@]}"} -tags="$tags" -o "$out" ./cmd/herd-runner
