package e2e

import (
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

// TestExampleSDKSealed (DOCS-05) runs the example with a scripted model.
func TestExampleSDKSealed(t *testing.T) {
	t.Parallel()
	needEngine(t)
	model := newModel(t, "")
	m := newMachine(t, model.openAI("tool=structured_output,input="+b64(`{"verdict":"good","reasons":["It is short."]}`), "sk-test")...)
	dir := newProject(t, map[string]string{"a.txt": "one\n"})
	r := m.call(t, "run", "--json", "-C", dir, filepath.Join(built(t).root, "examples/workflows/sdk-sealed.yml")).wantCode(t, 0)
	if got := r.output("review", "step-2"); !strings.Contains(got, "The verdict is good.") {
		t.Errorf("it printed %q", got)
	}
}
