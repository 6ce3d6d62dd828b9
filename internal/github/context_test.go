package github

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

func object(t *testing.T, text string) *expr.Object {
	t.Helper()
	if text == "" {
		return nil
	}
	v, err := expr.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(*expr.Object)
}

func TestContext(t *testing.T) {
	sha := strings.Repeat("a", 40)
	checkout := Checkout{Root: "/p", SHA: sha, Ref: "refs/heads/topic/x", Remote: "https://user:hush@github.com/owner/repo.git"}
	ci := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_SHA": "c1", "GITHUB_REF": "refs/heads/ci", "GITHUB_REPOSITORY": "ci/repo", "GITHUB_ACTOR": "bot",
		"GITHUB_SERVER_URL": "https://ghe.corp", "GITHUB_API_URL": "https://api.ghe.corp", "GITHUB_RUN_ID": "77", "GITHUB_RUN_NUMBER": "5", "GITHUB_REF_PROTECTED": "true",
	}
	pull := `{"number":7,"pull_request":{"merge_commit_sha":"m1","head":{"sha":"h1","ref":"topic"},"base":{"sha":"b1","ref":"main"}},"sender":{"login":"octo","id":12},"repository":{"full_name":"up/stream","id":99}}`
	tests := []struct {
		name  string
		env   map[string]string
		event string
		opts  Options
		c     Checkout
		want  map[string]string
	}{
		{"a laptop", map[string]string{"USER": "me", "GITHUB_SHA": "stray"}, "", Options{EventName: "workflow_dispatch", RunID: "r1", File: "ci.yml", Workflow: "CI", Workspace: "/w"}, checkout, map[string]string{
			"sha": sha, "ref": "refs/heads/topic/x", "ref_name": "topic/x", "ref_type": "branch", "repository": "owner/repo", "repository_owner": "owner", "actor": "me",
			"server_url": "https://github.com", "api_url": "https://api.github.com", "graphql_url": "https://api.github.com/graphql", "repositoryUrl": "git://github.com/owner/repo.git",
			"run_id": "r1", "run_number": "1", "run_attempt": "1", "workflow_ref": "owner/repo/ci.yml@refs/heads/topic/x", "workspace": "/w", "event_name": "workflow_dispatch",
			"head_ref": "", "base_ref": "", "token": "", "ref_protected": "false",
		}},
		{"no checkout", map[string]string{"LOGNAME": "me"}, "", Options{EventName: "push", RunID: "r1"}, Checkout{}, map[string]string{
			"sha": "", "ref": "", "ref_name": "", "repository": "", "repository_owner": "", "repositoryUrl": "", "actor": "me", "workflow_ref": "",
		}},
		{"GitHub Actions", ci, "", Options{EventName: "push", RunID: "r1"}, checkout, map[string]string{
			"sha": "c1", "ref": "refs/heads/ci", "repository": "ci/repo", "repository_owner": "ci", "actor": "bot", "server_url": "https://ghe.corp",
			"api_url": "https://api.ghe.corp", "graphql_url": "https://ghe.corp/api/graphql", "run_id": "77", "run_number": "5", "ref_protected": "true", "repositoryUrl": "git://ghe.corp/ci/repo.git",
		}},
		{"a pull request", nil, pull, Options{EventName: "pull_request"}, checkout, map[string]string{
			"sha": "m1", "ref": "refs/pull/7/merge", "ref_name": "7/merge", "ref_type": "branch", "head_ref": "topic", "base_ref": "main",
			"actor": "octo", "actor_id": "12", "repository": "up/stream", "repository_id": "99", "repository_owner": "up",
		}},
		{"its payload given inside GitHub Actions", ci, pull, Options{EventName: "pull_request", OwnEvent: true}, checkout, map[string]string{
			"sha": "m1", "ref": "refs/pull/7/merge", "head_ref": "topic", "repository": "ci/repo",
		}},
		{"a pull request's target", nil, pull, Options{EventName: "pull_request_target"}, checkout, map[string]string{
			"sha": "b1", "ref": "refs/heads/main", "head_ref": "topic", "base_ref": "main",
		}},
		{"a push", nil, `{"after":"p1","ref":"refs/tags/v1"}`, Options{EventName: "push"}, checkout, map[string]string{"sha": "p1", "ref": "refs/tags/v1", "ref_name": "v1", "ref_type": "tag"}},
		{"a release", nil, `{"release":{"tag_name":"v2"}}`, Options{EventName: "release"}, checkout, map[string]string{"sha": sha, "ref": "refs/tags/v2", "ref_type": "tag"}},
		{"a new tag", nil, `{"ref":"v3","ref_type":"tag"}`, Options{EventName: "create"}, checkout, map[string]string{"ref": "refs/tags/v3"}},
		{"a new branch", nil, `{"ref":"b","ref_type":"branch"}`, Options{EventName: "create"}, checkout, map[string]string{"ref": "refs/heads/b"}},
		{"another server", nil, "", Options{EventName: "push"}, Checkout{Remote: "git@ghe.corp:o/r.git"}, map[string]string{
			"server_url": "https://ghe.corp", "api_url": "https://ghe.corp/api/v3", "graphql_url": "https://ghe.corp/api/graphql",
		}},
		{"a payload of the wrong shape", nil, `{"pull_request":[1],"number":{},"sender":"x","repository":null}`, Options{EventName: "pull_request"}, checkout, map[string]string{
			"sha": sha, "ref": "refs/heads/topic/x", "head_ref": "", "repository": "owner/repo",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Getenv = func(k string) string { return tt.env[k] }
			tt.opts.Event = object(t, tt.event)
			g := Context(tt.opts, tt.c)
			got := map[string]string{}
			for k := range tt.want {
				v, ok := g.Get(k)
				if !ok {
					t.Errorf("no github.%s", k)
				}
				got[k] = expr.String(v)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if all := expr.ToJSON(g); strings.Contains(all, "hush") {
				t.Errorf("the remote's password is in the context: %s", all)
			}
		})
	}
}

func TestInputsAreStringsInTheEvent(t *testing.T) {
	payload := object(t, `{"ref":"refs/heads/x","inputs":{"old":"1"}}`)
	g := Context(Options{Getenv: func(string) string { return "" }, EventName: "workflow_dispatch", Event: payload, Inputs: object(t, `{"deploy":true,"n":1.5}`)}, Checkout{})
	event, _ := g.Get("event")
	if got, want := expr.ToJSON(event), "{\n  \"ref\": \"refs/heads/x\",\n  \"inputs\": {\n    \"deploy\": \"true\",\n    \"n\": \"1.5\"\n  }\n}"; got != want {
		t.Error(got)
	}
	if old, _ := payload.Get("inputs"); expr.ToJSON(old) != "{\n  \"old\": \"1\"\n}" {
		t.Error("the payload was changed")
	}
	if ref, _ := g.Get("ref"); ref != "refs/heads/x" {
		t.Errorf("ref %v", ref)
	}
}

func TestEnvironment(t *testing.T) {
	g := Context(Options{Getenv: func(string) string { return "" }, EventName: "push", RunID: "r1", Workspace: "/w", Token: "hush", Workflow: "CI"},
		Checkout{SHA: "s1", Ref: "refs/heads/main", Remote: "https://github.com/o/r"})
	env := Environment(g, Runner{GOOS: "linux", GOARCH: "arm64", RunID: "r1"})
	for k, want := range map[string]string{
		"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_SHA": "s1", "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main", "GITHUB_REPOSITORY": "o/r", "GITHUB_REPOSITORY_OWNER": "o",
		"GITHUB_WORKSPACE": "/w", "GITHUB_EVENT_NAME": "push", "GITHUB_RUN_ID": "r1", "GITHUB_WORKFLOW": "CI", "GITHUB_REF_PROTECTED": "false", "GITHUB_HEAD_REF": "",
		"RUNNER_OS": "Linux", "RUNNER_ARCH": "ARM64", "HERD_RUN_ID": "r1",
	} {
		if got, ok := env[k]; !ok || got != want {
			t.Errorf("%s = %q, %v; want %q", k, got, ok, want)
		}
	}
	for k, v := range env {
		if v == "hush" || k == "GITHUB_TOKEN" || k == "GITHUB_EVENT_PATH" || k == "RUNNER_TEMP" || k == "RUNNER_TOOL_CACHE" {
			t.Errorf("%s=%s is there", k, v)
		}
	}
	for goos, want := range map[string]string{"darwin": "macOS", "windows": "Windows", "linux": "Linux"} {
		if got := RunnerOS(goos); got != want {
			t.Errorf("RunnerOS(%s) = %s", goos, got)
		}
	}
	for arch, want := range map[string]string{"amd64": "X64", "386": "X86", "arm": "ARM", "riscv64": "RISCV64"} {
		if got := RunnerArch(arch); got != want {
			t.Errorf("RunnerArch(%s) = %s", arch, got)
		}
	}
}
