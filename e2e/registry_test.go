package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/herd-runner/herd-runner/internal/enginetest"
)

// Who may read the registry of a test; the line is of htpasswd.
const (
	reader         = "reader"
	readerPassword = "sesame of this test"
	readerLine     = `reader:$2y$05$KJmhb7IS7j4gw/RgmuhzV.WLDQCVts4ebaNYgfwuMkZsjs3GPvUFq`
)

// testRegistry is a real registry on loopback that wants a login.
type testRegistry struct {
	engine engine
	host   string // with port
	data   string
}

func newRegistry(t *testing.T, e engine) testRegistry {
	t.Helper()
	if _, err := exec.LookPath("docker-registry"); err != nil {
		t.Fatalf("%v; install docker-registry", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := testRegistry{engine: e, host: free.Addr().String(), data: filepath.Join(dir, "data")}
	free.Close()
	write(t, filepath.Join(dir, "htpasswd"), readerLine+"\n")
	write(t, filepath.Join(dir, "config.yml"), fmt.Sprintf(`version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %q}
auth: {htpasswd: {realm: test, path: %s/htpasswd}}
`, r.data, r.host, dir))
	cmd := exec.Command("docker-registry", "serve", filepath.Join(dir, "config.yml"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get("http://" + r.host + "/v2/")
		if err == nil {
			answer.Body.Close()
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry does not answer: %v", err)
		}
	}
}

// push makes an image of the engine one of the registry and gives its digest; it
// is not on the engine by that name afterwards.
func (r testRegistry) push(t *testing.T, from, name string) (ref, digest string) {
	t.Helper()
	ref = r.host + "/" + name
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := r.engine.ImageTag(ctx, from, ref); err != nil {
		t.Fatal(err)
	}
	auth, err := registry.EncodeAuthConfig(registry.AuthConfig{Username: reader, Password: readerPassword})
	if err != nil {
		t.Fatal(err)
	}
	said, err := r.engine.ImagePush(ctx, ref, image.PushOptions{RegistryAuth: auth})
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	buf := make([]byte, 64<<10)
	var all strings.Builder
	for {
		n, err := said.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			break
		}
	}
	got, err := r.engine.DistributionInspect(ctx, ref, auth)
	if err != nil {
		t.Fatalf("%v\n%s", err, all.String())
	}
	r.forget(t)
	t.Cleanup(func() { r.forget(t) })
	return ref, got.Descriptor.Digest.String()
}

// forget takes every name that the registry's images have from the engine.
func (r testRegistry) forget(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := r.engine.ImageList(ctx, image.ListOptions{All: true})
	if err != nil {
		t.Error(err)
	}
	for _, one := range list {
		for _, name := range append(one.RepoTags, one.RepoDigests...) {
			if strings.HasPrefix(name, r.host+"/") {
				_, _ = r.engine.ImageRemove(ctx, name, image.RemoveOptions{})
			}
		}
	}
}

// there says whether the engine has an image.
func (r testRegistry) there(t *testing.T, ref string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := r.engine.ImageInspect(ctx, ref)
	return err == nil
}

// logIn writes the config.json of a machine's user.
func (m *machine) logIn(t *testing.T, config string) {
	t.Helper()
	write(t, filepath.Join(filepath.Dir(m.state), ".docker", "config.json"), config)
}

func auths(host, password string) string {
	return fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte(reader+":"+password)))
}

// credentialHelper puts a real helper program first in PATH.
func (m *machine) credentialHelper(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "docker-credential-"+name), "#!/bin/sh\n"+script)
	if err := os.Chmod(filepath.Join(dir, "docker-credential-"+name), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, kv := range m.env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			m.env[i] = "PATH=" + dir + ":" + path
		}
	}
}

func (r result) wantSaid(t *testing.T, words ...string) result {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(r.stderr+r.stdout, want) {
			t.Errorf("no %q in:\n%s%s", want, tail(r.stdout), r.stderr)
		}
	}
	if strings.Contains(r.stderr+r.stdout, readerPassword) {
		t.Errorf("the password is told:\n%s%s", r.stdout, r.stderr)
	}
	return r
}

func stepIn(image, more string) string {
	return "on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - id: s\n        run: echo in the box\n        docker: {image: \"" + image + "\"" + more + "}\n"
}

const smallImage = "herd-test/pulled:1"

// TestPull: images of a registry that wants a login, as image pull and run get
// them.
func TestPull(t *testing.T) {
	m := newMachine(t)
	r := newRegistry(t, m.engine)
	m.engine.importImage(t, smallImage, map[string]string{"of": r.host})
	ref, digest := r.push(t, smallImage, "small:1")
	helper := `host=$(cat); [ "$1" = get ] && [ "$host" = ` + r.host + ` ] || { echo "credentials not found in native keychain"; exit 1; }
printf '{"ServerURL":"%s","Username":"reader","Secret":"` + readerPassword + `"}' "$host"
`
	m.credentialHelper(t, "good", helper)
	m.credentialHelper(t, "angry", "echo '{\"Secret\":\""+readerPassword+"\"}'; exit 3\n")

	for _, test := range []struct {
		name, config string
		code         int
		want         []string
	}{
		{"no login", `{}`, 3, []string{"wants a login", "docker login " + r.host}},
		{"a wrong password", auths(r.host, "wrong"), 3, []string{`does not accept the login of "reader" from`, "config.json", "docker login " + r.host}},
		{"auths", auths(r.host, readerPassword), 0, []string{ref + ": pulled, ", digest}},
		{"credHelpers", `{"credHelpers": {"` + r.host + `": "good"}, "credsStore": "angry"}`, 0, []string{": pulled, ", digest}},
		{"credsStore", `{"credsStore": "good"}`, 0, []string{": pulled, ", digest}},
		{"a helper that fails", `{"credsStore": "angry"}`, 3, []string{"docker-credential-angry", "asked without a login", "wants a login"}},
		{"a helper that is not there", `{"credsStore": "nowhere"}`, 3, []string{"docker-credential-nowhere", "wants a login"}},
		{"a broken file", `{"auths": `, 3, []string{"config.json can not be read", "wants a login"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.forget(t)
			m.logIn(t, test.config)
			m.call(t, "image", "pull", ref).wantCode(t, test.code).wantSaid(t, test.want...)
			if there := r.there(t, ref); there != (test.code == 0) {
				t.Errorf("the image is there: %v", there)
			}
		})
	}
	m.logIn(t, auths(r.host, readerPassword))

	t.Run("by digest", func(t *testing.T) {
		r.forget(t)
		byDigest := r.host + "/small@" + digest
		m.call(t, "image", "pull", byDigest).wantCode(t, 0).wantSaid(t, byDigest)
		wrong := r.host + "/small@sha256:" + strings.Repeat("1", 64)
		m.call(t, "image", "pull", wrong).wantCode(t, 3).wantSaid(t, "manifest unknown", "check the name")
		// A registry that gives something else under the digest is found out.
		// (Not one that was pulled before: engines remember its manifest.)
		const tampered = "herd-test/tampered:1"
		m.engine.importImage(t, tampered, map[string]string{"tampered": r.host})
		_, digest := r.push(t, tampered, "tampered:1")
		byDigest = r.host + "/tampered@" + digest
		hash := strings.TrimPrefix(digest, "sha256:")
		blob := filepath.Join(r.data, "docker/registry/v2/blobs/sha256", hash[:2], hash, "data")
		real := read(t, blob)
		write(t, blob, real+" ")
		m.call(t, "image", "pull", byDigest).wantCode(t, 3).wantSaid(t, "pull image")
		if r.there(t, byDigest) {
			t.Error("an image with another digest was taken")
		}
	})
	t.Run("images of ours", func(t *testing.T) {
		for _, name := range []string{"herd-runner/agent", "docker.io/herd-runner/agent"} {
			m.call(t, "image", "pull", name).wantCode(t, 2).wantSaid(t, "is never pulled", "herd-runner image build")
		}
	})
	t.Run("of a workflow", func(t *testing.T) {
		r.forget(t)
		dir := newProject(t, map[string]string{"flow.yml": stepIn(ref, ", pull: missing"), "never.yml": stepIn(ref, ", pull: never")})
		m.call(t, "image", "pull", "-C", dir, "never.yml").wantCode(t, 3).wantSaid(t, "image pull "+ref)
		m.call(t, "image", "pull", "-C", dir, "flow.yml").wantCode(t, 0).wantSaid(t, ": pulled, ")
		m.call(t, "image", "pull", "-C", dir, "flow.yml").wantCode(t, 0).wantSaid(t, ": is there, ")
		m.call(t, "image", "pull", "-C", dir, "never.yml").wantCode(t, 0).wantSaid(t, ": is there, ")
	})
	t.Run("nonsense", func(t *testing.T) {
		m.call(t, "image", "pull", "Not An Image").wantCode(t, 2).wantSaid(t, "is no image")
	})
}

// TestPullOfARun: docker.pull as a run honours it, and herd.lock.
func TestPullOfARun(t *testing.T) {
	m := newMachine(t)
	r := newRegistry(t, m.engine)
	if err := enginetest.ImportBusybox(m.engine.Client); err != nil {
		t.Fatal(err)
	}
	ref, digest := r.push(t, busyboxImage, "tool:1")
	m.logIn(t, auths(r.host, readerPassword))
	dir := newProject(t, map[string]string{"README.md": "a project\n"})
	box := func(got result) string {
		for _, e := range got.events {
			if e.Box != nil {
				return e.Box.Image
			}
		}
		return ""
	}

	m.run(t, dir, stepIn(ref, ", pull: never")).wantCode(t, 3).wantSaid(t, "the engine has no image", "image pull "+ref)
	m.logIn(t, auths(r.host, "wrong"))
	m.run(t, dir, stepIn(ref, "")).wantCode(t, 3).wantSaid(t, "does not accept the login", "flow.yml:7:")
	m.logIn(t, auths(r.host, readerPassword))
	m.run(t, dir, stepIn(ref, ", pull: missing")).wantCode(t, 0).wantSaid(t, "pulling "+ref)

	// Another image behind the same name: only always sees it.
	m.engine.importImage(t, smallImage, map[string]string{"of": "another"})
	write(t, filepath.Join(dir, "locked.yml"), stepIn(ref, ""))
	m.call(t, "run", "-C", dir, "--locked", "locked.yml").wantCode(t, 2).wantSaid(t, "herd.lock", "herd-runner image lock")
	m.call(t, "image", "lock", "-C", dir, "locked.yml").wantCode(t, 0).wantSaid(t, digest)
	if lock := read(t, filepath.Join(dir, "herd.lock")); !strings.Contains(lock, `"digest": "`+digest+`"`) {
		t.Errorf("the lock:\n%s", lock)
	}
	newer, newDigest := r.push(t, smallImage, "tool:1")
	if newer != ref || newDigest == digest {
		t.Fatal("the name should stand for another image")
	}
	got := m.run(t, dir, stepIn(ref, ""), "--locked").wantCode(t, 0)
	if want := r.host + "/tool@" + digest; box(got) != want {
		t.Errorf("the box is of %s, want %s", box(got), want)
	}
	if r.there(t, ref) {
		t.Error("the unlocked image was pulled")
	}
	// always has what the registry has now, which has no shell.
	got = m.run(t, dir, stepIn(ref, ", pull: always"))
	if want := r.host + "/tool@" + newDigest; got.code == 0 || box(got) != want {
		t.Errorf("exit %d, the box is of %s, want %s\n%s", got.code, box(got), want, got.stderr)
	}
	m.run(t, dir, stepIn(busyboxImage, ""), "--locked").wantCode(t, 2).wantSaid(t, "is not in herd.lock", "herd-runner image lock "+busyboxImage, "flow.yml:7:")
	m.call(t, "image", "lock", "-C", dir, busyboxImage, "herd-runner/agent").wantCode(t, 0).wantSaid(t, "io.herd-runner.agent.inputs=", "id sha256:")
	m.run(t, dir, stepIn(busyboxImage, ""), "--locked").wantCode(t, 0)
	lock := read(t, filepath.Join(dir, "herd.lock"))
	write(t, filepath.Join(dir, "herd.lock"), strings.Replace(lock, `"id": "sha256:`, `"id": "sha256:0`, 1))
	m.run(t, dir, stepIn(busyboxImage, ""), "--locked").wantCode(t, 2).wantSaid(t, "it must be", "herd-runner image lock "+busyboxImage)
	write(t, filepath.Join(dir, "herd.lock"), lock+"{}")
	m.run(t, dir, stepIn(busyboxImage, ""), "--locked").wantCode(t, 2).wantSaid(t, "herd.lock", "write it anew")
	m.wantNothingLeft(t, dir)
}

// TestPullAtEveryLevel: DOCKER-11 for docker.pull, which shows in what a run does
// about an image that is not there, and about one that is.
func TestPullAtEveryLevel(t *testing.T) {
	m := newMachine(t)
	r := newRegistry(t, m.engine)
	if err := enginetest.ImportBusybox(m.engine.Client); err != nil {
		t.Fatal(err)
	}
	ref, _ := r.push(t, busyboxImage, "level:1")
	m.logIn(t, auths(r.host, readerPassword))
	dir := newProject(t, map[string]string{"README.md": "a project\n"})
	flow := func(job, step string) string {
		return fmt.Sprintf("on: workflow_dispatch\ndefaults: {docker: {image: %q, pull: never}}\njobs: {a: {%s steps: [{id: s, run: echo in the box%s}]}}\n", ref, job, step)
	}
	m.run(t, dir, flow("", "")).wantCode(t, 3).wantSaid(t, "the engine has no image")
	m.run(t, dir, flow("docker: {pull: missing},", ", docker: {pull: never}")).wantCode(t, 3).wantSaid(t, "the engine has no image")
	m.run(t, dir, flow("docker: {pull: missing},", "")).wantCode(t, 0).wantSaid(t, "pulling "+ref)
	if got := m.run(t, dir, flow("docker: {pull: missing},", "")).wantCode(t, 0); strings.Contains(got.stderr+got.stdout, "pulling "+ref) {
		t.Errorf("missing pulls what is there:\n%s", got.stdout)
	}
	m.run(t, dir, flow("", ", docker: {pull: always}")).wantCode(t, 0).wantSaid(t, "pulling "+ref)
	m.wantNothingLeft(t, dir)
}

// FR-013: what a run says of an agent image that is not there, and that --build
// makes it: here a build script's own words show that it was started.
func TestRunBuilds(t *testing.T) {
	m := newMachine(t)
	const missing = "herd-runner/agent:claude-gemini-opencode"
	if (testRegistry{engine: m.engine}).there(t, missing) {
		t.Fatalf("%s is on the engine; remove it: no test makes it", missing)
	}
	dir := newProject(t, map[string]string{"README.md": "a project\n"})
	m.run(t, dir, stepIn(missing, "")).wantCode(t, 3).wantSaid(t, "herd-runner image build --engines claude,gemini,opencode, or add --build")
	m.env = append(m.env, "HERD_IMAGE_FROM=nowhere")
	m.run(t, dir, stepIn(missing, ""), "--build").wantCode(t, 3).wantSaid(t, "HERD_IMAGE_FROM is nowhere")
	m.run(t, dir, stepIn(missing, ""), "--build", "--dry-run").wantCode(t, 2).wantSaid(t, "--dry-run cannot stand with --build")
	m.run(t, dir, stepIn(agentImage, ""), "--build").wantCode(t, 0)
}
