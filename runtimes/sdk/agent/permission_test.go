package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

func permits(t *testing.T, allowed, denied []string) permission {
	t.Helper()
	p, err := newPermission(sdk.Request{Workdir: "/work", AllowedTools: allowed, DeniedTools: denied})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOfferedTools(t *testing.T) {
	tests := []struct {
		allowed, denied []string
		want            string
	}{
		{nil, nil, "bash bash_output bash_kill read write edit glob grep list fetch mcp__git__log mcp__git__push mcp__web__get"},
		{[]string{"Grep", "read", "Bash(git *)"}, nil, "bash bash_output bash_kill read grep"},
		{[]string{"grep", "bash"}, []string{"bash"}, "grep"},
		{[]string{"bash"}, []string{"Bash(rm *)"}, "bash bash_output bash_kill"},
		{nil, []string{"mcp__git"}, "bash bash_output bash_kill read write edit glob grep list fetch mcp__web__get"},
		{[]string{"mcp__git__*"}, []string{"mcp__git__push"}, "mcp__git__log"},
		{[]string{"mcp__*"}, nil, "mcp__git__log mcp__git__push mcp__web__get"},
		{[]string{"mcp__git__l*", "LS"}, nil, "list mcp__git__log"},
	}
	tools := ownTools(workspace{})
	for _, name := range []string{"mcp__git__log", "mcp__git__push", "mcp__web__get"} {
		tools = append(tools, tool{name: name})
	}
	for _, tt := range tests {
		var names []string
		for _, tool := range permitted(tools, permits(t, tt.allowed, tt.denied)) {
			names = append(names, tool.name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("allowed %v, denied %v:\n got %s\nwant %s", tt.allowed, tt.denied, got, tt.want)
		}
	}
}

func TestRulesWithPatterns(t *testing.T) {
	git := []string{"Bash(git *)", "Bash(go test:*)", "Write(out/**)", "Read(/etc/hosts)", "Read(docs/**)", "glob(docs/**)"}
	no := []string{"Bash(rm *)", "Bash(git push *)", "Edit(**/*.lock)", "Write(/work/.ci/**)"}
	command := func(line string) map[string]any { return map[string]any{"command": line} }
	path := func(p string) map[string]any { return map[string]any{"path": p} }
	tests := []struct {
		allowed, denied []string
		tool            string
		input           map[string]any
		refused         string // in the refusal; empty: it may run
	}{
		{git, nil, "bash", command("git log --oneline"), ""},
		{git, nil, "bash", command("git"), ""},
		{git, nil, "bash", command("go test ./... && git status | git apply"), ""},
		{git, nil, "bash", command("git log 2>&1 >/dev/null"), ""},
		{git, nil, "bash", command("git log > out/log.txt"), ""},
		{git, nil, "bash", command(`git commit -m "$(git log -1)"`), ""},
		{git, nil, "bash", command("for f in a b; do git add $f; done"), ""},
		{git, nil, "bash", command("X=1"), ""},
		{git, nil, "bash", command("gitk"), "gitk"},
		{git, nil, "bash", command("git log; rm -rf /"), "rm -rf /"},
		{git, nil, "bash", command("git log && curl x | sh"), "curl x"},
		{git, nil, "bash", command("git log $(rm x)"), "rm x"},
		{git, nil, "bash", command("git log `rm x`"), "rm x"},
		{git, nil, "bash", command("git diff <(rm x)"), "rm x"},
		{git, nil, "bash", command("git() { rm x; }; git log"), "rm x"},
		{git, nil, "bash", command("PAGER=evil git log"), "PAGER=evil git log"},
		{git, nil, "bash", command("$GIT log"), "not plain"},
		{git, nil, "bash", command("'gi't log"), ""},
		{git, nil, "bash", command("git log > x"), `"x" is not among`},
		{git, nil, "bash", command("git log > out/../x"), "not among"},
		{git, nil, "bash", command("git log &> $X"), "not plain"},
		{git, nil, "bash", command("git log > ~/x"), "not plain"},
		{git, nil, "bash", command("git log; ("), "can be read"},
		{git, nil, "write", path("out/a/b"), ""},
		{git, nil, "write", path("/work/out/a"), ""},
		{git, nil, "write", path("out/../a"), "not among"},
		{git, nil, "read", path("/etc/hosts"), ""},
		{git, nil, "read", path("/etc/passwd"), "not among"},
		{git, nil, "glob", map[string]any{"pattern": "*.md", "path": "docs"}, ""},
		{git, nil, "glob", map[string]any{"pattern": "*.md"}, "not among"},
		{git, nil, "glob", map[string]any{"pattern": "/etc/*", "path": "docs"}, "not among"},
		{nil, no, "bash", command("git log && ls > x"), ""},
		{nil, no, "bash", command("ls; git push origin main"), "against"},
		{nil, no, "bash", command("X=1 rm x"), "against"},
		{nil, no, "bash", command(`r"m" x`), "against"},
		{nil, no, "bash", command("ls > .ci/x"), "against"},
		{nil, no, "edit", path("a/yarn.lock"), "against"},
		{nil, no, "edit", path("a/yarn.txt"), ""},
		{[]string{"fetch(domain:*.example.com)"}, nil, "fetch", map[string]any{"url": "https://a.Example.com/x"}, ""},
		{[]string{"WebFetch(domain:*.example.com)"}, nil, "fetch", map[string]any{"url": "https://evilexample.com/x"}, "not among"},
		{[]string{"fetch(domain:*.example.com)"}, nil, "fetch", map[string]any{"url": "https://b.com/.example.com"}, "not among"},
		{[]string{"fetch(https://example.com/docs/*)"}, nil, "fetch", map[string]any{"url": "https://example.com/docs/a"}, ""},
		{nil, []string{"fetch(domain:example.com)"}, "fetch", map[string]any{"url": "https://EXAMPLE.com:8443/"}, "against"},
		{[]string{"bash"}, nil, "bash", command("anything > $X ("), ""},
		{[]string{"bash", "read"}, []string{"bash(rm *)"}, "bash", command("ls > x"), ""},
	}
	for _, tt := range tests {
		input, err := json.Marshal(tt.input)
		if err != nil {
			t.Fatal(err)
		}
		err = permits(t, tt.allowed, tt.denied).check(tt.tool, input)
		if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
			t.Errorf("%s %s: %v, want %q", tt.tool, input, err, tt.refused)
		}
	}
}
