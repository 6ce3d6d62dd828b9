#!/usr/bin/env bash
# Builds dist/herd-runner-OS-ARCH for each OS/ARCH given; for all of them where
# none is. Each carries what runs in boxes for both architectures of Linux, for
# engines of another kind than this machine (internal/guests).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
cd "$here/.."

[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
for target; do
  case $target in
    */*) ;;
    *) die "$target is no target; expected OS/ARCH like linux/arm64" ;;
  esac
  out=dist/herd-runner-${target%/*}-${target#*/}
  GUESTS="amd64 arm64" GOOS=${target%/*} GOARCH=${target#*/} "$here/build.sh" "$out" -ldflags='-s -w'
  say "built $out"
done

go test -tags guests ./internal/guests >/dev/null || die "what runs in boxes is not what releases must carry; see: go test -tags guests ./internal/guests"
