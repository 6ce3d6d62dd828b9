#!/usr/bin/env bash
# Builds bench/, fetches the tools to compare with, measures, prints tables.
# Arguments go to the program: bench/run.sh -only host
#
#   BENCH_PEERS="act task"   which tools to build with the go command; "" for none
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$here")
. "$top/scripts/lib.sh"
bin=$top/.cache/bench/bin

peer() {
  case $1 in
    act) echo github.com/nektos/act@v0.2.89 ;;
    task) echo github.com/go-task/task/v3/cmd/task@v3.53.0 ;;
    *) die "BENCH_PEERS: unknown tool $1; expected act or task" ;;
  esac
}

mkdir -p "$bin"
if ! have ninja make git && debian_like && [ "$(id -u)" -eq 0 ]; then apt_install ninja-build make git; fi
for name in ${BENCH_PEERS-act task}; do
  [ ! -x "$bin/$name" ] || continue
  module=$(peer "$name")
  say "building $module"
  (cd / && GOBIN=$bin GOFLAGS='' go install "$module" 2>"$bin/$name.log") ||
    say "$name could not be built and is left out: $(tail -n 1 "$bin/$name.log")"
done

cd "$top"
go build -o "$bin/bench" ./bench
"$bin/bench" -peers "$bin" "$@"
