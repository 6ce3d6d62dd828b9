#!/usr/bin/env bash
# The whole suite several times over in another order each time, and the demo as
# often: what fails only now and then shows here. Ends at the first failure, and
# when something is left on the engine.
#
#   SOAK_ROUNDS=5
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
cd "$here/.."

rounds=${SOAK_ROUNDS:-5}
for ((round = 1; round <= rounds; round++)); do
  say "soak: round $round of $rounds"
  HERD_TEST_FLAGS="-count=1 -shuffle=on" "$here/test.sh"
  "$here/demo.sh" >/dev/null
  left=$(docker ps -a --filter label=herd-runner --format '{{.ID}} {{.Names}}')
  [ -z "$left" ] || die "round $round left containers:"$'\n'"$left"
done
say "soak: $rounds rounds, nothing failed and nothing was left"
