package workflow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

func vars(name string) (expr.Value, bool) {
	o, _ := expr.FromJSON([]byte(`{"mem":"512m","net":{"allow":["Example.COM."]},"mode":"host","big":"1e9g","list":["/a:/a","/b:/b:ro"],"off":false,"tpl":"${{ secrets.X }}.com"}`))
	return o, name == "vars"
}

func evalVars(v *Value) (expr.Value, error) { return Evaluate(v, expr.Env{Context: vars}) }

// THREATS 21.
func TestDecodeDocker(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		yaml string
		want Docker
		err  string // line:column message
	}{
		{yaml: "false", want: Docker{Host: true}},
		{yaml: "busybox", want: Docker{Image: "busybox"}},
		{yaml: "{image: 'ghcr.io:443/a/b_c:1.2@sha256:0123456789abcdef0123456789abcdef', pull: missing}", want: Docker{Image: "ghcr.io:443/a/b_c:1.2@sha256:0123456789abcdef0123456789abcdef", Pull: "missing"}},
		{yaml: "{memory: 2g, shm-size: 64m, cpus: 1.5, cpu-shares: 512, pids-limit: 100}", want: Docker{Memory: 2 << 30, ShmSize: 64 << 20, CPUs: 1.5, CPUShares: 512, PidsLimit: 100}},
		{yaml: "{memory: 1.5GiB, cpu-period: 100000, cpu-quota: 50000}", want: Docker{Memory: 3 << 29, CPUPeriod: 100000, CPUQuota: 50000}},
		{yaml: "{memory: 536870912}", want: Docker{Memory: 512 << 20}},
		{yaml: `{memory: "${{ vars.mem }}"}`, want: Docker{Memory: 512 << 20}},
		{yaml: `{memory: "${{ vars.big }}"}`, err: "1:22 `memory` cannot be \"1e9g\""},
		{yaml: "{network: none}", want: Docker{Network: Network{Mode: "none"}}},
		{yaml: "{network: {allow: [github.com, '*.npmjs.org', 'a.b:8443'], gateway: false}}", want: Docker{Network: Network{Mode: "allow", Allow: []string{"github.com", "*.npmjs.org", "a.b:8443"}, Gateway: &no}}},
		{yaml: "{network: {allow: []}}", want: Docker{Network: Network{Mode: "allow", Allow: []string{}}}},
		{yaml: "{network: {allow: ['10.0.0.1', '[2001:db8::1]:8443', 'xn--bcher-kva.example', 'Example.COM.']}}", want: Docker{Network: Network{Mode: "allow", Allow: []string{"10.0.0.1", "[2001:db8::1]:8443", "xn--bcher-kva.example", "example.com"}}}},
		{yaml: "{network: {gateway: false}}", want: Docker{Network: Network{Mode: "none", Gateway: &no}}},
		{yaml: `{network: "${{ vars.mode }}"}`, want: Docker{Network: Network{Mode: "host"}}},
		{yaml: `{network: "${{ vars.net }}"}`, want: Docker{Network: Network{Mode: "allow", Allow: []string{"example.com"}}}},
		{yaml: `{network: {allow: ["${{ vars.tpl }}"]}}`, err: `1:29 "${{ secrets.X }}.com" is no host name`},
		{yaml: "{volumes: [./cache:/cache:ro, /data:/data/]}", want: Docker{Volumes: []Volume{{"./cache", "/cache", true}, {"/data", "/data", false}}}},
		{yaml: `{volumes: "${{ vars.list }}"}`, want: Docker{Volumes: []Volume{{"/a", "/a", false}, {"/b", "/b", true}}}},
		{yaml: "{tmpfs: ['/tmp:size=64m,exec', /run]}", want: Docker{Tmpfs: []Tmpfs{{"/tmp", 64 << 20, true}, {"/run", 0, false}}}},
		{yaml: "{tmpfs: {/tmp: 1g}}", want: Docker{Tmpfs: []Tmpfs{{"/tmp", 1 << 30, false}}}},
		{yaml: "{ulimits: {nofile: 1024, nproc: {soft: 1, hard: 2}}}", want: Docker{Ulimits: []Ulimit{{"nofile", 1024, 1024}, {"nproc", 1, 2}}}},
		{yaml: "{ulimits: ['nofile=1:2']}", want: Docker{Ulimits: []Ulimit{{"nofile", 1, 2}}}},
		{yaml: "{env: {A: 1, B: true, c: x}, labels: {team: a}, ports: [80, '127.0.0.1:8080:80/tcp']}", want: Docker{Env: map[string]string{"A": "1", "B": "true", "c": "x"}, Labels: map[string]string{"team": "a"}, Ports: []string{"80", "127.0.0.1:8080:80/tcp"}}},
		{yaml: `{read-only: true, ephemeral: "${{ vars.off }}", max-containers: 5, user: 1000:1000, auth: mount, oci-runtime: runsc, privileged: true}`,
			want: Docker{ReadOnly: &yes, Ephemeral: &no, MaxContainers: 5, User: "1000:1000", Auth: "mount", OCIRuntime: "runsc", Privileged: true}},
		{yaml: "{user: root, host-config: {Zeta: 1, Alpha: [2]}}", want: Docker{User: "0:0", HostConfig: json.RawMessage(`{"Zeta":1,"Alpha":[2]}`)}},
		{yaml: "{memory: 2048}", err: "1:19 `memory` of 2048 is 2048 bytes, which is too small"},
	} {
		t.Run(tt.yaml, func(t *testing.T) {
			w, ps := Parse("w.yml", []byte("on: push\njobs: {a: {docker: "+tt.yaml+", steps: [{run: a}]}}\n"))
			if len(ps) > 0 {
				t.Fatal(ps)
			}
			got, err := DecodeDocker(w.Jobs[0].Docker, evalVars)
			if tt.err != "" {
				ps := Problems("w.yml", err)
				if len(ps) != 1 || !strings.HasSuffix(tt.err, " "+ps[0].Message) {
					t.Fatalf("%v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// THREATS 21.
func TestDecodeRuntime(t *testing.T) {
	s := step(t, `        runtime:
          type: sdk
          engine: anthropic
          model: sonnet
          max-turns: 30
          max-cost-usd: 1.5
          allowed-tools: [bash, read]
          denied-tools: web
          mcp-servers: {b: {command: x}, a: {}}
          output-schema: {type: object, properties: {zeta: {type: string}, alpha: {type: array}}}
          env: {A: 1}
          args: [--verbose, 3]
          base-url: https://example.com/v1
`)
	got, err := DecodeRuntime(s.Runtime, evalVars)
	if err != nil {
		t.Fatal(err)
	}
	want := Runtime{Type: "sdk", Engine: "anthropic", Model: "sonnet", MaxTurns: 30, MaxCostUSD: 1.5, AllowedTools: []string{"bash", "read"},
		DeniedTools: []string{"web"}, MCPServers: json.RawMessage(`{"b":{"command":"x"},"a":{}}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"array"}}}`),
		Env:          map[string]string{"A": "1"}, Args: []string{"--verbose", "3"}, BaseURL: "https://example.com/v1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRetryAndWorkspace(t *testing.T) {
	s := step(t, "        retry: {max: 2, on: [rate_limited, stalled]}\n        workspace: copy\n")
	r, err := DecodeRetry(s.Retry, evalVars)
	if diff := cmp.Diff(Retry{Max: 2, On: []string{"rate_limited", "stalled"}}, r); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if w, err := DecodeWorkspace(s.Workspace, evalVars); w.Mode != "copy" || err != nil {
		t.Error(w, err)
	}
	s = step(t, "        retry: 3\n")
	if r, err := DecodeRetry(s.Retry, evalVars); r.Max != 3 || err != nil {
		t.Error(r, err)
	}
	if w, err := DecodeWorkspace(nil, evalVars); w.Mode != "shared" || err != nil {
		t.Error(w, err)
	}
	if d, err := DecodeDocker(nil, evalVars); err != nil || d.Host {
		t.Error(d, err)
	}
	if r, err := DecodeRuntime(nil, evalVars); err != nil || r.Type != "" {
		t.Error(r, err)
	}
}

// THREATS 6.
func TestAllowRefusesWhatIsNoHost(t *testing.T) {
	for _, entry := range []string{"127.1", "a.0x7f", "2130706433", "*.10.0.0.1", "a.b:0", "a.b:65536", "a.b:x", "a.b:1x", "[::1", "[fe80::1%eth0]", "[1.2.3.4]", "*", "a*.b", "https://a.b", "a.b/c", "a b", "-a.b"} {
		if isAllowed(entry) {
			t.Errorf("%q is taken", entry)
		}
	}
}
