# shellcheck shell=bash
# Shared by the scripts beside it; sourced, never run.

say() { printf '%s\n' "$*" >&2; }

die() {
  say "$0: $*"
  exit 1
}

# have CMD...: whether all of the commands are there.
have() {
  local cmd
  for cmd; do command -v "$cmd" >/dev/null 2>&1 || return 1; done
}

debian_like() { have apt-get dpkg; }

# apt_install PACKAGE...: installs Debian packages, or says how to.
apt_install() {
  debian_like || die "needs $*; install them with your system's package manager"
  [ "$(id -u)" -eq 0 ] || die "needs the packages $*; run: sudo apt-get install --no-install-recommends $*"
  say "installing $*"
  local log
  log=$(mktemp)
  # Package lists may be missing or name versions that are gone: only then are
  # they fetched again.
  if apt_quietly install "$@" >"$log" 2>&1 ||
    { apt-get update -q >>"$log" 2>&1 && apt_quietly install "$@" >>"$log" 2>&1; }; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install $*"
  fi
}

apt_quietly() {
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -qy --no-install-recommends "$@"
}
