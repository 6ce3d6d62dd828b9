#!/usr/bin/env bash
# Builds dist/herd-runner-OS-ARCH for each OS/ARCH given; for all of them where
# none is. Each carries the Linux executables, as guests of boxes on engines of
# another kind (internal/guests).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
cd "$here/.."

# build OS/ARCH FILE [FLAGS…]
build() {
  local target=$1 out=$2
  shift 2
  GOOS=${target%/*} GOARCH=${target#*/} "$here/build.sh" "$out" -ldflags='-s -w' "$@"
}

guests=internal/guests/embedded
mkdir -p "$guests"
for arch in amd64 arm64; do
  build "linux/$arch" "$guests/linux-$arch"
  gzip -9nf "$guests/linux-$arch"
done

go test -tags guests ./internal/guests >/dev/null || die "the Linux executables are not what releases must carry; see: go test -tags guests ./internal/guests"

[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
for target; do
  case $target in
    */*) ;;
    *) die "$target is no target; expected OS/ARCH like linux/arm64" ;;
  esac
  out=dist/herd-runner-${target%/*}-${target#*/}
  build "$target" "$out" -tags=guests
  say "built $out"
done
