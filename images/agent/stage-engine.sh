#!/bin/sh
# Puts an engine's pinned program under ROOT, checked by checksum.
# usage: stage-engine.sh claude|codex|gemini|opencode ROOT [amd64|arm64]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.env"
engine=$1 root=$2 arch=${3:-$(dpkg --print-architecture)}

die() {
  echo "stage-engine: $*" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch PACKAGE@VERSION SHA512: unpacks it to $work/package. The packages of one
# platform are asked for by name: the wrapper packages fall back to an older
# release where they find an older node.
fetch() {
  [ -n "$2" ] || die "no checksum of $1 ($engine, $arch) stands in versions.env"
  rm -rf "$work"/*
  (cd "$work" && npm pack --silent "$1" >/dev/null)
  mv "$work"/*.tgz "$work/package.tgz"
  echo "$2  $work/package.tgz" | sha512sum --check --status ||
    die "the package $1 does not have the checksum in versions.env"
  tar -xzf "$work/package.tgz" -C "$work" --no-same-owner
}

# put FILE...: programs of the fetched package, to the image's PATH.
put() {
  for file; do install -m 0755 "$work/package/$file" "$root/usr/local/bin/"; done
}

case $arch in
  amd64) npm=x64 triple=x86_64-unknown-linux-musl ;;
  arm64) npm=arm64 triple=aarch64-unknown-linux-musl ;;
  *) die "nothing is pinned for $arch; expected amd64 or arm64" ;;
esac
# sum NAME: the checksum for this architecture.
sum() { eval "echo \"\${$1_SHA512_$(echo "$arch" | tr a-z A-Z)}\""; }

mkdir -p "$root/usr/local/bin"
case $engine in
  claude)
    fetch "@anthropic-ai/claude-code-linux-$npm@$CLAUDE_VERSION" "$(sum CLAUDE)"
    put claude
    ;;
  codex)
    fetch "@openai/codex@$CODEX_VERSION-linux-$npm" "$(sum CODEX)"
    put "vendor/$triple/bin/codex" "vendor/$triple/bin/codex-code-mode-host"
    ;;
  gemini)
    fetch "node-linux-$npm@$NODE_VERSION" "$(sum NODE)"
    put bin/node
    fetch "@google/gemini-cli@$GEMINI_VERSION" "$GEMINI_SHA512"
    mkdir -p "$root/usr/local/lib"
    mv "$work/package" "$root/usr/local/lib/gemini-cli"
    chmod -R go+rX "$root/usr/local/lib/gemini-cli"
    chmod +x "$root/usr/local/lib/gemini-cli/bundle/gemini.js"
    ln -s ../lib/gemini-cli/bundle/gemini.js "$root/usr/local/bin/gemini"
    ;;
  opencode)
    case $arch in
      amd64) fetch "opencode-linux-x64-baseline@$OPENCODE_VERSION" "$(sum OPENCODE)" ;;
      *) fetch "opencode-linux-$npm@$OPENCODE_VERSION" "$(sum OPENCODE)" ;;
    esac
    put bin/opencode
    ;;
  *) die "unknown engine $engine; expected claude, codex, gemini or opencode" ;;
esac
