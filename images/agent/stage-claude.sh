#!/bin/sh
# Puts the pinned Claude Code binary for ARCH (amd64 or arm64) under ROOT.
# usage: stage-claude.sh ROOT ARCH
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.env"
root=$1 arch=$2

case $arch in
  amd64) npm_arch=x64 sum=$CLAUDE_SHA512_AMD64 ;;
  arm64) npm_arch=arm64 sum=$CLAUDE_SHA512_ARM64 ;;
  *) echo "stage-claude: no Claude Code binary is pinned for $arch; expected amd64 or arm64" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The platform package is asked for by name: the wrapper package would fall
# back to an older release where it finds an older node.
(cd "$work" && npm pack --silent "@anthropic-ai/claude-code-linux-$npm_arch@$CLAUDE_VERSION" >/dev/null)
mv "$work"/*.tgz "$work/claude.tgz"
echo "$sum  $work/claude.tgz" | sha512sum --check --status || {
  echo "stage-claude: the package of Claude Code $CLAUDE_VERSION ($arch) does not have the checksum in versions.env" >&2
  exit 1
}
tar -xzf "$work/claude.tgz" -C "$work" package/claude
mkdir -p "$root/usr/local/bin"
install -m 0755 "$work/package/claude" "$root/usr/local/bin/claude"
