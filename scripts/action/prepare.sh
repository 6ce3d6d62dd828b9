#!/usr/bin/env bash
# First step of the action: a binary, and the agent image where it is wanted.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

fail() {
  echo "::error title=herd-runner::$*"
  exit 2
}

binary=$HERD_BINARY
if [ -n "$binary" ]; then
  case $binary in /*) ;; *) binary=$GITHUB_WORKSPACE/$binary ;; esac
  [ -x "$binary" ] || fail "the input binary names $HERD_BINARY, which is no executable file"
else
  command -v go >/dev/null || fail "Go is needed to build herd-runner; add actions/setup-go before this step, or give the input binary"
  binary=$RUNNER_TEMP/herd-runner/herd-runner
  "$top/scripts/build.sh" "$binary" || fail "herd-runner could not be built"
fi

case $HERD_AGENT_IMAGE in
  true) "$top/scripts/agent-image.sh" || fail "the agent image could not be built; its log is above" ;;
  false) ;;
  *) fail "the input agent-image is '$HERD_AGENT_IMAGE'; expected 'true' or 'false'" ;;
esac

echo "binary=$binary" >>"$GITHUB_OUTPUT"
