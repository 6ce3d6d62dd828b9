package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
)

// proxyEvents are what boxes asked for: "step method host:port allowed reason".
func (r result) proxyEvents() []string {
	var out []string
	for _, e := range r.events {
		if e.Type == event.Egress {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s/%s %s %s:%d %v %s", e.Job, e.Step, e.Egress.Method, e.Egress.Host, e.Egress.Port, e.Egress.Allowed, e.Egress.Reason)))
		}
	}
	return out
}

// site is a server of the test's own on this machine's loopback, plain and TLS,
// for the name localhost. Its certificate is in the file ca.
type site struct {
	plain, secure string // ports
	ca            string
}

func newSite(t *testing.T, dir string) site {
	t.Helper()
	cert, key := certificate(t, "localhost")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s, via proxy header %q\n", r.URL.Path, r.Host, r.Header.Get("Proxy-Connection"))
	})
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	ca := filepath.Join(dir, "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	port := func(s *httptest.Server) string {
		_, p, err := net.SplitHostPort(s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return site{port(plain), port(secure), ca}
}

// certificate makes one for name that is its own authority.
func certificate(t *testing.T, name string) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// within waits for something to come true.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(runTime)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %v: %s", runTime, what)
		}
	}
}

// TestAllowList is THREATS 5, 6 and 8 for an allow-list: its hosts are reached by
// the programs people use, and nothing else gets out, proxy or not.
func TestAllowList(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	s := newSite(t, dir)
	host := hostAddress(t, m.engine)
	r := m.run(t, dir, `
on: workflow_dispatch
env: {HOST_ADDR: "`+host+`:`+s.plain+`"}
jobs:
  list:
    steps:
      - id: tools
        docker: {network: {allow: ["localhost:`+s.plain+`", "localhost:`+s.secure+`"]}}
        env: {PLAIN: "http://localhost.:`+s.plain+`", SECURE: "https://localhost:`+s.secure+`", CA: ca.pem}
        run: |
          export NO_PROXY= no_proxy= # localhost stands for a host out there
          curl -sS "$PLAIN/curl"; curl -sS --cacert $CA "$SECURE/curl"
          GIT_SSL_CAINFO=$CA git ls-remote "$SECURE/git" 2>&1 || true
      - id: probe
        docker: {network: {allow: [only.example.com]}}
        run: |`+probes+`
      - id: empty
        docker: {network: {allow: []}}
        run: curl -sS -o /dev/null -w '%{http_code}' http://example.com/
`, "--allow", "network-private:localhost").wantCode(t, 0)
	got := r.output("list", "tools")
	for _, want := range []string{
		"/curl of localhost:" + s.plain, "/curl of localhost:" + s.secure,
		"/git/info/refs not valid",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, `header "keep-alive"`) {
		t.Errorf("the server sees what is the proxy's:\n%s", got)
	}
	if got := r.output("list", "probe"); strings.Contains(got, "OUT: ") && onlyProxyAnswers(got) != "" || !strings.Contains(got, "interfaces: lo \n") || !strings.Contains(got, "routes: 0\n") {
		t.Errorf("something got out: %s\n%s", onlyProxyAnswers(got), got)
	}
	if got := r.output("list", "empty"); got != "403" {
		t.Errorf("an empty list answers %q", got)
	}
	told := m.call(t, "egress", "-C", dir).wantCode(t, 0).stdout
	for _, want := range []string{
		"list/tools", "localhost:" + s.secure, "✓ allowed", "169.254.169.254:80", "✗ refused: not listed",
		"# list/tools\ndocker:\n  network:\n    allow:\n      - \"localhost:", "# list/empty\ndocker:\n  network:\n    allow:\n      - example.com\n",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("egress does not tell %q:\n%s", want, told)
		}
	}
	for _, e := range r.proxyEvents() {
		if strings.HasPrefix(e, "list/tools") != strings.HasSuffix(e, "true") {
			t.Errorf("reported: %s", e)
		}
	}
	m.wantNothingLeft(t, dir)
}

// onlyProxyAnswers are the probes that got out, but for those whose curl does not
// mind that it was the proxy which answered, with a refusal.
func onlyProxyAnswers(output string) string {
	var out []string
	for line := range strings.Lines(output) {
		switch name, ok := strings.CutPrefix(strings.TrimSpace(line), "OUT: "); {
		case !ok, name == "outside-address", name == "outside-decimal", name == "outside-hex", name == "outside-octal", name == "outside-ipv6", name == "metadata":
		default:
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// TestAllowListAndPrivateAddresses is THREATS 7 and CONFIG's tiers: a list with
// what is this machine's own needs the operator's word before anything starts,
// and a name that leads there is refused when it is asked for.
func TestAllowListAndPrivateAddresses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	for _, entry := range []string{"localhost:1", "169.254.169.254", "10.0.0.1", "[::1]"} {
		r := m.run(t, dir, `
on: workflow_dispatch
jobs: {a: {steps: [{run: "true", docker: {network: {allow: ["`+entry+`"]}}}]}}
`).wantCode(t, 2)
		host := strings.TrimSuffix(entry, ":1")
		if !strings.Contains(r.stderr, "network-private:"+host) || len(r.events) > 0 {
			t.Errorf("%s: %s", entry, r.stderr)
		}
	}
	name, err := os.Hostname() // stands in /etc/hosts, or in no place at all
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name); err != nil || !addrs[0].IsPrivate() && !addrs[0].IsLoopback() {
		t.Fatalf("this machine's name %q is at %v (%v): the test needs it at an address of its own network", name, addrs, err)
	}
	name = strings.ToLower(name)
	r := m.run(t, dir, `
on: workflow_dispatch
jobs: {a: {steps: [{id: ask, run: "curl -sS http://`+name+`/", docker: {network: {allow: ["`+name+`"]}}}]}}
`).wantCode(t, 0)
	if got := r.output("a", "ask"); !strings.Contains(got, "no address of the internet; to allow it, run with --allow network-private:"+name) {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]string{"a/ask GET " + name + ":80 false private"}, r.proxyEvents()); diff != "" {
		t.Error(diff)
	}
}

// TestAllowListDiesWithTheRunner is THREATS 8: without the runner there is no way
// out, and nothing of the box is left to look for one.
func TestAllowListDiesWithTheRunner(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	s := newSite(t, dir)
	p := m.startRun(t, dir, `
on: workflow_dispatch
jobs:
  a:
    steps:
      - id: loop
        docker: {network: {allow: ["localhost:`+s.plain+`"]}}
        run: |
          export NO_PROXY= no_proxy=
          while curl -sS -m 5 -o /dev/null http://localhost:`+s.plain+`/; do echo up; sleep 0.2; done >>beat
`, "--allow", "network-private:localhost")
	beat := filepath.Join(dir, "beat")
	within(t, "the box reaches its host", func() bool { b, _ := os.ReadFile(beat); return strings.Count(string(b), "up") >= 2 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	within(t, "the box has ended", func() bool {
		for _, c := range m.engine.boxes(t, m.state) {
			if c.State == "running" {
				return false
			}
		}
		return true
	})
	m.run(t, dir, "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true'}]}}\n").wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}
