#!/usr/bin/env bash
# Sees to it that a Docker engine answers. Installs and starts one as root on
# Debian and Ubuntu, also where no systemd runs; elsewhere says what to do.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"

wait_seconds=60
log=/var/log/herd-runner-dockerd.log
pid_file=/run/herd-runner-dockerd.pid

answers() { have docker && timeout 10 docker version >/dev/null 2>&1; }

main() {
  if answers; then return; fi

  # A context or host that was chosen is not ours to start.
  [ -z "${DOCKER_HOST:-}" ] || die "no engine answers at DOCKER_HOST=$DOCKER_HOST; start it, or unset DOCKER_HOST"
  [ "$(uname -s)" = Linux ] || die "no Docker engine answers; start Docker Desktop (or colima, or another engine with the Docker API) and try again"
  if [ "$(id -u)" -ne 0 ]; then
    if have docker && [ -S /var/run/docker.sock ] && [ ! -w /var/run/docker.sock ]; then
      die "$(id -un) may not use /var/run/docker.sock; run: sudo usermod -aG docker $(id -un), and log in again"
    fi
    die "no Docker engine answers; start it (sudo systemctl start docker), or run this once as root: sudo $0"
  fi
  have dockerd docker iptables || install_engine
  answers || start_engine
  say "the engine answers: $(docker version --format '{{.Server.Version}}, API {{.Server.APIVersion}}')"
}

install_engine() {
  local packages=()
  have dockerd || packages+=(docker.io)
  have iptables || packages+=(iptables)
  # From Debian 13 on the client is a package of its own, only recommended.
  if ! have docker && apt-cache show docker-cli >/dev/null 2>&1; then packages+=(docker-cli); fi
  apt_install "${packages[@]}"
}

start_engine() {
  if [ -d /run/systemd/system ]; then
    systemctl start docker || true
    log=
  elif ! running; then
    say "starting dockerd"
    rm -f /var/run/docker.pid
    setsid dockerd >"$log" 2>&1 </dev/null &
    echo $! >"$pid_file"
  fi

  local deadline=$((SECONDS + wait_seconds))
  until answers; do
    if [ "$SECONDS" -ge "$deadline" ]; then explain "no answer after $wait_seconds s"; fi
    if [ -n "$log" ] && ! running; then explain "dockerd ended at once"; fi
    sleep 0.3
  done
}

running() {
  local pid
  for pid in "$(cat "$pid_file" 2>/dev/null)" "$(cat /var/run/docker.pid 2>/dev/null)"; do
    if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then return; fi
  done
  return 1
}

explain() {
  if [ -n "$log" ]; then
    tail -n 15 "$log" >&2 || true
    die "the engine could not be started: $1; its log is $log"
  fi
  die "the engine could not be started: $1; see: journalctl -u docker"
}

main
