#!/usr/bin/env bash
# Builds the image herd-runner/agent, a local tag that is never pulled. Does
# nothing where it is up to date.
#
#   HERD_EXTRA_CA=FILE         PEM certificates the image is to trust as well
#   HERD_IMAGE_FROM=hub|debian which way to build; without it, the hub where it
#                              can be reached, else Debian packages
#   HERD_DEBIAN_MIRROR=URL     where the packages come from
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$here")
. "$here/lib.sh"
. "$top/images/agent/versions.env"

image=herd-runner/agent
label=io.herd-runner.agent-image.inputs
cache=$top/.cache/agent-image
log=$cache/build.log

main() {
  [ -z "${HERD_EXTRA_CA:-}" ] || [ -r "$HERD_EXTRA_CA" ] || die "HERD_EXTRA_CA: cannot read $HERD_EXTRA_CA"
  arch=$(docker version --format '{{.Server.Arch}}') || die "no Docker engine answers; run scripts/engine.sh"
  inputs=$(hash_of Dockerfile versions.env stage-claude.sh stage-go.sh provision.sh "$here/agent-image.sh")
  built=$image:$inputs

  if [ "$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$image:latest" 2>/dev/null)" = "$inputs" ]; then
    say "$built is up to date"
    return
  fi
  mkdir -p "$cache"
  if have flock; then
    exec 9>"$cache/lock"
    flock --timeout 900 9 || die "another build of the image has been going on for 15 minutes"
  fi
  : >"$log"
  local from=${HERD_IMAGE_FROM:-}
  if [ -z "$from" ]; then
    if hub_answers; then from=hub; else from=debian; fi
  fi
  case $from in
    hub | debian) ;;
    *) die "HERD_IMAGE_FROM is $from; expected hub or debian" ;;
  esac
  say "building $built from the $from (log: $log)"
  "from_$from"
  verify
  docker tag "$built" "$image:latest"
  remove_older
  say "built $built, $(($(docker image inspect --format '{{.Size}}' "$built") / 1000000)) MB in $SECONDS s"
}

# hash_of FILE...: of files under images/agent, the extra CA and the architecture.
hash_of() {
  (cd "$top/images/agent" && cat "$@" ${HERD_EXTRA_CA:+"$HERD_EXTRA_CA"} && echo "$arch") | sha256 | cut -c1-16
}

sha256() { if have sha256sum; then sha256sum; else shasum -a 256; fi; }

quietly() {
  "$@" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "$1 failed; the whole log is $log"
  }
}

hub_answers() {
  timeout 15 docker manifest inspect "debian:$DEBIAN_SUITE-slim" >/dev/null 2>&1
}

from_hub() {
  local context=$cache/context
  rm -rf "$context"
  cp -R "$top/images/agent" "$context"
  if [ -n "${HERD_EXTRA_CA:-}" ]; then cp "$HERD_EXTRA_CA" "$context/extra-ca/herd-extra-ca.crt"; fi
  quietly docker build --tag "$built" --label "$label=$inputs" --build-arg "BASE=debian:$DEBIAN_SUITE-slim" "$context"
}

from_debian() {
  [ "$(uname -s)" = Linux ] || die "no image hub can be reached, and the base can be made from Debian packages on Linux only"
  [ "$arch" = "$(host_arch)" ] || die "the engine is $arch, this machine $(host_arch): the image can be built from a hub only"
  local missing=()
  have mmdebstrap || missing+=(mmdebstrap)
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
  have npm || missing+=(npm)
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"

  # The parts do not need one another: fetch them at the same time.
  local root=$cache/root base
  base=$cache/base-$(hash_of versions.env provision.sh "$here/agent-image.sh").tar
  rm -rf "$root"
  mkdir -p "$root"
  "$top/images/agent/stage-claude.sh" "$root" "$arch" >>"$log" 2>&1 &
  local claude=$!
  "$top/images/agent/stage-go.sh" "$root" >>"$log" 2>&1 &
  local go=$!
  [ -e "$base" ] || bootstrap "$base"
  quietly wait $claude
  quietly wait $go

  local changes=() line
  while IFS= read -r line; do changes+=(--change "$line"); done < <(sed -n '/^# Image configuration/,$p' "$top/images/agent/Dockerfile" | grep -v '^#')
  local tar=$cache/image.tar
  cp "$base" "$tar"
  # Not `usr`: an engine refuses an archive that names a directory twice.
  quietly tar -rf "$tar" -C "$root" --owner=0 --group=0 --numeric-owner usr/local/bin/claude usr/local/go
  quietly docker import "${changes[@]}" --change "LABEL $label=$inputs" "$tar" "$built"
  rm -rf "$root" "$tar"
}

bootstrap() {
  local options=() proxy dir=/usr/local/share/ca-certificates
  # shellcheck disable=SC2016 # $1 is the root directory that mmdebstrap gives to its hooks
  options+=(--customize-hook='mkdir -p "$1/build"' --customize-hook="copy-in $top/images/agent/provision.sh /build")
  if [ -n "${HERD_EXTRA_CA:-}" ]; then
    options+=(--customize-hook="upload $HERD_EXTRA_CA $dir/herd-extra-ca.crt")
  fi
  # shellcheck disable=SC2016
  options+=(--customize-hook='chroot "$1" /build/provision.sh' --customize-hook='rm -r "$1/build"')
  if have apt-config; then
    proxy=$(apt-config dump Acquire::http::Proxy)
    [ -z "$proxy" ] || options+=(--aptopt="$proxy")
  fi
  rm -f "$cache"/base-*.tar
  quietly mmdebstrap --quiet --variant=minbase --include="$PACKAGES" \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "${options[@]}" "$DEBIAN_SUITE" "$1.part.tar" ${HERD_DEBIAN_MIRROR:+"$HERD_DEBIAN_MIRROR"}
  mv "$1.part.tar" "$1"
}

# remove_older untags images of earlier inputs; the engine keeps one in use.
remove_older() {
  local tag
  while IFS= read -r tag; do
    case $tag in latest | "$inputs") ;; *) docker rmi "$image:$tag" >>"$log" 2>&1 || true ;; esac
  done < <(docker image ls --format '{{.Tag}}' "$image")
}

host_arch() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) uname -m ;;
  esac
}

# verify runs the image as a box would be run and asks each tool its version.
verify() {
  local got
  got=$(timeout 120 docker run --rm --network none --read-only --user 1000:1000 --cap-drop ALL \
    --security-opt no-new-privileges --tmpfs /tmp --env HOME=/tmp "$built" \
    sh -c 'claude --version && go version && git --version && rg --version' 2>&1) ||
    die "the new image does not work in a sealed box:"$'\n'"$got"
  case $got in
    *"$CLAUDE_VERSION (Claude Code)"*"go$GO_VERSION "*) ;;
    *) die "the new image has other versions than images/agent/versions.env says:"$'\n'"$got" ;;
  esac
}

main
