package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/network"
)

// probes are ways out of a box; each prints its name when it works.
const probes = `
          cd /tmp
          try() { name=$1; shift; if timeout 5 "$@" >/dev/null 2>&1; then echo "OUT: $name"; else echo "closed: $name"; fi; }
          try host-gateway     curl -sf -m 4 "http://$HOST_ADDR/"
          try host-noproxy     curl -sf -m 4 --noproxy '*' "http://$HOST_ADDR/"
          try host-no-proxy-all env NO_PROXY='*' no_proxy='*' curl -sf -m 4 "http://$HOST_ADDR/"
          try raw-tcp          bash -c "exec 3<>/dev/tcp/${HOST_ADDR%:*}/${HOST_ADDR#*:}"
          try outside-address  curl -s -m 4 http://192.0.2.1/
          try outside-decimal  curl -s -m 4 http://3221225985/
          try outside-hex      curl -s -m 4 http://0xC0000201/
          try outside-octal    curl -s -m 4 http://0300.0.2.1/
          try outside-ipv6     curl -s -m 4 -g 'http://[2001:db8::1]/'
          try metadata         curl -s -m 4 http://169.254.169.254/
          try engine-by-tcp    bash -c 'exec 3<>/dev/tcp/172.17.0.1/2375'
          try dns              getent hosts example.com
          try dns-direct       bash -c 'exec 3<>/dev/tcp/192.0.2.53/53'
          try dns-udp          bash -c 'exec 3<>/dev/udp/192.0.2.53/53 && echo x >&3'
          try udp              bash -c 'exec 3<>/dev/udp/192.0.2.1/443 && echo x >&3'
          try icmp             perl -MSocket -e 'socket(my $s, PF_INET, SOCK_DGRAM, 1) or socket($s, PF_INET, SOCK_RAW, 1) or exit 1; send($s, pack("C2n3", 8, 0, 0, 1, 1), 0, sockaddr_in(0, inet_aton($ARGV[0]))) or exit 1' "${HOST_ADDR%:*}"
          try engine-socket    test -e /var/run/docker.sock
          echo "interfaces: $(ls /sys/class/net | tr '\n' ' ')"
          echo "routes: $(tail -n +2 /proc/net/route | wc -l)"
          echo "DOCKER_HOST=$DOCKER_HOST"
`

// TestNetworkNone: nothing gets out of a box without a network. The same probe
// from a box with one shows that it would have been seen.
// THREATS 5, 8.
func TestNetworkNone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	host := hostAddress(t, m.engine)
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatalf("listen where boxes with a network would find it: %v", err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "reached") })}}
	server.Start()
	t.Cleanup(server.Close)
	dir := newProject(t, nil)
	r := m.run(t, dir, `
on: workflow_dispatch
env: {HOST_ADDR: "`+listener.Addr().String()+`"}
jobs:
  none:
    steps:
      - id: probe
        docker: {network: none}
        run: |`+probes+`
      - id: again
        docker: {network: none, memory: 512m}
        run: |`+probes+`
  bridge:
    steps:
      - id: probe
        docker: {network: bridge}
        run: curl -sf -m 10 "http://$HOST_ADDR/"
`).wantCode(t, 0)
	if got := r.output("bridge", "probe"); got != "reached\n" {
		t.Errorf("a box with a network does not reach the test's own server: %q; the probes prove nothing", got)
	}
	// The second box joins a network namespace that was used before.
	for _, step := range []string{"probe", "again"} {
		got := r.output("none", step)
		if strings.Contains(got, "OUT:") || strings.Count(got, "closed:") != strings.Count(probes, "\n          try ") {
			t.Errorf("%s: something got out:\n%s", step, got)
		}
		for _, want := range []string{"interfaces: lo \n", "routes: 0\n", "DOCKER_HOST=\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q:\n%s", step, want, got)
			}
		}
	}
	m.wantNothingLeft(t, dir)
}

// hostAddress is this machine as containers on the engine's default bridge see
// it.
func hostAddress(t *testing.T, e engine) string {
	t.Helper()
	n, err := e.NetworkInspect(t.Context(), "bridge", network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range n.IPAM.Config {
		_, subnet, err := net.ParseCIDR(c.Subnet)
		if err != nil {
			continue
		}
		for _, addr := range mine {
			if ip, ok := addr.(*net.IPNet); ok && ip.IP.To4() != nil && subnet.Contains(ip.IP) {
				return ip.IP.String()
			}
		}
	}
	t.Fatalf("this machine is not on the engine's bridge %+v: the test needs an engine of its own machine", n.IPAM.Config)
	return ""
}
