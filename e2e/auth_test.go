package e2e

import (
	"fmt"
	"testing"
)

// DOCKER-03, CONFIG's tiers: a credential in the box needs the operator's word,
// at whichever level it is asked for.
func TestAuthNeedsTheOperatorsWord(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "ANTHROPIC_API_KEY=sk-ant-of-this-test")
	dir := newProject(t, nil)
	const agent = "{id: a, prompt: Say hello, workspace: ro, runtime: {type: cli, engine: claude, model: sonnet}%s}"
	for _, auth := range []string{"env", "mount"} {
		block := "docker: {auth: " + auth + "}"
		for level, flow := range map[string]string{
			"defaults": "defaults: {" + block + "}\njobs: {j: {steps: [" + fmt.Sprintf(agent, "") + "]}}\n",
			"job":      "jobs: {j: {" + block + ", steps: [" + fmt.Sprintf(agent, "") + "]}}\n",
			"step":     "jobs: {j: {docker: {auth: gateway}, steps: [" + fmt.Sprintf(agent, ", "+block) + "]}}\n",
		} {
			r := m.run(t, dir, "on: workflow_dispatch\n"+flow)
			if r.code != 2 {
				t.Errorf("%s at %s: exit %d", auth, level, r.code)
			}
			r.wantSaid(t, "docker.auth: "+auth+" is not allowed (rule auth:"+auth+")", "run with --allow auth:"+auth)
		}
	}
}
