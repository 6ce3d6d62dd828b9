#!/bin/sh
# Puts the pinned Go toolchain under ROOT, without what tests of Go itself need.
# usage: stage-go.sh ROOT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.env"
root=$1

# The go command fetches and verifies another version of itself where the one
# at hand is not the pinned one.
goroot=$(GOTOOLCHAIN=go$GO_VERSION go env GOROOT)
mkdir -p "$root/usr/local/go"
tar -C "$goroot" -cf - --exclude=testdata --exclude='*_test.go' \
  --exclude=./test --exclude=./api --exclude=./doc --exclude=./misc --exclude=./pkg/obj . |
  tar -C "$root/usr/local/go" --no-same-owner -xf -
chmod -R u+w,go+rX "$root/usr/local/go"

# Compiled packages of the standard library: a box begins with an empty build
# cache, and would compile them anew (9 s instead of 1 for a first `go test`).
# The same GODEBUG in the image makes the go command look for them.
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
cd "$root/usr/local/go/src"
env GODEBUG=installgoroot=all CGO_ENABLED=0 GOTOOLCHAIN=local GOENV=off GOFLAGS= GOCACHE="$cache" GOROOT="$root/usr/local/go" \
  "$root/usr/local/go/bin/go" install std
