#!/usr/bin/env bash
# Runs examples/workflows/demo.yml on a fresh copy of examples/demo-repo, with
# the models' answers replayed, and shows what the agents did.
#
#   DEMO_DIR=DIR    the copy, made anew; .cache/demo without it
#   further arguments go to `herd-runner run`
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
top=$(dirname "$here")
herd=$top/bin/herd-runner
dir=${DEMO_DIR:-$top/.cache/demo}

have git || apt_install git
[ -x "$herd" ] || die "$herd is missing; run: make build"
"$here/demo-repo.sh" "$dir"
cd "$dir"

say "the tests of $dir fail before:"
{ go test ./... 2>&1 || true; } | grep -E '^ *--- FAIL' >&2 || die "the demo's repository passes its tests before the agents have worked on it"

"$herd" run -C "$dir" "$top/examples/workflows/demo.yml" --replay "$top/examples/cassettes/demo" "$@"

say
say "what the agents changed:"
git_here() { git -c "safe.directory=$dir" --no-pager "$@"; }
git_here diff --stat
git_here diff -U0 | grep '^[-+]'
say "and the tests after:"
go test -count=1 ./...
