#!/usr/bin/env bash
# Every test, against the real engine and the real agent image.
#
#   HERD_TEST_PACKAGES="./steps/... ./e2e"   instead of ./...
#   HERD_TEST_FLAGS="-run TestX -count=5"    further flags of go test
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
cd "$here/.."

have go || die "needs Go 1.26 or newer: https://go.dev/dl"
if ! have git gcc; then apt_install git gcc libc6-dev; fi

have docker-registry || apt_install docker-registry
# The tests start a podman of their own. What its packages want is named: nothing
# else that they recommend is needed.
if ! have podman runc || ! have /usr/lib/podman/netavark; then apt_install podman netavark aardvark-dns runc iproute2; fi

have qemu-aarch64-static qemu-x86_64-static || apt_install qemu-user-static
have busybox || apt_install busybox-static
# A kernel in user space, which not every distribution has.
if ! have runsc && debian_like; then
  if apt-cache show runsc >/dev/null 2>&1; then apt_install runsc; else say "no package runsc: the tests of gVisor are skipped"; fi
fi

"$here/check.sh"
"$here/engine.sh"
"$here/agent-image.sh"
"$here/agent-image.sh" all
make --no-print-directory build

# The reaper image of testcontainers lives on a hub, which may be out of reach;
# our tests remove what they start themselves.
export TESTCONTAINERS_RYUK_DISABLED=true
if [ -e /.dockerenv ]; then export TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1; fi

read -ra packages <<<"${HERD_TEST_PACKAGES:-./...}"
read -ra flags <<<"${HERD_TEST_FLAGS:-}"
go tool -modfile=tools/go.mod gotestsum --format=pkgname-and-test-fails --format-hide-empty-pkg -- \
  -race -timeout=30m "${flags[@]}" "${packages[@]}"
