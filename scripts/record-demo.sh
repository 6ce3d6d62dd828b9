#!/usr/bin/env bash
# Records examples/cassettes/demo anew: runs the demo's workflow against the
# project's scripted model server, which plays demo.scenario.yml.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
top=$(dirname "$here")
work=$(mktemp -d)
cleanup() {
  [ -z "${model:-}" ] || kill "$model" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

cd "$top"
make --no-print-directory build
go build -o "$work/fakemodel" ./e2e/fakemodel
"$work/fakemodel" --addr 127.0.0.1:0 --script examples/cassettes/demo.scenario.yml >"$work/url" 2>"$work/model.log" &
model=$!
for ((i = 0; i < 100; i++)); do
  [ -s "$work/url" ] && break
  kill -0 "$model" 2>/dev/null || die "the model server ended: $(cat "$work/model.log")"
  sleep 0.1
done
[ -s "$work/url" ] || die "the model server did not say its address in 10 s"

"$here/demo-repo.sh" "$work/repo"
chmod 0755 "$work"
rm -rf "$work/cassette"
ANTHROPIC_API_KEY=recording ANTHROPIC_BASE_URL=$(cat "$work/url") \
  bin/herd-runner run -C "$work/repo" "$top/examples/workflows/demo.yml" --record "$work/cassette"
rm -rf examples/cassettes/demo
cp -R "$work/cassette" examples/cassettes/demo
say "recorded examples/cassettes/demo; look at: git diff --stat -- examples/cassettes"
