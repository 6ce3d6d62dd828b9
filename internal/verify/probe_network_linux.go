package verify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reached says what answered: a connection, or a machine that refuses one.
// Nothing left the box where the box's own kernel knows no way.
func reached(network, address string) (string, bool) {
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), network, address)
	if err == nil {
		conn.Close()
		return address + " accepts a connection", true
	}
	if errors.Is(err, unix.ECONNREFUSED) && !strings.HasPrefix(address, "127.") {
		return address + " answers", true
	}
	return "", false
}

// engineSockets are where container engines listen.
var engineSockets = []string{"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock"}

func engineSocket(facts) answer {
	for _, name := range []string{"DOCKER_HOST", "CONTAINER_HOST"} {
		if v := os.Getenv(name); v != "" {
			return hole("%s=%s", name, v)
		}
	}
	for _, name := range engineSockets {
		if _, err := os.Lstat(name); err == nil {
			return hole("%s is there", name)
		}
	}
	for _, address := range []string{"127.0.0.1:2375", "127.0.0.1:2376"} {
		if what, ok := reached("tcp", address); ok {
			return hole("%s", what)
		}
	}
	return held("none")
}

func hostLoopback(f facts) answer {
	if f.Loopback == "" {
		return unable("nothing listens there")
	}
	_, port, _ := net.SplitHostPort(f.Loopback)
	for _, host := range []string{"127.0.0.1", "::1", "host.docker.internal", "host.containers.internal"} {
		// A refusal may come from the box's own loopback, or from where the name leads.
		address := net.JoinHostPort(host, port)
		if conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), "tcp", address); err == nil {
			conn.Close()
			return hole("%s accepts a connection", address)
		}
	}
	return held("no answer")
}

func otherBoxes(f facts) answer {
	if len(f.Neighbours) == 0 {
		return unable("there is no other box")
	}
	for _, at := range f.Neighbours {
		network := "tcp"
		if strings.HasPrefix(at, "@") {
			network = "unix"
		}
		conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), network, at)
		if err == nil {
			conn.Close()
			return hole("%s accepts a connection", at)
		}
	}
	return held("no answer at %s", strings.Join(f.Neighbours, ", "))
}

// listen is the other box: it waits for connections until it is ended.
func listen(_ facts, stdout io.Writer) int {
	tcp, err := net.Listen("tcp", ":0")
	if err != nil {
		return 1
	}
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	local, err := net.Listen("unix", "@herd-verify-"+port)
	if err != nil {
		return 1
	}
	list := []string{local.Addr().String()}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return 1
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			list = append(list, net.JoinHostPort(n.IP.String(), port))
		}
	}
	if json.NewEncoder(stdout).Encode(list) != nil {
		return 1
	}
	go serveNothing(local)
	serveNothing(tcp)
	return 0
}

func serveNothing(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Close()
	}
}

func interfaces(facts) answer {
	list, err := net.Interfaces()
	if err != nil {
		return unable("%v", err)
	}
	var names []string
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	routes := routes()
	if len(names)+len(routes) > 0 {
		return hole("interfaces %s, %d routes", strings.Join(names, ", "), len(routes))
	}
	return held("loopback only, no route")
}

// routes are the gateways of the routes there are, "" for direct ones.
func routes() []string {
	file, err := os.Open("/proc/net/route")
	if err != nil {
		return nil
	}
	defer file.Close()
	var list []string
	for in := bufio.NewScanner(file); in.Scan(); {
		fields := strings.Fields(in.Text())
		if len(fields) < 3 || fields[0] == "Iface" {
			continue
		}
		raw, err := hex.DecodeString(fields[2])
		if err != nil || len(raw) != 4 || bytes.Equal(raw, make([]byte, 4)) {
			list = append(list, "")
			continue
		}
		slices.Reverse(raw) // the kernel writes it in the machine's order
		list = append(list, net.IP(raw).String())
	}
	return list
}

// noWay are the errors of packets that did not leave the box.
func noWay(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) ||
		errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT)
}

func addresses(facts) answer {
	dial := func(network, address string) func() error {
		return func() error {
			conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), network, address)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte("x"))
			return err
		}
	}
	for _, t := range (tries{
		{"TCP to 192.0.2.1:80", dial("tcp", "192.0.2.1:80")},
		{"TCP to 192.0.2.1:443", dial("tcp", "192.0.2.1:443")},
		{"UDP to 192.0.2.1:443", dial("udp", "192.0.2.1:443")},
		{"UDP to 255.255.255.255:67", dial("udp", "255.255.255.255:67")},
		{"TCP to [2001:db8::1]:443", dial("tcp", "[2001:db8::1]:443")},
		{"ICMP to 192.0.2.1", ping},
	}) {
		if err := t.do(); !noWay(err) {
			return hole("%s leaves the box: %v", t.name, err)
		}
	}
	return held("TCP, UDP, ICMP and IPv6: no way out")
}

func ping() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte{8, 0, 0, 0, 0, 0, 0, 0}, 0, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}})
}

func metadata(facts) answer {
	for _, address := range []string{"169.254.169.254:80", "[fd00:ec2::254]:80"} {
		conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		if !noWay(err) && !(strings.HasPrefix(address, "[") && errors.Is(err, unix.EHOSTUNREACH)) {
			return hole("packets to %s leave the box: %v", address, err)
		}
	}
	return held("no way there")
}

func hostGateway(facts) answer {
	for _, gateway := range routes() {
		if gateway == "" {
			continue
		}
		for _, port := range []string{"1", "22", "2375"} {
			if what, ok := reached("tcp", net.JoinHostPort(gateway, port)); ok {
				return hole("%s", what)
			}
		}
	}
	return held("no gateway answers")
}

func dns(facts) answer {
	servers := []string{"127.0.0.11", "192.0.2.53"}
	b, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			servers = append(servers, fields[1])
		}
	}
	for _, server := range servers {
		if asked(server) {
			return hole("%s answers", server)
		}
	}
	return held("no answer from %s", strings.Join(servers, ", "))
}

// asked says whether a name server answers at all.
func asked(server string) bool {
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), "udp", net.JoinHostPort(server, "53"))
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	query := binary.BigEndian.AppendUint16(nil, 0x4844)
	query = append(query, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	query = append(query, "\x07example\x03com\x00\x00\x01\x00\x01"...)
	if _, err := conn.Write(query); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 512))
	return err == nil && n > 0
}

// speak sends bytes to an HTTP server and gives the status of its answer; 0: it
// has none.
func speak(address, text string) int {
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(4 * dialTime))
	if _, err := io.WriteString(conn, text); err != nil {
		return 0
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}

func egressProxy(f facts) answer {
	if f.Egress == "" {
		return unable("the box has no proxy")
	}
	_, port, _ := net.SplitHostPort(f.Loopback)
	for _, host := range []string{
		"herd-verify.invalid:443", "169.254.169.254:80", "127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port, "2130706433:80", "0x7f000001:80",
		"192.0.2.1:443", "10.0.0.1:443", "herd-verify.invalid:22", "herd-verify.invalid\x00.com:443",
	} {
		if code := speak(f.Egress, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); code == http.StatusOK {
			return hole("CONNECT %q is served", host)
		}
		if code := speak(f.Egress, "GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); code == http.StatusOK {
			return hole("GET http://%q is served", host)
		}
	}
	return held("unlisted, private, numeric and other ports: refused")
}

// modelRequest is one the gateway would forward, with a credential in auth.
func modelRequest(target, auth string) string {
	const body = `{"model":"claude-sonnet-4-5","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nanthropic-version: 2023-06-01\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", target, auth, len(body), body)
}

func gatewayWithoutToken(f facts) answer {
	if f.Gateway == "" {
		return unable("the box has no gateway")
	}
	if code := speak(f.Gateway, modelRequest("/v1/messages", "x-api-key: "+f.Token+"\r\n")); code != http.StatusOK {
		return unable("the gateway answers %d to the box's own token, so that a refusal says nothing", code)
	}
	for _, auth := range []string{"", "x-api-key: sk-ant-api03-herd-verify\r\n", "Authorization: Bearer herd-verify\r\n", "x-api-key: \r\n"} {
		if code := speak(f.Gateway, modelRequest("/v1/messages", auth)); code < 400 {
			return hole("a request with %q is answered %d", strings.TrimSpace(auth), code)
		}
	}
	return held("without, with another and with an empty token: refused")
}

func gatewayToElsewhere(f facts) answer {
	if f.Gateway == "" {
		return unable("the box has no gateway")
	}
	auth := "x-api-key: " + f.Token + "\r\n"
	for _, target := range []string{"http://" + f.Loopback + "/v1/messages", "/v1/files", "/../admin", "//" + f.Loopback + "/", "/v1/organizations/usage_report/messages"} {
		if code := speak(f.Gateway, modelRequest(target, auth)); code < 400 && code != 0 {
			return hole("%s is answered %d", target, code)
		}
	}
	if code := speak(f.Gateway, "CONNECT "+f.Loopback+" HTTP/1.1\r\nHost: "+f.Loopback+"\r\n"+auth+"\r\n"); code < 400 && code != 0 {
		return hole("CONNECT is answered %d", code)
	}
	return held("refused")
}

// detached leaves processes behind that are hard to end, says so and waits.
func detached(f facts, stdout io.Writer) int {
	for _, kind := range []string{"session", "stopped", "deaf"} {
		attr := &syscall.SysProcAttr{Setsid: true}
		_, err := syscall.ForkExec(f.Runner, []string{f.Runner, "attack", "linger", marker, kind}, &syscall.ProcAttr{Sys: attr, Env: os.Environ()})
		if err != nil {
			return 1
		}
	}
	fmt.Fprintln(stdout, "ready")
	time.Sleep(10 * time.Second)
	return 0
}

// linger is such a process; it ends by itself in the end.
func linger(facts, io.Writer) int {
	if slices.Contains(os.Args, "stopped") {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
	time.Sleep(30 * time.Second)
	return 0
}

func endlessLine(_ facts, stdout io.Writer) int {
	piece := bytes.Repeat([]byte{'x'}, 1<<20)
	for range endless / len(piece) {
		if _, err := stdout.Write(piece); err != nil {
			return 1
		}
	}
	return 0
}

// escapes are what drives terminals.
const escapes = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b]8;;http://x\x1b\\link\x1bP+q\x1b\\\x9b2J\x00\x08\r\u202e\xff"

func terminalEscapes(_ facts, stdout io.Writer) int {
	_, _ = io.WriteString(stdout, escapes)
	return 0
}

// collectedLinks leaves in Temp what a step could hand over instead of a file.
func collectedLinks(f facts, stdout io.Writer) int {
	for name, target := range map[string]string{"zero": "/dev/zero", "proc": "/proc/self/environ", "loop": "herd-verify-loop", "beside": f.Beside} {
		_ = os.Symlink(target, f.Temp+"/herd-verify-"+name)
	}
	_ = makePipe(f.Temp + "/herd-verify-pipe")
	fmt.Fprintln(stdout, "left")
	return 0
}
