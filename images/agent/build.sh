#!/usr/bin/env bash
# Builds the agent image with a choice of engines, a local tag that is never
# pulled. Does nothing where it is up to date. `herd-runner image build` carries
# this directory in its executable and runs this script.
#
#   --engines a,b    of claude, codex, gemini, opencode; all. Default: claude
#   --ca FILE        PEM certificates the image is to trust as well
#   --tag TAG        instead of herd-runner/agent:ENGINES
#
#   HERD_IMAGE_FROM=hub|debian   which way to build; without it, the hub where it
#                                can be reached, else Debian packages
#   HERD_DEBIAN_MIRROR=URL       where the packages come from
#   HERD_IMAGE_CACHE=DIR         for the log and what is being made
#   HERD_IMAGE_PROVIDE=PROGRAM   is given the Debian packages that are missing here
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/versions.env"

image=herd-runner/agent
known="claude codex gemini opencode"
labels=io.herd-runner.agent
cache=${HERD_IMAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/herd-runner/image}
log=$cache/build.log
ca=
tag=
asked=claude

say() { printf '%s\n' "$*" >&2; }

die() {
  say "image build: $*"
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

main() {
  while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die "$1 needs a value"
    case $1 in
      --engines) asked=$2 ;;
      --ca) ca=$2 ;;
      --tag) tag=$2 ;;
      *) die "unknown option $1" ;;
    esac
    shift 2
  done
  [ -z "$ca" ] || [ -r "$ca" ] || die "--ca: cannot read $ca"
  have docker || die "needs the docker command; on Debian: apt-get install docker.io"
  arch=$(docker version --format '{{.Server.Arch}}' 2>/dev/null) || die "no Docker engine answers; start it, or see: herd-runner doctor"
  choose_engines
  inputs=$(hash_of "$here"/Dockerfile "$here"/*.env "$here"/*.sh)

  if [ "$(label_of "$tag" inputs)" = "$inputs" ]; then
    also_tag
    say "$tag is up to date"
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
  say "building $tag from the $from (log: $log)"
  work=$cache/work
  rm -rf "$work"
  mkdir -p "$work"
  trap 'rm -rf "$work"' EXIT
  built=$image:building-$$
  "from_$from"
  verify
  local before
  before=$(docker image inspect --format '{{.Id}}' "$tag" 2>/dev/null || true)
  docker tag "$built" "$tag"
  also_tag
  docker rmi "$built" >>"$log" 2>&1
  # The engine keeps one that has another name or is in use.
  [ -z "$before" ] || docker rmi "$before" >>"$log" 2>&1 || true
  say "built $tag, $(($(docker image inspect --format '{{.Size}}' "$tag") / 1000000)) MB in $SECONDS s"
}

# choose_engines puts the engines that are asked for in order, each once.
choose_engines() {
  local engine
  [ "$asked" != all ] || asked=${known// /,}
  for engine in ${asked//,/ }; do
    case " $known " in
      *" $engine "*) ;;
      *) die "unknown engine $engine; expected some of ${known// /, }, or all" ;;
    esac
  done
  engines=
  for engine in $known; do
    case ",$asked," in *",$engine,"*) engines="$engines $engine" ;; esac
  done
  engines=${engines# }
  [ -n "$engines" ] || die "--engines names none; expected some of ${known// /, }"
  own_tag=
  if [ -z "$tag" ]; then
    tag=$image:${engines// /-}
    own_tag=yes
  fi
}

# also_tag gives the short names: latest has claude, all has every engine.
also_tag() {
  [ -n "$own_tag" ] || return 0
  case $engines in
    claude) docker tag "$tag" "$image:latest" ;;
    "$known") docker tag "$tag" "$image:all" ;;
  esac
}

label_of() { docker image inspect --format "{{index .Config.Labels \"$labels.$2\"}}" "$1" 2>/dev/null || true; }

# hash_of FILE...: of the files, the extra CA, the engines and the architecture.
hash_of() {
  { cat "$@" ${ca:+"$ca"} && echo "$arch ${engines:-}"; } | sha256 | cut -c1-16
}

sha256() { if have sha256sum; then sha256sum; else shasum -a 256; fi; }

quietly() {
  "$@" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "$1 failed; the whole log is $log"
  }
}

hub_answers() {
  bounded 15 docker manifest inspect "debian:$DEBIAN_SUITE-slim" >/dev/null 2>&1
}

# macOS has no timeout.
bounded() { if have timeout; then timeout "$@"; else shift && "$@"; fi; }

upper() { echo "$1" | tr '[:lower:]' '[:upper:]'; }

version_of() {
  local name
  name=$(upper "$1")_VERSION
  echo "${!name}"
}

# build ARGUMENT...: docker build with the labels that say what is in the image.
build() {
  local engine arguments=(--tag "$built" --label "$labels.inputs=$inputs" --label "$labels.engines=${engines// /,}")
  for engine in $engines; do
    arguments+=(--label "$labels.version.$engine=$(version_of "$engine")")
  done
  quietly docker build "${arguments[@]}" "$@"
}

from_hub() {
  local engine with=(--build-arg "BASE=debian:$DEBIAN_SUITE-slim")
  for engine in $engines; do with+=(--build-arg "WITH_$(upper "$engine")=1"); done
  cp -R "$here/." "$work/"
  if [ -n "$ca" ]; then cp "$ca" "$work/extra-ca/herd-extra-ca.crt"; fi
  build "${with[@]}" "$work"
}

from_debian() {
  [ "$(uname -s)" = Linux ] || die "no image hub can be reached, and the base can be made from Debian packages on Linux only"
  [ "$arch" = "$(host_arch)" ] || die "the engine is $arch, this machine $(host_arch): the image can be built from a hub only"
  local base engine waits=()
  base=$image-base:$(engines='' hash_of "$here"/{versions.env,provision.sh,stage-go.sh,build.sh})
  [ -z "$(docker image ls --quiet "$base")" ] || base_is_there=yes
  need

  # The parts do not need one another: fetch them at the same time.
  for engine in $engines; do
    mkdir -p "$work/$engine"
    sh "$here/stage-engine.sh" "$engine" "$work/$engine" "$arch" >>"$log" 2>&1 &
    waits+=($!)
  done
  [ -n "${base_is_there:-}" ] || make_base "$base"
  for engine in "${waits[@]}"; do quietly wait "$engine"; done

  {
    echo "FROM $base"
    # The same order always: images share the layers they have in common.
    for engine in $engines; do echo "COPY $engine/ /"; done
    sed -n '/^# Image configuration/,$p' "$here/Dockerfile"
  } >"$work/Dockerfile"
  build "$work"
}

# need sees to it that the programs are there, or says how to get them.
need() {
  local missing=()
  have npm || missing+=(npm)
  if [ -z "${base_is_there:-}" ]; then
    have go || die "no image hub can be reached; to make the image from Debian packages it needs go as well: https://go.dev/dl"
    have mmdebstrap || missing+=(mmdebstrap)
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    [ -n "${HERD_IMAGE_PROVIDE:-}" ] ||
      die "no image hub can be reached; to make the image from Debian packages it needs ${missing[*]}: sudo apt-get install --no-install-recommends ${missing[*]}"
    "$HERD_IMAGE_PROVIDE" "${missing[@]}"
  fi
  [ -n "${base_is_there:-}" ] || [ "$(id -u)" -eq 0 ] ||
    die "no image hub can be reached; to make the image from Debian packages mmdebstrap must run as root: run this with sudo, or give the engine access to a hub"
}

# make_base makes an image of Debian packages and Go, which all variants begin with.
make_base() {
  local root=$work/base tar=$work/base.tar old
  mkdir "$root"
  sh "$here/stage-go.sh" "$root" >>"$log" 2>&1 &
  local go=$!
  bootstrap "$tar"
  quietly wait $go
  quietly tar -rf "$tar" -C "$root" --owner=0 --group=0 --numeric-owner usr/local/go
  old=$(docker image ls --format '{{.Repository}}:{{.Tag}}' "$image-base")
  quietly docker import "$tar" "$1"
  rm -rf "$root" "$tar"
  # shellcheck disable=SC2086 # a list of names
  [ -z "$old" ] || docker rmi $old >>"$log" 2>&1 || true
}

bootstrap() {
  local options=() proxy dir=/usr/local/share/ca-certificates
  # shellcheck disable=SC2016 # $1 is the root directory that mmdebstrap gives to its hooks
  options+=(--customize-hook='mkdir -p "$1/build"' --customize-hook="copy-in $here/provision.sh /build")
  if [ -n "$ca" ]; then
    options+=(--customize-hook="upload $ca $dir/herd-extra-ca.crt")
  fi
  # shellcheck disable=SC2016
  options+=(--customize-hook='chroot "$1" sh /build/provision.sh' --customize-hook='rm -r "$1/build"')
  if have apt-config; then
    proxy=$(apt-config dump Acquire::http::Proxy)
    [ -z "$proxy" ] || options+=(--aptopt="$proxy")
  fi
  quietly mmdebstrap --quiet --variant=minbase --include="$PACKAGES" \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "${options[@]}" "$DEBIAN_SUITE" "$1" ${HERD_DEBIAN_MIRROR:+"$HERD_DEBIAN_MIRROR"}
}

host_arch() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) uname -m ;;
  esac
}

# verify runs the image as a box would be run and asks each program its version.
verify() {
  local got engine
  # shellcheck disable=SC2016 # for the shell in the box
  got=$(bounded 180 docker run --rm --network none --read-only --user 1000:1000 --cap-drop ALL \
    --security-opt no-new-privileges --tmpfs /tmp:exec --env HOME=/tmp "$built" \
    sh -ec 'go version; git --version; rg --version; for e; do echo "$e: $("$e" --version)"; done' sh $engines 2>&1) ||
    die "the new image does not work in a sealed box:"$'\n'"$got"
  for engine in $engines; do
    case $got in
      *"$engine: "*"$(version_of "$engine")"*) ;;
      *) die "the new image has another $engine than versions.env says, $(version_of "$engine"):"$'\n'"$got" ;;
    esac
  done
  case $got in
    *"go$GO_VERSION "*) ;;
    *) die "the new image has another Go than versions.env says, $GO_VERSION:"$'\n'"$got" ;;
  esac
}

main "$@"
