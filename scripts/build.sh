#!/usr/bin/env bash
# Builds herd-runner, for GOOS and GOARCH as the go command takes them:
#   scripts/build.sh OUT [FLAG…]     flags of go build
# It carries what runs inside of Linux boxes as a program of its own, cmd/herd-guest,
# and that the SDK agent, cmd/herd-agent.
#
#   GUESTS="amd64 arm64"   boxes of which architectures; for Linux also its own
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
[ $# -gt 0 ] || die "expected a file name: scripts/build.sh bin/herd-runner"
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
shift
cd "$here/.."

export CGO_ENABLED=0
guests=${GUESTS-}
if [ "$(go env GOOS)" = linux ]; then
  own=$(go env GOARCH)
  case " $guests " in *" $own "*) ;; *) guests="$guests $own" ;; esac
fi
if [ -z "$guests" ]; then
  exec go build -trimpath "$@" -o "$out" ./cmd/herd-runner
fi

agents=cmd/herd-guest/embedded
programs=internal/guests/embedded
mkdir -p "$agents" "$programs"
if have flock; then # one build at a time: they lay the programs in one place
  exec 9>"$programs/lock"
  flock -w 600 9 || die "another build has not ended after 10 minutes (it holds $programs/lock)"
fi
for old in "$programs"/linux-*; do
  arch=${old##*/linux-}
  case " $guests " in *" ${arch%.id} "*) ;; *) rm -f "$old" ;; esac
done
for arch in $guests; do
  GOOS=linux GOARCH=$arch go build -trimpath -ldflags='-s -w' -o "$agents/herd-agent" ./cmd/herd-agent
  GOOS=linux GOARCH=$arch go build -trimpath -ldflags='-s -w' -tags=carryagent -o "$programs/linux-$arch" ./cmd/herd-guest
  go tool buildid "$programs/linux-$arch" >"$programs/linux-$arch.id"
done

tags=guests
flags=()
for flag; do
  case $flag in
    -tags=*) tags+=,${flag#-tags=} ;;
    *) flags+=("$flag") ;;
  esac
done
go build -trimpath ${flags[@]+"${flags[@]}"} -tags="$tags" -o "$out" ./cmd/herd-runner
