package claude

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// routing names the variables that say where model traffic goes and with which
// credential. They are the runner's: a workflow can not set them, and what an
// image sets is blanked.
func routing() []string {
	return []string{
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
		"ANTHROPIC_UNIX_SOCKET", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
		"CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CONFIG_DIR",
	}
}

// environment is what the CLI needs over the box's base environment.
func environment(task runtimes.Task) (map[string]string, error) {
	box, cfg := task.Box, task.Config
	env := map[string]string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_AUTOUPDATER":                      "1",
		"DISABLE_TELEMETRY":                        "1",
		"DISABLE_ERROR_REPORTING":                  "1",
		// Without it a run has several results, and the last may come late.
		"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
		// The CLI's own default of 10 takes three minutes; the gateway and
		// `retry:` wait better than the CLI does.
		"CLAUDE_CODE_MAX_RETRIES": "6",
		// A stream that stalls would otherwise be waited for over 700 s.
		"CLAUDE_ENABLE_BYTE_WATCHDOG":        "1",
		"CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "180000",
	}
	maps.Copy(env, cfg.Env)
	for _, name := range routing() {
		if _, ok := cfg.Env[name]; ok {
			return nil, fmt.Errorf("env: %s is set by the runner, which keeps credentials out of the box: remove it (base-url chooses another endpoint)", name)
		}
		if box.Env[name] != "" {
			env[name] = ""
		}
	}
	env["HOME"] = box.Home
	env["TMPDIR"] = box.Temp
	env["CLAUDE_CONFIG_DIR"] = ConfigDir(box.Home)
	switch {
	case box.Gateway != "":
		env["ANTHROPIC_BASE_URL"] = "http://" + box.Gateway
		// A proxy variable would catch the loopback address too.
		for _, name := range []string{"NO_PROXY", "no_proxy"} {
			env[name] = addNoProxy(inherited(name, cfg.Env, box.Env))
		}
	case cfg.BaseURL != "":
		env["ANTHROPIC_BASE_URL"] = cfg.BaseURL
	}
	switch task.Credential.Kind {
	case "api-key":
		env["ANTHROPIC_API_KEY"] = task.Credential.Token
	case "oauth":
		env["CLAUDE_CODE_OAUTH_TOKEN"] = task.Credential.Token
	case "":
		if box.Gateway != "" {
			return nil, fmt.Errorf("the task has no credential for the gateway")
		}
	default:
		return nil, fmt.Errorf("credential kind %q: expected api-key or oauth", task.Credential.Kind)
	}
	if box.Backend != "host" {
		// As root the CLI refuses to skip permissions unless told it is boxed.
		env["IS_SANDBOX"] = "1"
	}
	runtimes.TrustWorkspace(env, box)
	return env, nil
}

func inherited(name string, nearest, base map[string]string) string {
	if v, ok := nearest[name]; ok {
		return v
	}
	return base[name]
}

func addNoProxy(old string) string {
	list := []string{"127.0.0.1", "localhost"}
	for _, host := range strings.Split(old, ",") {
		if host = strings.TrimSpace(host); host != "" && !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	return strings.Join(list, ",")
}
