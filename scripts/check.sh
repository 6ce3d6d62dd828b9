#!/usr/bin/env bash
# The checks that need no engine. Tools are pinned in tools/go.mod; the go
# command builds them once and keeps them. (depguard by itself builds in two
# seconds; golangci-lint around it takes minutes on two cores.)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
cd "$here/.."

tool() { go tool -modfile=tools/go.mod "$@"; }

unformatted=$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -e "$f" ] || echo "$f"; done | xargs -r gofmt -l)
[ -z "$unformatted" ] || die "gofmt wants to change:"$'\n'"$unformatted"
go vet ./...
scripts/build.sh bin/herd-runner
go vet -tags=carryagent,guests ./cmd/... ./internal/guests # what only this build has
GOOS=darwin GOARCH=arm64 go build ./... # the runner is for macOS as well
tool staticcheck ./...
tool depguard ./...
say "check: gofmt, go vet, the build for macOS, staticcheck and the import rules are content"
