package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// pipImage is the agent image with pip, made once for an engine.
const pipImage = "herd-test/pip:1"

func needPip(t *testing.T, e engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := e.ImageInspect(ctx, pipImage); err == nil {
		return
	}
	made, err := e.ContainerCreate(ctx, &container.Config{Image: agentImage, User: "0", Entrypoint: []string{"sh", "-c", "apt-get update -q && apt-get install -qy --no-install-recommends python3-pip"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}) }()
	if err := e.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	ended, failed := e.ContainerWait(ctx, made.ID, container.WaitConditionNotRunning)
	select {
	case err := <-failed:
		t.Fatalf("install pip: %v", err)
	case end := <-ended:
		if end.StatusCode != 0 {
			t.Fatalf("install pip from the distribution's packages: exit code %d; do containers reach them?", end.StatusCode)
		}
	}
	back := &container.Config{User: "1000:1000", Entrypoint: []string{}, Cmd: []string{"sh"}}
	if _, err := e.ContainerCommit(ctx, made.ID, container.CommitOptions{Reference: pipImage, Config: back}); err != nil {
		t.Fatal(err)
	}
}

// npmVolume is this machine's npm, which is JavaScript alone, as a volume.
func npmVolume(t *testing.T) (volume, program string) {
	t.Helper()
	link, err := exec.LookPath("npm")
	if err != nil {
		t.Fatalf("%v; `make image-all` installs it", err)
	}
	program, err = filepath.EvalSymlinks(link)
	if err != nil {
		t.Fatal(err)
	}
	// Debian's package has its libraries beside it.
	at, _, ok := strings.Cut(program, "/npm/")
	if !ok {
		t.Fatalf("%s: expected npm's own directory", program)
	}
	return at, program
}

// packages serves a package called tool as the programs of three languages ask
// for it, and a page.
func packages(t *testing.T) (port, ca string) {
	t.Helper()
	zipped := func(files ...string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for i := 0; i < len(files); i += 2 {
			f, err := z.Create(files[i])
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.Write([]byte(files[i+1]))
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	module := zipped("example.com/tool@v1.0.0/go.mod", "module example.com/tool\n", "example.com/tool@v1.0.0/tool.go", "package tool\n")
	wheel := zipped("tool.py", "x = 1\n", "tool-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0.0\n",
		"tool-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "tool-1.0.0.dist-info/RECORD", "tool.py,,\ntool-1.0.0.dist-info/METADATA,,\ntool-1.0.0.dist-info/WHEEL,,\ntool-1.0.0.dist-info/RECORD,,\n")
	var archive bytes.Buffer
	gz := gzip.NewWriter(&archive)
	w := tar.NewWriter(gz)
	manifest := `{"name":"tool","version":"1.0.0"}`
	if err := w.WriteHeader(&tar.Header{Name: "package/package.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(manifest))}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(manifest))
	_ = w.Close()
	_ = gz.Close()
	sum := sha512.Sum512(archive.Bytes())

	cert, key := certificate(t, "localhost")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := "https://" + r.Host
		switch r.URL.Path {
		case "/page":
			fmt.Fprintln(w, "the page")
		case "/go/example.com/tool/@v/v1.0.0.info":
			fmt.Fprint(w, `{"Version":"v1.0.0"}`)
		case "/go/example.com/tool/@v/v1.0.0.mod":
			fmt.Fprintln(w, "module example.com/tool")
		case "/go/example.com/tool/@v/v1.0.0.zip":
			_, _ = w.Write(module)
		case "/pip/tool/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<a href=%q>tool</a>", base+"/pip/tool-1.0.0-py3-none-any.whl")
		case "/pip/tool-1.0.0-py3-none-any.whl":
			_, _ = w.Write(wheel)
		case "/npm/tool":
			_ = json.NewEncoder(w).Encode(map[string]any{"name": "tool", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": map[string]any{
				"name": "tool", "version": "1.0.0", "dist": map[string]string{"tarball": base + "/npm/tool/-/tool-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
			}}})
		case "/npm/tool/-/tool-1.0.0.tgz":
			_, _ = w.Write(archive.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL[strings.LastIndexByte(server.URL, ':')+1:], string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

// The example of docs/network.md, with a page of this machine.
func TestExampleAllowList(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	host := hostAddress(t, m.engine)
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "v0.1.0") })}}
	server.Start()
	t.Cleanup(server.Close)
	dir := newProject(t, nil)
	example, err := filepath.Abs("../examples/workflows/allow-list.yml")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	r := m.call(t, "run", "--json", "-C", dir, example, "-i", "host="+address, "-i", "page=http://"+address+"/list", "--allow", "network-private:"+host).wantCode(t, 0)
	for step, want := range map[string]string{
		"listed": "fetched 7 bytes\n", "others": "https://example.com/ is refused\nhttp://169.254.169.254/latest/ is refused\n",
		"sealed": "without a list there is not even a proxy: ''\n",
	} {
		if got := r.output("fetch", step); got != want {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	told := m.call(t, "egress", "-C", dir).wantCode(t, 0).stdout
	for _, want := range []string{address, "example.com:443", "169.254.169.254:80", "refused: not listed"} {
		if !strings.Contains(told, want) {
			t.Errorf("egress does not tell %q:\n%s", want, told)
		}
	}
	m.wantNothingLeft(t, dir)
}

// THREATS 5, 6: the programs that people fetch packages with find the proxy by
// themselves: from a listed host they get them, from another they do not, and it
// is told.
func TestAllowListAndPackages(t *testing.T) {
	t.Parallel()
	needEveryEngine(t)
	m := newMachine(t)
	needPip(t, m.engine)
	npm, cli := npmVolume(t)
	port, ca := packages(t)
	dir := newProject(t, map[string]string{"ca.pem": ca})
	// Go asks no proxy for localhost; with a dot the name is like any other.
	tools := map[string][2]string{ // image, script
		"go":   {agentImage, `cd "$(mktemp -d)"; go mod init x; GOSUMDB=off GOPROXY=$DOTTED/go SSL_CERT_FILE=$CA go mod download -json example.com/tool@v1.0.0`},
		"node": {everyEngine, `NODE_EXTRA_CA_CERTS=$CA node -e 'fetch(process.env.BASE + "/page").then(r => r.text()).then(t => { process.stdout.write(t); if (t != "the page\n") process.exit(1) })'`},
		"npm":  {everyEngine, `node ` + cli + ` install --prefix "$HOME/npm" --registry $BASE/npm/ --cafile $CA --no-audit --no-fund --fetch-retries 0 tool; ls "$HOME/npm/node_modules/tool"`},
		"pip":  {pipImage, `pip install --no-cache-dir --disable-pip-version-check --retries 0 --target "$HOME/pip" --index-url $BASE/pip --cert $CA tool; ls "$HOME/pip/tool.py"`},
	}
	var flow strings.Builder
	fmt.Fprintf(&flow, "on: workflow_dispatch\nenv: {BASE: 'https://localhost:%s', DOTTED: 'https://localhost.:%[1]s', CA: /workspace/ca.pem}\ndefaults: {workspace: ro, docker: {volumes: ['%[2]s:%[2]s:ro']}}\njobs:\n", port, npm)
	for name, tool := range tools {
		for list, allow := range map[string]string{"listed": "localhost:" + port, "other": "only.example.com"} {
			fmt.Fprintf(&flow, "  %s-%s:\n    continue-on-error: true\n    steps:\n    - id: fetch\n      run: %q\n      docker: {image: '%s', network: {allow: ['%s']}}\n", name, list, "export NO_PROXY= no_proxy=\n"+tool[1], tool[0], allow)
		}
	}
	r := m.run(t, dir, flow.String(), "--allow", "network-private:localhost", "--allow", "volume:"+npm+":ro").wantCode(t, 0)
	events := strings.Join(r.proxyEvents(), "\n") + "\n"
	for name := range tools {
		if out := r.step(t, name+"-listed", "fetch"); out.Outcome != "success" {
			t.Errorf("%s does not get the package of a listed host: %+v\n%s", name, out, r.output(name+"-listed", "fetch"))
		}
		if !strings.Contains(events, name+"-listed/fetch CONNECT localhost:"+port+" true\n") {
			t.Errorf("%s: not told as allowed:\n%s", name, events)
		}
		if out := r.step(t, name+"-other", "fetch"); out.Outcome != "failure" {
			t.Errorf("%s gets a package of a host that is not listed:\n%s", name, r.output(name+"-other", "fetch"))
		}
		if !strings.Contains(events, name+"-other/fetch CONNECT localhost:"+port+" false not_listed\n") {
			t.Errorf("%s: not told as refused:\n%s", name, events)
		}
	}
	m.wantNothingLeft(t, dir)
}
