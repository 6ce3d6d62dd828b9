#!/usr/bin/env bash
# Builds dist/herd-runner-OS-ARCH for each OS/ARCH given; for all of them where
# none is.
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
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build -trimpath -ldflags='-s -w' -o "$out" ./cmd/herd-runner
  say "built $out"
done
