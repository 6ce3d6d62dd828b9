package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	path := write(t, "policy.yml", `
# what I allow
allow:
  - root
  - "volume:/data/../data/:ro"
  - auth:env
`)
	p, err := Load(path, []string{"host", "volume:/x", "env:GOPROXY", "base-url:https://Models.example/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]string{
		"root": path, "host": "--allow", "auth:env": path, "volume:/data:ro": path, "volume:/x:rw": "--allow", "volume:/x": "--allow", "env:GOPROXY": "--allow",
		"base-url:https://models.example/v1": "--allow", "base-url:https://models.example/v1/": "--allow", "base-url:https://models.example": "", "base-url:http://models.example/v1": "",
		"volume:/data:rw": "", "volume:/data": "", "volume:/data/sub:ro": "", "volume:/x:ro": "", "auth:mount": "", "privileged": "", "env:OTHER": "", "env:goproxy": "", "nonsense": "", "": "",
	} {
		if by, ok := p.Allows(rule); by != want || ok != (want != "") {
			t.Errorf("Allows(%q) = %q, %v; want %q", rule, by, ok, want)
		}
	}
}

// THREATS 7.
func TestPrivateHosts(t *testing.T) {
	p, err := Load("", []string{"network-private:registry.corp.example", "network-private:*.lab.example", "network-private:10.0.0.5", "network-private:[fd00::1]"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"registry.corp.example": true, "a.lab.example": true, "a.b.lab.example": true, "10.0.0.5": true, "[fd00::1]": true,
		"corp.example": false, "x.registry.corp.example": false, "lab.example": false, "evillab.example": false, "10.0.0.6": false, "5": false, "[fd00::2]": false, "": false,
	} {
		words, ok := p.PrivateHost(host)
		if ok != want || !ok && !strings.Contains(words, "--allow ") {
			t.Errorf("%q: %v, %q", host, ok, words)
		}
	}
	for _, rule := range []string{"network-private:", "network-private:a:80", "network-private:*", "network-private:http://a"} {
		if _, err := Load("", []string{rule}); err == nil {
			t.Errorf("%s is taken", rule)
		}
	}
}

func TestPrivateEntriesAreDemanded(t *testing.T) {
	d := workflow.Docker{Network: workflow.Network{Mode: "allow", Allow: []string{"example.com", "localhost:80", "*.localhost", "169.254.169.254", "8.8.8.8", "[::1]:443"}}}
	demands, err := Demands(d, Paths{})
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, demand := range demands {
		rules = append(rules, demand.Rule)
	}
	if diff := cmp.Diff([]string{"network-private:localhost", "network-private:localhost", "network-private:169.254.169.254", "network-private:[::1]"}, rules); diff != "" {
		t.Error(diff)
	}
}

func TestLoadWithoutAFileAllowsNothing(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "none.yml"), write(t, "empty.yml", ""), write(t, "c.yml", "# nothing\n"), write(t, "n.yml", "allow:\n")} {
		p, err := Load(path, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if _, ok := p.Allows("host"); ok {
			t.Error("host is allowed")
		}
	}
}

func TestLoadErrors(t *testing.T) {
	tests := []struct {
		name, file string
		allow      []string
		want       string
	}{
		{"misspelt", "allow: [hots]", nil, `there is no rule "hots", did you mean "host"?`},
		{"misspelt flag", "", []string{"networkhost"}, `--allow: there is no rule "networkhost", did you mean "network-host"?`},
		{"nothing like it", "", []string{"everything"}, `there is no rule "everything"`},
		{"everything", "", []string{"*"}, `there is no rule "*"`},
		{"relative volume", "", []string{"volume:data:ro"}, "the path must be absolute"},
		{"no name", "", []string{"env:"}, "expected the name of an environment variable"},
		{"no URL", "", []string{"base-url:models.example/v1"}, "expected a URL"},
		{"a URL with a password", "", []string{"base-url:https://a:b@models.example"}, "expected a URL"},
		{"no remote", "", []string{"push:https://a.example/b"}, "expected the name of a remote"},
		{"unknown key", "alow: [host]", nil, `unknown field "alow"`},
		{"twice", "allow: [host]\nallow: [root]", nil, `"allow" already defined`},
		{"not a list", "allow: {host: true}", nil, "expected `allow: [rules]`"},
		{"not YAML", "allow: [", nil, "expected `allow: [rules]`"},
		{"huge", strings.Repeat("#\n", fileMax), nil, "is larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(write(t, "policy.yml", tt.file), tt.allow)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
			var unknown *UnknownRuleError
			if errors.As(err, &unknown) && !strings.Contains(unknown.Hint(), "host, root, network-host") {
				t.Errorf("hint %q", unknown.Hint())
			}
		})
	}
}

// THREATS 10.
func TestDemands(t *testing.T) {
	vol := func(source string, ro bool) workflow.Docker {
		return workflow.Docker{Volumes: []workflow.Volume{{Source: source, Target: "/v", ReadOnly: ro}}}
	}
	tests := []struct {
		name string
		d    workflow.Docker
		want []string
	}{
		{"nothing", workflow.Docker{}, nil},
		{"free keys", workflow.Docker{Image: "x", Memory: 1 << 30, Network: workflow.Network{Mode: "allow", Allow: []string{"a.b"}}, User: "1000:1000", Auth: "gateway", Env: map[string]string{"A": "b"}}, nil},
		{"host", workflow.Docker{Host: true}, []string{"host"}},
		{"network host", workflow.Docker{Network: workflow.Network{Mode: "host"}}, []string{"network-host"}},
		{"root by number", workflow.Docker{User: "0:0"}, []string{"root"}},
		{"root with zeros", workflow.Docker{User: "000"}, []string{"root"}},
		{"root by name", workflow.Docker{User: "root"}, []string{"root"}},
		{"root's group", workflow.Docker{User: "1000:0"}, []string{"root"}},
		{"all at once", workflow.Docker{Privileged: true, HostConfig: []byte(`{}`), Auth: "mount"}, []string{"auth:mount", "privileged", "host-config"}},
		{"auth env", workflow.Docker{Auth: "env"}, []string{"auth:env"}},
		{"inside", vol("./cache", false), nil},
		{"inside, absolute", vol("/ws/cache/x", true), nil},
		{"the whole workspace", vol(".", false), []string{"volume:/ws:rw"}},
		{"the real .git", vol("./.git", false), []string{"volume:/ws/.git:rw"}},
		{"the state", vol("./cache/../.herd/runs", true), []string{"volume:/ws/.herd/runs:ro"}},
		{"a neighbour with the same beginning", vol("/ws2", true), []string{"volume:/ws2:ro"}},
		{"up", vol("../etc", true), []string{"volume:/etc:ro"}},
		{"up from inside", vol("./a/../../etc", true), []string{"volume:/etc:ro"}},
		{"all of the host", vol("/", false), []string{"volume:/:rw"}},
		{"the docker socket", vol("/var/run/docker.sock", false), []string{"volume:/run/docker.sock:rw"}},
		{"home", vol("~/.ssh", true), []string{"volume:/home/me/.ssh:ro"}},
		{"a link out", vol("./link", false), []string{"volume:/etc:rw"}},
		{"..name is a name", vol("./..cache", false), nil},
	}
	links := map[string]string{"/ws/link": "/etc", "/var/run/docker.sock": "/run/docker.sock", "/workspace": "/ws"}
	paths := Paths{Workspace: "/workspace", Home: "/home/me", Resolve: func(p string) (string, error) {
		if to, ok := links[p]; ok {
			return to, nil
		}
		return p, nil
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ds, err := Demands(tt.d, paths)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range ds {
				got = append(got, d.Rule)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// THREATS 10.
func TestAuthorizeFollowsRealLinks(t *testing.T) {
	outside, project := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(project, "innocent")); err != nil {
		t.Fatal(err)
	}
	d := workflow.Docker{Volumes: []workflow.Volume{{Source: "./innocent", Target: "/v", ReadOnly: true}}}
	real, err := filepath.EvalSymlinks(outside)
	if err != nil {
		t.Fatal(err)
	}
	nothing, err := Load(filepath.Join(outside, "policy.yml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var refusal *Refusal
	if err := nothing.Authorize(d, project); !errors.As(err, &refusal) || refusal.PolicyRule() != "volume:"+real+":ro" {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(refusal.Error(), `the volume "./innocent", which is `+real) {
		t.Errorf("%v", refusal)
	}
	exactly, err := Load("", []string{refusal.Rule})
	if err != nil {
		t.Fatal(err)
	}
	if err := exactly.Authorize(d, project); err != nil {
		t.Errorf("the words of the refusal do not allow it: %v", err)
	}
	vs, err := ResolveVolumes(d, project)
	if err != nil || vs[0].Source != real || vs[0].Target != "/v" || !vs[0].ReadOnly {
		t.Errorf("%+v %v", vs, err)
	}
	d.Volumes[0].Source = "./missing"
	if err := nothing.Authorize(d, project); err == nil || !strings.Contains(err.Error(), "create it first") {
		t.Errorf("%v", err)
	}
}

// THREATS 10.
func TestRefusalsNameTheWords(t *testing.T) {
	p, err := Load("/home/me/.config/herd-runner/policy.yml", []string{"root"})
	if err != nil {
		t.Fatal(err)
	}
	got := p.Check([]Demand{{"host", "docker: false"}, {"root", "docker.user"}, {"volume:/my data:ro", "the volume"}}).Error()
	want := `docker: false is not allowed (rule host): to allow it, run with --allow host or write allow: [host] in /home/me/.config/herd-runner/policy.yml
the volume is not allowed (rule volume:/my data:ro): to allow it, run with --allow 'volume:/my data:ro' or write allow: ["volume:/my data:ro"] in /home/me/.config/herd-runner/policy.yml`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
