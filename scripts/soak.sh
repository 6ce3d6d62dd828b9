#!/usr/bin/env bash
# What fails only now and then: 200 boxes in runs whose boxes, runners and engine
# are killed at random, after which nothing may be left and no record be lost; then
# the whole suite several times over in another order each time, and the demo as
# often. Ends at the first failure. The engine that is killed is the test's own,
# beside the one that this machine has.
#
#   SOAK_BOXES=200  SOAK_ROUNDS=5 (0: only the boxes)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
cd "$here/.."

say "soak: ${SOAK_BOXES:-200} boxes with random kills of boxes, runners and engine"
go test -count=1 -run '^TestInfoAndHasImage$' ./sandbox/docker >/dev/null # makes the small image
go test -tags soak -count=1 -timeout 40m -run '^TestSoak' -v ./e2e

rounds=${SOAK_ROUNDS:-5}
for ((round = 1; round <= rounds; round++)); do
  say "soak: round $round of $rounds"
  HERD_TEST_FLAGS="-count=1 -shuffle=on" "$here/test.sh"
  "$here/demo.sh" >/dev/null
  left=$(docker ps -a --filter label=herd-runner --format '{{.ID}} {{.Names}}')
  [ -z "$left" ] || die "round $round left containers:"$'\n'"$left"
done
say "soak: nothing failed and nothing was left"
