package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// DOCKER-03, CONFIG's tiers: a credential in the box needs the operator's word,
// at whichever level it is asked for.
// THREATS 1.
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

// DOCKER-03, FR-005, FR-006: with the operator's word the real programs get the
// real credential and call their model themselves, out of a box that has a
// network. It is nowhere but in the agent's process (or its login file): not in
// docker inspect, in no record and not shown, not even where the agent prints it.
// THREATS 1, 2.
func TestAuthInTheBox(t *testing.T) {
	needEveryEngine(t)
	const (
		key   = "sk-ant-api03-0wn-RealKey-4bd0c1e97fa2-QqZzXx0011CC"
		token = "sk-ant-oat01-0wn-RealTok-5e88aa13bc07-WwYyVv4422DD"
		renew = "sk-ant-ort01-Refresh-90ffab6512de-MmNnBb7733EE"
		login = `{"claudeAiOauth": {"accessToken": "` + token + `", "refreshToken": "` + renew + `", "expiresAt": 4102444800000, "scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}}`
		tell  = `env; cat "$CLAUDE_CONFIG_DIR/.credentials.json"; tr '\0' '\n' </proc/$PPID/environ; echo told`
	)
	for _, test := range []struct {
		name, auth, runtime, docker string
		variable, login             string
		header, want                string
		listed                      bool // the model's host is all that the box reaches
	}{
		{name: "Claude's key", auth: "env", runtime: "engine: claude, model: sonnet", variable: "ANTHROPIC_API_KEY=" + key, header: "X-Api-Key", want: key},
		{name: "Claude's token", auth: "env", runtime: "engine: claude, model: sonnet", variable: "CLAUDE_CODE_OAUTH_TOKEN=" + token, header: "Authorization", want: "Bearer " + token},
		{name: "the token of Claude's login", auth: "env", runtime: "engine: claude, model: sonnet", login: login, header: "Authorization", want: "Bearer " + token},
		{name: "Claude's login", auth: "mount", runtime: "engine: claude, model: sonnet", variable: "ANTHROPIC_API_KEY=" + key, login: login, header: "Authorization", want: "Bearer " + token},
		{name: "the loop's key", auth: "env", runtime: "type: sdk, engine: anthropic, model: claude-sonnet-4-5", variable: "ANTHROPIC_API_KEY=" + key, header: "X-Api-Key", want: key},
		{name: "the loop's token", auth: "env", runtime: "type: sdk, engine: anthropic, model: claude-sonnet-4-5", variable: "CLAUDE_CODE_OAUTH_TOKEN=" + token, header: "Authorization", want: "Bearer " + token},
		{name: "Claude's key by an allow-list", auth: "env", listed: true, runtime: "engine: claude, model: sonnet", variable: "ANTHROPIC_API_KEY=" + key, header: "X-Api-Key", want: key},
		{name: "Codex", auth: "env", runtime: "engine: codex, model: gpt-5.6-sol", docker: "image: " + everyEngine + ", ", variable: "OPENAI_API_KEY=" + key, header: "Authorization", want: "Bearer " + key},
		{name: "Gemini", auth: "env", runtime: "engine: gemini, model: gemini-2.5-pro", docker: "image: " + everyEngine + ", ", variable: "GEMINI_API_KEY=" + key, header: "X-Goog-Api-Key", want: key},
		{name: "OpenCode", auth: "env", runtime: "engine: opencode, model: gpt-5.6-sol", docker: "image: " + everyEngine + ", ", variable: "OPENAI_API_KEY=" + key, header: "Authorization", want: "Bearer " + key},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			model := newModelAt(t, hostAddress(t, m.engine), "")
			base := model.url + "/s/cmd=" + b64(tell) + ",text=" + b64("Told.") + "/x"
			m.env = append(m.env, test.variable, "ANTHROPIC_BASE_URL="+base, "OPENAI_BASE_URL="+base+"/v1", "GOOGLE_GEMINI_BASE_URL="+base)
			if test.login != "" {
				write(t, filepath.Join(filepath.Dir(m.state), ".claude/.credentials.json"), test.login)
			}
			asked := model.hold(`"`) // every request
			allow := []string{"--allow", "auth:" + test.auth}
			if test.listed {
				host, _, _ := strings.Cut(strings.TrimPrefix(model.url, "http://"), ":")
				test.docker = "network: {allow: ['" + strings.TrimPrefix(model.url, "http://") + "']}, "
				allow = append(allow, "--allow", "network-private:"+host)
			}
			dir := newProject(t, map[string]string{"README.md": "# Toy\n"})
			p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {`+test.docker+`auth: `+test.auth+`}}
jobs:
  a:
    steps:
      - id: tell
        prompt: Tell what you have
        workspace: ro
        runtime: {`+test.runtime+`}
      - {id: after, run: env, docker: {network: none}}
`, allow...)
			box := p.awaitBox("a", "tell")
			asked.wait(t, p)
			secret := append(needles(key), append(needles(token), needles(renew)...)...)
			c, raw := m.engine.inspect(t, box)
			wantNone(t, "docker inspect", raw, secret)
			for _, line := range softened(c) {
				t.Errorf("not so: %s", line)
			}
			inBox := m.engine.exec(t, box, `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'; cat /proc/net/tcp; find /herd -name .credentials.json -exec stat -c "login %a" {} +`, "")
			wantNone(t, "the box", inBox, needles(renew))
			if held := strings.Contains(inBox, strings.TrimPrefix(test.want, "Bearer ")); held != (test.auth == "env") {
				t.Errorf("the agent's environment has the credential: %v", held)
			}
			if test.auth == "mount" && !strings.Contains(inBox, "login 400") {
				t.Errorf("the login is no file that can only be read:\n%s", inBox)
			}
			asked.release()
			r := p.wait().wantCode(t, 0)
			if out := r.step(t, "a", "tell"); out.Outcome != "success" || out.Outputs["result"] != "Told." || out.Usage != nil {
				t.Errorf("%+v", out)
			}
			if told := r.toolResults("a", "tell"); !strings.Contains(told, "told") {
				t.Errorf("the agent's tool said:\n%s", told)
			}
			r.wantSaid(t, "docker.auth: "+test.auth+": this agent has the real credential", "no budget, list of models or recording holds for it")
			n := 0
			for _, asked := range model.requests() {
				if asked.Method != "POST" {
					continue
				}
				n++
				if got := asked.Headers[test.header]; got != test.want {
					t.Errorf("the model was asked with %s %q, want %q", test.header, got, test.want)
				}
			}
			if n < 2 {
				t.Errorf("the model was asked %d times", n)
			}
			for _, e := range r.events {
				if e.Type == event.Exchange {
					t.Errorf("the gateway was asked: %+v", e.Exchange)
				}
			}
			wantNone(t, "stdout", r.stdout, secret)
			wantNone(t, "stderr", r.stderr, secret)
			wantNone(t, "the step after it", r.output("a", "after"), secret)
			wantNoneIn(t, filepath.Join(dir, ".herd"), secret)
			m.wantNothingLeft(t, dir)
		})
	}
}

// What can not go together with a credential in the box is said before the run.
func TestAuthThatCanNotBe(t *testing.T) {
	t.Parallel()
	const login = `{"claudeAiOauth": {"accessToken": "sk-ant-oat01-test-token-0123456789", "expiresAt": %d}}`
	for name, test := range map[string]struct {
		docker, runtime, home string
		args                  []string
		want                  []string
	}{
		"no network":          {docker: "auth: env, network: none", want: []string{"flow.yml:", "network: none does not let out", "an allow-list with the vendor's host"}},
		"a limit of cost":     {docker: "auth: env", runtime: ", max-cost-usd: 1", want: []string{"which is what keeps max-cost-usd and max-tokens"}},
		"a limit of tokens":   {docker: "auth: env", runtime: ", max-tokens: 1000", want: []string{"which is what keeps max-cost-usd and max-tokens"}},
		"recording":           {docker: "auth: env", args: []string{"--record", "cassette"}, want: []string{"past the gateway that records and replays"}},
		"replaying":           {docker: "auth: env", args: []string{"--replay-or-record", "cassette"}, want: []string{"past the gateway that records and replays"}},
		"no login":            {docker: "auth: mount", want: []string{"claude /login"}},
		"a login of the past": {docker: "auth: mount", home: fmt.Sprintf(login, 1000), want: []string{"expired", "claude /login"}},
		"a kept box, env":     {docker: "auth: env, ephemeral: false", want: []string{"into a box that is kept"}},
		"a kept box":          {docker: "auth: mount, ephemeral: false", home: fmt.Sprintf(login, 4102444800000), want: []string{"into a box that is kept"}},
		"a reused box":        {docker: "auth: mount, reuse: true", home: fmt.Sprintf(login, 4102444800000), want: []string{"into a box that is kept"}},
		"the loop's login":    {docker: "auth: mount", runtime: ", type: sdk, engine: anthropic", want: []string{"is not for runtime anthropic-sdk", "use auth: env"}},
		"Codex' login":        {docker: "auth: mount", runtime: ", engine: codex", want: []string{"is not for runtime codex", "never enters a box"}},
		"Gemini's login":      {docker: "auth: mount", runtime: ", engine: gemini", want: []string{"is not for runtime gemini", "never enters a box"}},
		"OpenCode's login":    {docker: "auth: mount", runtime: ", engine: opencode, model: openai/gpt-5", want: []string{"is not for runtime opencode"}},
		"a program's login":   {docker: "auth: mount", runtime: ", engine: command, command: [x], api: openai", want: []string{"is not for runtime command"}},
		"several APIs":        {docker: "auth: env", runtime: ", engine: command, command: [x], api: [openai, anthropic]", want: []string{"speaks several APIs"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "ANTHROPIC_API_KEY=sk-ant-of-this-test", "OPENAI_API_KEY=sk-of-this-test", "GEMINI_API_KEY=of-this-test")
			if test.home != "" {
				write(t, filepath.Join(filepath.Dir(m.state), ".claude/.credentials.json"), test.home)
			}
			dir := newProject(t, nil)
			flow := "on: workflow_dispatch\njobs: {j: {steps: [{prompt: Say hello, workspace: ro, runtime: {" + strings.TrimPrefix(test.runtime, ", ") + "},\n  docker: {" + test.docker + "}}]}}\n"
			m.run(t, dir, flow, append([]string{"--allow", "auth:env", "--allow", "auth:mount"}, test.args...)...).wantCode(t, 2).wantSaid(t, test.want...)
		})
	}
}
