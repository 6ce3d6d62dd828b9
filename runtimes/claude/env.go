package claude

import (
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
	env, err := runtimes.Environment(task, map[string]string{
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
	}, routing())
	if err != nil {
		return nil, err
	}
	box := task.Box
	env["CLAUDE_CONFIG_DIR"] = ConfigDir(box.Home)
	switch {
	case box.Gateway != "":
		env["ANTHROPIC_BASE_URL"] = "http://" + box.Gateway
	case task.Config.BaseURL != "":
		env["ANTHROPIC_BASE_URL"] = task.Config.BaseURL
	}
	switch task.Credential.Kind {
	case "api-key":
		env["ANTHROPIC_API_KEY"] = task.Credential.Token
	case "oauth":
		env["CLAUDE_CODE_OAUTH_TOKEN"] = task.Credential.Token
	}
	if box.Backend != "host" {
		// As root the CLI refuses to skip permissions unless told it is boxed.
		env["IS_SANDBOX"] = "1"
	}
	return env, nil
}
