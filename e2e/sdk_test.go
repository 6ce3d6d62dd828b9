package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSDKEnginesInSealedBoxes (TEST-05, RUNTIME-02): the loop asks OpenAI and
// Gemini from boxes without a network; the keys stay outside.
func TestSDKEnginesInSealedBoxes(t *testing.T) {
	t.Parallel()
	needEngine(t)
	const key = "r3al-k3y-of-the-operator"
	model := newModel(t, "")
	script := "/s/cmd=" + b64("cat a.txt; env | grep -c "+key) + ",text=" + b64("It says one.") + "/" + t.Name()
	m := newMachine(t, "OPENAI_BASE_URL="+model.url+script+"/v1", "OPENAI_API_KEY="+key, "GOOGLE_GEMINI_BASE_URL="+model.url+script, "GEMINI_API_KEY="+key)
	dir := newProject(t, map[string]string{"a.txt": "one\n"})
	r := m.run(t, dir, `
on: workflow_dispatch
defaults: {workspace: ro, docker: {network: none}}
jobs:
  openai: {steps: [{id: ask, prompt: Say what is in a.txt, runtime: {type: sdk, engine: openai, model: gpt-5.2}}]}
  gemini: {steps: [{id: ask, prompt: Say what is in a.txt, runtime: {type: sdk, engine: gemini, model: gemini-2.5-pro}}]}
`).wantCode(t, 0)
	for _, job := range []string{"openai", "gemini"} {
		out := r.step(t, job, "ask")
		if out.Outcome != "success" || out.Outputs["result"] != "It says one." {
			t.Errorf("%s: %+v", job, out)
		}
		if u := out.Usage; u == nil || u.InputTokens != 200 || u.OutputTokens != 40 || !u.CostKnown {
			t.Errorf("%s: usage %+v", job, u)
		}
		if got := r.toolResults(job, "ask"); !strings.Contains(got, "one") || !strings.Contains(got, "0") {
			t.Errorf("%s: its tool gave %q", job, got)
		}
	}
	wantNoFileWith(t, filepath.Join(dir, ".herd"), key)
}

// TestSDKMCPServers (RUNTIME-02): a server that is a program runs in the sealed
// box; one on HTTP is reached through the egress proxy, and only where the step
// may; one that does not start fails its step before the model is asked.
func TestSDKMCPServers(t *testing.T) {
	t.Parallel()
	needEngine(t)
	program, err := os.ReadFile(built(t).mcpserver)
	if err != nil {
		t.Fatal(err)
	}
	address := shopOnHTTP(t)
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	model := newModel(t, "")
	script := "do=tool,tool=mcp__shop__price,input=" + b64(`{"item":"Tea"}`) + ",text=" + b64("Three.")
	m := newMachine(t, "ANTHROPIC_BASE_URL="+model.url+"/s/"+script+"/"+t.Name(), "ANTHROPIC_API_KEY=sk-test")
	dir := newProject(t, map[string]string{"shop": string(program)})
	r := m.run(t, dir, strings.NewReplacer("ADDRESS", address, "HOST", host).Replace(`
on: workflow_dispatch
defaults:
  workspace: ro
  docker: {network: none}
  runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5, allowed-tools: ["mcp__shop__*"]}
jobs:
  program:
    steps:
      - id: ask
        prompt: What is tea?
        runtime:
          mcp-servers: {shop: {command: sh, args: [-c, 'cp shop "$HOME/shop"; chmod +x "$HOME/shop"; exec "$HOME/shop"']}}
  http:
    steps:
      - id: ask
        prompt: What is tea?
        docker: {network: {allow: ["ADDRESS"]}}
        runtime:
          mcp-servers: {shop: {type: http, url: "http://ADDRESS/mcp", headers: {X-Card: a card}}}
  unlisted:
    steps:
      - id: ask
        prompt: What is tea?
        docker: {network: {allow: [example.com]}}
        runtime:
          mcp-servers: {shop: {type: http, url: "http://ADDRESS/mcp"}}
  sealed:
    steps:
      - id: ask
        prompt: What is tea?
        runtime:
          mcp-servers: {shop: {type: http, url: "http://ADDRESS/mcp"}}
`), "--allow", "network-private:"+host).wantCode(t, 1)
	for job, want := range map[string]string{"program": "Tea costs 3 thalers, says its program", "http": "Tea costs 3 thalers, says a server that is shown a card"} {
		if got := r.toolResults(job, "ask"); r.step(t, job, "ask").Outcome != "success" || !strings.Contains(got, want) {
			t.Errorf("%s: %+v, its tool gave %q", job, r.step(t, job, "ask"), got)
		}
	}
	for job, want := range map[string]string{"unlisted": address + " is not in the list of this step", "sealed": "no network (docker.network: none)"} {
		if out := r.step(t, job, "ask"); out.Outcome != "failure" || !strings.Contains(out.Message, "mcp-servers: shop: http://"+address+"/mcp: ") || !strings.Contains(out.Message, want) {
			t.Errorf("%s: %+v", job, out)
		}
	}
	if n := len(model.requests()); n != 4 {
		t.Errorf("the model was asked %d times, want twice by each job that has its server", n)
	}
}

// shopOnHTTP starts mcpserver outside of the boxes.
func shopOnHTTP(t *testing.T) string {
	t.Helper()
	server := exec.CommandContext(t.Context(), built(t).mcpserver, net.JoinHostPort(ownAddress(t), "0"))
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// ownAddress is an address of this machine that is not its loopback, which a
// box would look for in itself.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Fatal("this machine has no address but its loopback")
	return ""
}

// TestSDKFetch (RUNTIME-02): pages come through the egress proxy, and where
// there is no way out the model is told why.
func TestSDKFetch(t *testing.T) {
	t.Parallel()
	needEngine(t)
	host := ownAddress(t)
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	page := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<h1>Prices</h1><p>Tea: <b>3</b> thalers")
	})}}
	page.Start()
	t.Cleanup(page.Close)
	address := listener.Addr().String()
	model := newModel(t, "")
	script := "do=tool,tool=fetch,input=" + b64(`{"url":"`+page.URL+`/prices"}`) + ",text=" + b64("Three.")
	m := newMachine(t, "ANTHROPIC_BASE_URL="+model.url+"/s/"+script+"/"+t.Name(), "ANTHROPIC_API_KEY=sk-test")
	r := m.run(t, newProject(t, map[string]string{"a.txt": "one\n"}), strings.ReplaceAll(`
on: workflow_dispatch
defaults:
  workspace: ro
  runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
jobs:
  listed: {steps: [{id: ask, prompt: What is tea?, docker: {network: {allow: ["ADDRESS"]}}}]}
  unlisted: {steps: [{id: ask, prompt: What is tea?, docker: {network: {allow: [example.com]}}}]}
  sealed: {steps: [{id: ask, prompt: What is tea?, docker: {network: none}}]}
`, "ADDRESS", address), "--allow", "network-private:"+host).wantCode(t, 0)
	for job, want := range map[string]string{
		"listed":   "# Prices\n\nTea: **3** thalers",
		"unlisted": address + " is not in the list of this step; to allow it, add",
		"sealed":   "this step has no network (docker.network: none)",
	} {
		if got := r.toolResults(job, "ask"); !strings.Contains(got, want) {
			t.Errorf("%s: its tool gave %q, want %q", job, got, want)
		}
	}
}
