package gateway

import (
	"strings"
	"testing"
)

// What a vendor runs is a way out of a box that has none (THREATS 5): only the
// operator allows it. What the agent runs itself passes.
func TestToolsThatTheVendorRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		dialect *dialect
		own     []string
		foreign []string
	}{
		"anthropic": {&messages, []string{
			`"tools":[{"name":"Bash","input_schema":{}},{"type":"custom","name":"x"},{"type":"bash_20250124","name":"bash"}]`, `"tools":[]`, `"mcp_servers":[]`, `"tools":null`,
		}, []string{
			`"tools":[{"name":"Bash"},{"type":"web_search_20250305","name":"web_search"}]`, `"tools":[{"type":"web_fetch_20250910","name":"f"}]`,
			`"tools":[{"type":"code_execution_20250825","name":"c"}]`, `"mcp_servers":[{"type":"url","url":"https://x.example"}]`, `"tools":[{"ty\u0070e":"web_search_20250305"}]`,
		}},
		"responses": {&responses, []string{`"tools":[{"type":"function","name":"shell"},{"type":"custom","name":"apply_patch"},{"type":"local_shell"},{"type":"namespace","name":"n","tools":[{"type":"function"}]}]`}, []string{
			`"tools":[{"type":"web_search"}]`, `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`, `"tools":[{"type":"mcp","server_url":"https://x.example"}]`,
			`"tools":[{"type":"image_generation"}]`, `"tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp"}]}]`, `"prompt":{"id":"pmpt_1"}`,
		}},
		"chat": {&chat, []string{`"tools":[{"type":"function","function":{"name":"x"}}]`}, []string{`"web_search_options":{}`}},
		"gemini": {&generateContent, []string{`"tools":[{"functionDeclarations":[{"name":"x"}]}]`}, []string{
			`"tools":[{"googleSearch":{}}]`, `"tools":[{"google_search":{}}]`, `"tools":[{"urlContext":{}}]`, `"tools":[{"functionDeclarations":[],"codeExecution":{}}]`,
		}},
	} {
		e := endpoint{purpose: generate}
		look := func(part string) (string, error) {
			req, err := tc.dialect.readRequest(e, []byte(`{"model":"m-1",`+part+`}`))
			if err != nil {
				return "", err
			}
			return tc.dialect.tools.foreign(req)
		}
		for _, part := range tc.own {
			if got, err := look(part); got != "" || err != nil {
				t.Errorf("%s: %s: got %q, %v", name, part, got, err)
			}
		}
		for _, part := range tc.foreign {
			if got, err := look(part); got == "" || err != nil {
				t.Errorf("%s: %s passes: %v", name, part, err)
			}
		}
		for _, part := range []string{`"tools":{"type":"function"}`, `"tools":["x"]`} {
			if _, err := look(part); err == nil {
				t.Errorf("%s: %s passes", name, part)
			}
		}
	}
	deep := []byte(`[{"type":"namespace","tools":[{"type":"namespace","tools":[]}]}]`)
	if _, err := openaiTools.foreign(request{parts: map[string][]byte{"tools": deep}}); err == nil {
		t.Error("a namespace in a namespace passes")
	}
	if _, err := anthropicTools.foreign(request{parts: map[string][]byte{"tools": []byte(`[{"type":"web_search_20250305","type":"custom"}]`)}}); err == nil {
		t.Error("a type that stands twice passes")
	}
}

// THREATS 5.
func TestServerToolsNeedTheOperatorsWord(t *testing.T) {
	const body = `{"model":"claude-sonnet-4-5","max_tokens":9,"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[{"role":"user","content":"x"}]}`
	up := fakeUpstream(t, "")
	b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
	got := b.do(b.request("POST", "/v1/messages", body))
	if got.status != 403 || !strings.Contains(got.body, "permission_error") || !strings.Contains(got.body, "--allow server-tools") {
		t.Errorf("%d %s", got.status, got.body)
	}
	b = openBox(t, newGateway(t, Options{Upstreams: at(up.URL), ServerTools: true}), lane("a"), Limits{})
	if got := b.do(b.request("POST", "/v1/messages", body)); got.status == 403 {
		t.Errorf("allowed: %d %s", got.status, got.body)
	}
}
