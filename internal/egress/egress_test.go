package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/egress"
	"github.com/herd-runner/herd-runner/internal/event"
)

// internet is what stands behind the proxy: names with addresses, and what is
// dialled there. Servers of the test are on loopback whatever address they have.
type internet struct {
	mu      sync.Mutex
	names   map[string][]string
	servers map[string]net.Listener // by address and port
	dialled []string
	asked   []string
	private map[string]bool // what the operator allows
}

func (n *internet) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	var out []netip.Addr
	for _, a := range n.names[name] {
		out = append(out, netip.MustParseAddr(a))
	}
	if len(out) == 0 {
		return nil, errors.New("no such name")
	}
	return out, nil
}

func (n *internet) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, addr.String())
	l := n.servers[addr.String()]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", l.Addr().String())
}

func (n *internet) dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string{}, n.dialled...)
}

// box is a proxy with an allow-list as a box sees it, at an address.
type box struct {
	t       *testing.T
	addr    string
	session *egress.Session
	mu      sync.Mutex
	calls   []event.EgressCall
}

func (n *internet) box(t *testing.T, allow ...string) *box {
	t.Helper()
	list, err := egress.ParseList(allow)
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t}
	proxy := egress.New(egress.Options{
		Lookup: n.lookup, Dial: n.dial,
		Private: func(host string) (string, bool) { return "say network-private:" + host, n.private[host] },
	})
	b.session = proxy.Open(list, func() func(event.EgressCall) {
		return func(c event.EgressCall) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.calls = append(b.calls, c)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { b.session.Serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.session.Close()
		wg.Wait()
	})
	return b
}

// told gives what was reported so far.
func (b *box) told() []event.EgressCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]event.EgressCall{}, b.calls...)
}

// ended closes the box and gives what was reported, without what varies.
func (b *box) ended() []event.EgressCall {
	b.session.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	out := append([]event.EgressCall{}, b.calls...)
	for i := range out {
		out[i].DurationMS = 0
		if out[i].Sent > 0 {
			out[i].Sent = 1
		}
		if out[i].Received > 0 {
			out[i].Received = 1
		}
	}
	return out
}

// client is an ordinary program in the box.
func (b *box) client(roots *x509.CertPool) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: b.addr}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots}}
	b.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// raw sends bytes and gives everything that comes back until the end, or until
// nothing comes for a moment after want.
func (b *box) raw(text string) (net.Conn, *bufio.Reader) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		b.t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func status(t *testing.T, r *bufio.Reader) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, ""
	}
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// web is an HTTP and a TLS server for *.example.com at a public address.
func web(t *testing.T) (*internet, *x509.CertPool, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen = append(seen, fmt.Sprintf("%s %s%s %s", r.Method, r.Host, r.URL, body))
		for name := range r.Header {
			if strings.HasPrefix(name, "Proxy-") || name == "X-Forwarded-For" {
				t.Errorf("the server sees %s", name)
			}
		}
		mu.Unlock()
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://other.example.net/", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "hello from %s", r.Host)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	n := &internet{
		names: map[string][]string{
			"example.com": {"93.184.215.14"}, "www.example.com": {"93.184.215.14"}, "other.example.net": {"93.184.215.99"},
			"down.example.com": {"93.184.215.15"},
		},
		servers: map[string]net.Listener{"93.184.215.14:80": plain.Listener, "93.184.215.14:443": secure.Listener},
	}
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	return n, roots, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, seen...)
	}
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestAllowed(t *testing.T) {
	n, roots, seen := web(t)
	b := n.box(t, "*.example.com", "example.com")
	c := b.client(roots)
	for _, url := range []string{"http://www.example.com/a", "https://www.example.com/b", "http://EXAMPLE.com:80/c", "https://example.com/d"} {
		if code, body := get(t, c, url); code != 200 || !strings.HasPrefix(body, "hello from ") {
			t.Errorf("%s: %d %s", url, code, body)
		}
	}
	resp, err := c.Post("http://example.com/post", "text/plain", strings.NewReader("data"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if code, _ := get(t, c, "http://example.com/away"); code != http.StatusFound {
		t.Errorf("a redirect is not the box's to follow: %d", code)
	}
	c.CloseIdleConnections()
	want := []string{"GET www.example.com/a ", "GET www.example.com/b ", "GET example.com/c ", "GET example.com/d ", "POST example.com/post data", "GET example.com/away "}
	if diff := cmp.Diff(want, seen()); diff != "" {
		t.Error(diff)
	}
	tunnel := event.EgressCall{Method: "CONNECT", Port: 443, Allowed: true, Address: "93.184.215.14", Sent: 1, Received: 1}
	plain := tunnel
	plain.Method, plain.Port, plain.Status = "GET", 80, 200
	with := func(c event.EgressCall, host, entry string) event.EgressCall {
		c.Host, c.Entry = host, entry
		return c
	}
	got := b.ended()
	byHost := map[string]int{}
	for _, c := range got {
		byHost[fmt.Sprint(c.Method, " ", c.Host, " ", c.Status)]++
		if c == with(tunnel, "www.example.com", "*.example.com") || c == with(plain, "www.example.com", "*.example.com") || c.Host == "example.com" && c.Allowed && c.Entry == "example.com" {
			continue
		}
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff(map[string]int{"GET www.example.com 200": 1, "CONNECT www.example.com 0": 1, "GET example.com 200": 1, "CONNECT example.com 0": 1, "POST example.com 200": 1, "GET example.com 302": 1}, byHost); diff != "" {
		t.Error(diff)
	}
}

// THREATS 6.
func TestRefused(t *testing.T) {
	n, roots, seen := web(t)
	b := n.box(t, "example.com", "db.example.com:5432")
	c := b.client(roots)
	for url, want := range map[string]string{
		"http://other.example.net/":     `other.example.net:80 is not in the list of this step; to allow it, add "other.example.net" to docker.network.allow`,
		"http://example.com:8080/":      `add "example.com:8080" to docker.network.allow`,
		"http://93.184.215.14/":         `93.184.215.14:80 is not in the list`,
		"http://[2606:4700::1111]/":     `add "[2606:4700::1111]" to`,
		"http://2130706433/":            "neither a host name nor an address",
		"http://db.example.com/":        "db.example.com:80 is not in the list",
		"http://169.254.169.254/latest": "169.254.169.254:80 is not in the list",
	} {
		if code, body := get(t, c, url); code != 403 && code != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q, want %q", url, code, body, want)
		}
	}
	if code, text := get(t, c, "https://other.example.net/"); code != 0 || !strings.Contains(text, "Forbidden") {
		t.Errorf("CONNECT: %d %s", code, text)
	}
	if len(n.dials()) > 0 || len(n.asked) > 0 || len(seen()) > 0 {
		t.Errorf("dialled %v, resolved %v, seen %v", n.dials(), n.asked, seen())
	}
	for _, c := range b.ended() {
		if c.Allowed || c.Reason == "" || c.Message == "" {
			t.Errorf("got %+v", c)
		}
	}
}

// TestPrivateAddresses is THREATS 7: an allowed name that leads to this machine,
// its network or a cloud's metadata is refused unless the policy says so, and
// what was checked is what is dialled.
func TestPrivateAddresses(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe"} {
		n, _, _ := web(t)
		n.names["example.com"] = []string{addr}
		b := n.box(t, "example.com")
		code, body := get(t, b.client(nil), "http://example.com/")
		if code != 403 || !strings.Contains(body, "no address of the internet; to allow it, say network-private:example.com") {
			t.Errorf("%s: %d %s", addr, code, body)
		}
		_, r := b.raw("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
		if code, _ := status(t, r); code != 403 {
			t.Errorf("%s: CONNECT gave %d", addr, code)
		}
		if d := n.dials(); len(d) > 0 {
			t.Errorf("%s: dialled %v", addr, d)
		}
		if calls := b.ended(); len(calls) != 2 || calls[0].Reason != "private" || calls[0].Allowed {
			t.Errorf("%s: %+v", addr, calls)
		}
	}

	n, _, _ := web(t)
	n.names["example.com"] = []string{"10.0.0.9", "93.184.215.14"}
	if code, _ := get(t, n.box(t, "example.com").client(nil), "http://example.com/"); code != 200 {
		t.Errorf("a public address beside a private one: %d", code)
	}
	if diff := cmp.Diff([]string{"93.184.215.14:80"}, n.dials()); diff != "" {
		t.Error(diff)
	}

	n, _, _ = web(t)
	n.names["example.com"], n.private = []string{"10.0.0.9"}, map[string]bool{"example.com": true}
	n.servers["10.0.0.9:80"] = n.servers["93.184.215.14:80"]
	if code, _ := get(t, n.box(t, "example.com").client(nil), "http://example.com/"); code != 200 {
		t.Errorf("with the operator's word: %d", code)
	}
}

// TestRebinding is THREATS 7: a name is resolved once for a connection.
func TestRebinding(t *testing.T) {
	n, _, _ := web(t)
	b := n.box(t, "example.com")
	c := b.client(nil)
	if code, _ := get(t, c, "http://example.com/"); code != 200 {
		t.Fatal(code)
	}
	n.mu.Lock()
	n.names["example.com"] = []string{"127.0.0.1"}
	n.mu.Unlock()
	if code, _ := get(t, c, "http://example.com/"); code != 403 {
		t.Errorf("after the name has moved: %d", code)
	}
	if len(n.asked) != 2 || len(n.dials()) != 1 {
		t.Errorf("resolved %v, dialled %v", n.asked, n.dials())
	}
}

// TestTLSForAnotherServer: what a tunnel is opened for is what TLS in it asks
// for; otherwise a host of the list is the way to all others on its servers.
// THREATS 5.
func TestTLSForAnotherServer(t *testing.T) {
	for name, want := range map[string]string{
		"www.example.com": "", "WWW.example.com": "",
		"other.example.net": `asks for "other.example.net"`, "example.com": `asks for "example.com"`, "": "names no server",
	} {
		n, roots, _ := web(t)
		b := n.box(t, "www.example.com")
		conn, r := b.raw("CONNECT www.example.com:443 HTTP/1.1\r\nHost: www.example.com:443\r\n\r\n")
		if code, _ := status(t, r); code != 200 {
			t.Fatal(code)
		}
		client := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: roots, InsecureSkipVerify: name != "www.example.com"})
		err := client.HandshakeContext(t.Context())
		_ = client.Close()
		calls := b.ended()
		if (err == nil) != (want == "") || len(calls) != 1 {
			t.Fatalf("%q: %v, %+v", name, err, calls)
		}
		if c := calls[0]; want != "" && (c.Allowed || c.Reason != "server_name" || !strings.Contains(c.Message, want) || c.Sent != 0) {
			t.Errorf("%q: %+v", name, c)
		}
	}
}

// TestHelloInPieces: however TLS's first message is cut, it is read whole before
// a byte of it leaves.
// THREATS 6.
func TestHelloInPieces(t *testing.T) {
	var hello bytes.Buffer
	_ = tls.Client(recording{&hello}, &tls.Config{ServerName: "other.example.net"}).Handshake()
	body := hello.Bytes()[5:]
	for _, size := range []int{1, 3, 50} {
		n, _, _ := web(t)
		b := n.box(t, "www.example.com")
		conn, r := b.raw("CONNECT www.example.com:443 HTTP/1.1\r\nHost: www.example.com:443\r\n\r\n")
		if code, _ := status(t, r); code != 200 {
			t.Fatal(code)
		}
		for rest := body; len(rest) > 0; {
			piece := rest[:min(size, len(rest))]
			rest = rest[len(piece):]
			// A record of its own for each piece.
			if _, err := conn.Write(append([]byte{0x16, 3, 1, 0, byte(len(piece))}, piece...)); err != nil {
				break
			}
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("pieces of %d: the server answered %q", size, rest)
		}
		if calls := b.ended(); len(calls) != 1 || calls[0].Allowed || calls[0].Sent != 0 {
			t.Errorf("pieces of %d: %+v", size, calls)
		}
	}
}

type recording struct{ w io.Writer }

func (r recording) Write(b []byte) (int, error)    { return r.w.Write(b) }
func (recording) Read([]byte) (int, error)         { return 0, io.EOF }
func (recording) Close() error                     { return nil }
func (recording) LocalAddr() net.Addr              { return nil }
func (recording) RemoteAddr() net.Addr             { return nil }
func (recording) SetDeadline(time.Time) error      { return nil }
func (recording) SetReadDeadline(time.Time) error  { return nil }
func (recording) SetWriteDeadline(time.Time) error { return nil }

// TestTunnelMustCarryTLS: port 443 is for TLS alone, and broken TLS is none.
func TestTunnelMustCarryTLS(t *testing.T) {
	for _, first := range []string{"SSH-2.0-x\r\n", "GET / HTTP/1.1\r\nHost: other.example.net\r\n\r\n", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 100_000), "\x80\x2e\x01\x03\x01"} {
		n, _, _ := web(t)
		b := n.box(t, "www.example.com")
		conn, r := b.raw("CONNECT www.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		if code, _ := status(t, r); code != 200 {
			t.Fatal(code)
		}
		_, _ = io.WriteString(conn, first)
		_, _ = io.ReadAll(r)
		if calls := b.ended(); len(calls) != 1 || calls[0].Allowed || calls[0].Reason != "protocol" || calls[0].Sent != 0 {
			t.Errorf("%.20q: %+v", first, calls)
		}
	}
}

// TestNamedPort: a port that the list names carries anything.
// THREATS 6.
func TestNamedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "server first\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, "then "+line)
	}()
	n := &internet{names: map[string][]string{"db.example.com": {"93.184.215.20"}}, servers: map[string]net.Listener{"93.184.215.20:5432": l}}
	b := n.box(t, "db.example.com:5432")
	conn, r := b.raw("CONNECT db.example.com:5432 HTTP/1.1\r\nHost: x\r\n\r\n")
	if code, _ := status(t, r); code != 200 {
		t.Fatal(code)
	}
	if line, err := r.ReadString('\n'); line != "server first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = io.WriteString(conn, "client\n")
	if rest, err := io.ReadAll(r); string(rest) != "then client\n" {
		t.Fatalf("%q, %v", rest, err)
	}
	b.session.Close()
	if c := b.calls[0]; len(b.calls) != 1 || !c.Allowed || c.Sent != 7 || c.Received != 25 {
		t.Errorf("got %+v", b.calls)
	}
}

// TestTunnelToHTTP: a tunnel to port 80, as node opens one, is looked at request
// by request.
func TestTunnelToHTTP(t *testing.T) {
	n, _, seen := web(t)
	b := n.box(t, "example.com", "www.example.com")
	conn, r := b.raw("CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n")
	if code, _ := status(t, r); code != 200 {
		t.Fatal(code)
	}
	for _, tc := range []struct {
		head string
		code int
	}{
		{"GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n", 200},
		{"GET http://EXAMPLE.com/b HTTP/1.1\r\nHost: other.example.net\r\n\r\n", 200}, // the line decides
		{"GET /c HTTP/1.1\r\nHost: www.example.com\r\n\r\n", 403},
	} {
		_, _ = io.WriteString(conn, tc.head)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != tc.code {
			t.Errorf("%q: %d", tc.head, resp.StatusCode)
		}
	}
	if diff := cmp.Diff([]string{"GET example.com/a ", "GET example.com/b "}, seen()); diff != "" {
		t.Error(diff)
	}
	if calls := b.ended(); len(calls) != 3 || calls[2].Reason != "host" || calls[2].Allowed {
		t.Errorf("got %+v", calls)
	}
}

// TestSmuggling: however a request contradicts itself, the server sees one
// request for the host that was judged, or none.
// THREATS 6.
func TestSmuggling(t *testing.T) {
	for _, head := range []string{
		"GET http://example.com/ HTTP/1.1\r\nHost: other.example.net\r\n\r\n",
		"GET http://example.com/ HTTP/1.1\r\nHost: other.example.net\r\nHost: example.com\r\n\r\n",
		"GET http://example.com\\@other.example.net/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://other.example.net@example.com/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://example.com/\r\nX: HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET //example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET ftp://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"POST http://example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://other.example.net/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST http://example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\naaaaa",
		"POST http://example.com/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nX-Big: " + strings.Repeat("x", 100<<10) + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n",
	} {
		n, _, seen := web(t)
		b := n.box(t, "example.com")
		conn, r := b.raw(head)
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(r)
		if strings.Contains(string(answer), "101 Switching") {
			t.Errorf("%.60q: switched", head)
		}
		for _, request := range seen() {
			if !strings.Contains(request, " example.com/") {
				t.Errorf("%.60q: the server saw %q", head, request)
			}
		}
		for _, d := range n.dials() {
			if d != "93.184.215.14:80" {
				t.Errorf("%.60q: dialled %s", head, d)
			}
		}
		if len(seen()) > 1 {
			t.Errorf("%.60q: %d requests", head, len(seen()))
		}
	}
}

func TestFailuresOfTheServer(t *testing.T) {
	n, _, _ := web(t)
	b := n.box(t, "*.example.com")
	c := b.client(nil)
	for url, want := range map[string]string{"http://down.example.com/": "does not answer", "http://none.example.com/": "has no address"} {
		if code, body := get(t, c, url); code != 502 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", url, code, body)
		}
	}
	for _, c := range b.ended() {
		if !c.Allowed || c.Reason != "unreachable" && c.Reason != "unresolved" {
			t.Errorf("got %+v", c)
		}
	}
}

// TestCloseCutsEverything: what a box has open is reported while it is, ends with
// the box, and is reported then.
func TestCloseCutsEverything(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			if _, err := l.Accept(); err != nil { // silent, and never closed
				return
			}
		}
	}()
	n := &internet{names: map[string][]string{"slow.example.com": {"93.184.215.30"}}, servers: map[string]net.Listener{"93.184.215.30:99": l, "93.184.215.30:80": l}}
	b := n.box(t, "slow.example.com", "slow.example.com:99")
	_, tunnel := b.raw("CONNECT slow.example.com:99 HTTP/1.1\r\nHost: x\r\n\r\n")
	if code, _ := status(t, tunnel); code != 200 {
		t.Fatal(code)
	}
	_, plain := b.raw("GET http://slow.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = b.raw("GET http://slow.exa")
	for limit := time.Now().Add(10 * time.Second); len(b.told()) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("nothing is told of requests that go on: %+v", b.told())
		}
	}
	over := make(chan struct{})
	go func() {
		b.session.Close()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("close hangs")
	}
	_, _ = io.ReadAll(tunnel)
	_, _ = io.ReadAll(plain)
	calls := b.told()
	if len(calls) != 4 || !calls[0].Open || !calls[1].Open {
		t.Fatalf("got %+v", calls)
	}
	for _, c := range calls[2:] {
		if c.Open || !c.Told {
			t.Errorf("the end is told as %+v", c)
		}
	}
}

// TestFloodOfRequests: a box can not fill the journal.
func TestFloodOfRequests(t *testing.T) {
	n := &internet{}
	b := n.box(t)
	const all = 12_000
	conn, r := b.raw("")
	go func() {
		for i := range all {
			_, _ = fmt.Fprintf(conn, "GET http://h%d.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", i%1500)
		}
	}()
	for range all {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	sum := 0
	calls := b.ended()
	for _, c := range calls {
		sum += max(c.Count, 1)
	}
	if sum != all || len(calls) > 11_100 {
		t.Errorf("%d requests in %d reports", sum, len(calls))
	}
}
