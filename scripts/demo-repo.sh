#!/usr/bin/env bash
# Makes DIR a fresh git clone-like copy of examples/demo-repo, one commit, no
# changes. usage: demo-repo.sh DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
dir=$1
marker=.git/herd-runner-demo

if [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ] && [ ! -e "$dir/$marker" ]; then
  die "$dir is not empty and no earlier copy of the demo's repository; choose another directory"
fi
rm -rf "$dir"
mkdir -p "$dir"
cp -R "$(dirname "$here")/examples/demo-repo/." "$dir"
cd "$dir"
git init -q -b main
# Fixed author and date: the same commit id, and so the same prompts, each time.
export GIT_AUTHOR_DATE='2025-01-01T00:00:00Z' GIT_COMMITTER_DATE='2025-01-01T00:00:00Z'
git add -A
git -c user.name=demo -c user.email=demo@herd-runner.invalid -c commit.gpgsign=false commit -q -m "freetime 0.2.0"
touch "$marker"
# Boxes run as the owner of the workspace and never as root.
if [ "$(id -u)" -eq 0 ]; then chown -R 1000:1000 .; fi
