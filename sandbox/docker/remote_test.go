package docker_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{}
	der, key := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func (a authority) sign(t *testing.T, template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

func (a authority) pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	der, k := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

// use points DOCKER_CERT_PATH at a client of a that trusts servers of trusted.
func (a authority) use(t *testing.T, trusted authority) {
	t.Helper()
	dir := t.TempDir()
	cert, key := a.pair(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.cert.Raw})
	for name, b := range map[string][]byte{"ca.pem": ca, "cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DOCKER_CERT_PATH", dir)
	t.Setenv("DOCKER_TLS_VERIFY", "1")
}

// tlsEngine is the engine behind TLS, for clients of a; it returns its address.
func tlsEngine(t *testing.T, a authority) string {
	t.Helper()
	socket := strings.TrimPrefix(engine(t).api.DaemonHost(), "unix://")
	cert, key := a.pair(t)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open[c] = true
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			keep(c)
			wg.Go(func() { relay(c, socket, keep) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "tcp://" + l.Addr().String()
}

// relay passes on until both sides have ended; the engine's may go on for long.
func relay(c net.Conn, socket string, keep func(net.Conn)) {
	defer c.Close()
	if c.(*tls.Conn).Handshake() != nil {
		return
	}
	up, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer up.Close()
	keep(up)
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(c, up)
}

// remoteBox shows a box of an engine behind a network: the guest comes on a
// read-only volume, and the box is as any other.
func remoteBox(t *testing.T, b *docker.Backend) {
	t.Helper()
	for range 2 { // the second finds the volume
		x := startBox(t, b)
		got, err := engine(t).api.ContainerInspect(t.Context(), x.Info().ID)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(got.Mounts, func(m container.MountPoint) bool { return m.Destination == "/.herd-runner" })
		if i < 0 || got.Mounts[i].Type != mount.TypeVolume || got.Mounts[i].RW || !strings.HasPrefix(got.Mounts[i].Name, "herd-runner-guest-") {
			t.Errorf("the guest is mounted as %+v", got.Mounts)
		}
		runner := x.Info().Runner
		out := output(t, x, "test -x "+runner+" && echo there; echo x > "+runner+"; rm -f "+runner+"; seq 100000 | tail -n 1; echo hi > /work/ws/f; cat /work/ws/f")
		if !strings.Contains(out, "there\n") || !strings.Contains(out, "ead-only file system") || !strings.Contains(out, "100000\n") || !strings.Contains(out, "hi\n") {
			t.Errorf("in the box: %s", out)
		}
	}
}

// TestRemoteEngineOverTLS is an engine that is reached with DOCKER_TLS_VERIFY.
func TestRemoteEngineOverTLS(t *testing.T) {
	engine(t)
	ours, theirs := newAuthority(t), newAuthority(t)
	address := tlsEngine(t, ours)
	at := func(o *docker.Options) { o.Host = address }
	t.Run("box", func(t *testing.T) {
		ours.use(t, ours)
		remoteBox(t, open(t, at))
	})
	for name, tc := range map[string]struct {
		client, trusted authority
		advice          string
	}{
		"their certificate": {ours, theirs, "signed by ca.pem"},
		"our certificate":   {theirs, ours, "cert.pem and key.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.client.use(t, tc.trusted)
			refused(t, address, tc.advice)
		})
	}
	t.Run("no TLS", func(t *testing.T) { refused(t, address, "DOCKER_TLS_VERIFY=1") })
}

// refused: nothing answers at address, and the advice says why.
func refused(t *testing.T, address, advice string) {
	t.Helper()
	_, err := docker.Open(t.Context(), docker.Options{Runner: engine(t).guest, StateDir: t.TempDir(), Host: address})
	var serr *sandbox.Error
	if !errors.As(err, &serr) || serr.Kind != sandbox.KindEngine || !strings.Contains(serr.Advice, advice) || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v, advice %q", err, serr)
	}
}

// TestRemoteEngineOverSSH is an engine behind a real sshd.
func TestRemoteEngineOverSSH(t *testing.T) {
	engine(t)
	sshd := install(t, "sshd", "openssh-server", "/usr/sbin/sshd")
	ssh := install(t, "ssh", "openssh-client", "/usr/bin/ssh")
	cli, err := exec.LookPath("docker")
	if err != nil {
		t.Fatalf("the docker command is what answers at the other end: %v", err)
	}
	dir := t.TempDir()
	for _, key := range []string{"host", "user"} {
		run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key))
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	write(t, filepath.Join(dir, "sshd_config"), fmt.Sprintf(
		"Port %d\nListenAddress 127.0.0.1\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nSetEnv PATH=%[3]s:/usr/bin:/bin DOCKER_HOST=%[4]s\n",
		port, dir, filepath.Dir(cli), engine(t).api.DaemonHost()))
	write(t, filepath.Join(dir, "ssh_config"), fmt.Sprintf("IdentityFile %[1]s/user\nIdentitiesOnly yes\nUserKnownHostsFile %[1]s/known\nStrictHostKeyChecking accept-new\n", dir))
	// The person's own ssh configuration is taken; here it is the test's.
	write(t, filepath.Join(dir, "ssh"), fmt.Sprintf("#!/bin/sh\nexec %s -F %s/ssh_config \"$@\"\n", ssh, dir))
	if err := os.Chmod(filepath.Join(dir, "ssh"), 0o755); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(sshd, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	eventually(t, "sshd listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Run("box", func(t *testing.T) {
		remoteBox(t, open(t, func(o *docker.Options) { o.Host = "ssh://root@" + address }))
	})
	t.Run("no such user", func(t *testing.T) { refused(t, "ssh://nobody-here@"+address, "BatchMode") })
	for _, bad := range []string{"ssh://", "ssh://root:secret@host", "ssh://host/a;b", "ssh://-oProxyCommand=x", "ssh://root:secret@[host"} {
		_, err := docker.Open(t.Context(), docker.Options{Runner: engine(t).guest, StateDir: t.TempDir(), Host: bad})
		if err == nil || !strings.Contains(err.Error(), "expected") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// install finds a program, or installs the Debian package that has it.
func install(t *testing.T, name, pkg, file string) string {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		if out, err := exec.Command("apt-get", "install", "-y", "--no-install-recommends", pkg).CombinedOutput(); err != nil {
			t.Fatalf("%s is needed (apt-get install %s): %v: %s", name, pkg, err, out)
		}
	}
	return file
}

func run(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", argv, err, out)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// otherKind is the engine over TCP, which says that its machine is of another
// architecture.
func otherKind(t *testing.T) (address string) {
	t.Helper()
	socket := strings.TrimPrefix(engine(t).api.DaemonHost(), "unix://")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "docker" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if !strings.HasSuffix(r.Request.URL.Path, "/version") {
				return nil
			}
			b, err := io.ReadAll(r.Body)
			b = bytes.ReplaceAll(b, []byte(`"Arch":"`+runtime.GOARCH+`"`), []byte(`"Arch":"s390x"`))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
			r.Header.Set("Content-Length", strconv.Itoa(len(b)))
			return err
		},
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return "tcp://" + s.Listener.Addr().String()
}

// FR-013: boxes of an engine on another kind of machine have the executable for
// that kind as process 1, where there is one.
func TestEngineOfAnotherKind(t *testing.T) {
	address := otherKind(t)
	var asked []string
	guest := ""
	opts := func(o *docker.Options) {
		o.Host = address
		o.Guest = func(arch string) (string, error) {
			asked = append(asked, arch)
			return guest, nil
		}
	}
	_, err := open(t, opts).Start(t.Context(), testSpec(t))
	var serr *sandbox.Error
	if !errors.As(err, &serr) || serr.Kind != sandbox.KindConfig || !strings.Contains(err.Error(), "linux/s390x") || !strings.Contains(serr.Advice, "cross-build") {
		t.Errorf("without an executable: %v", err)
	}

	// The stand-in for the other kind's is the one that can run here, renamed.
	guest = filepath.Join(t.TempDir(), "guest")
	b, err := os.ReadFile(engine(t).guest)
	if err == nil {
		err = os.WriteFile(guest, append(b, "of another kind"...), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	x := startBox(t, open(t, opts))
	var out bytes.Buffer
	if _, err := x.Exec(t.Context(), sandbox.Process{Argv: []string{"tail", "-c", "15", x.Info().Runner}, Env: []string{"PATH=/bin"}, Stdout: &out}); err != nil || out.String() != "of another kind" {
		t.Errorf("process 1 is of %q (%v)", out.String(), err)
	}
	for _, arch := range asked {
		if arch != "s390x" {
			t.Errorf("asked for %s", arch)
		}
	}
}
