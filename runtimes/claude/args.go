package claude

import (
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// ownFlags are the flags that Command sets or that would undo what it sets,
// with the workflow key to use instead.
func ownFlags() map[string]string {
	return map[string]string{
		"-p": "", "--print": "", "--verbose": "", "--output-format": "", "--input-format": "",
		"--include-partial-messages": "", "--replay-user-messages": "",
		"--bg": "", "--background": "", "-h": "", "--help": "", "-v": "", "--version": "",
		"--session-id": "session", "-r": "session", "--resume": "session", "-c": "session",
		"--continue": "session", "--fork-session": "session", "--no-session-persistence": "",
		"--from-pr":         "",
		"--setting-sources": "", "--settings": "", "--bare": "",
		"--model": "model", "--fallback-model": "fallback-model", "--max-turns": "max-turns",
		"--max-budget-usd": "max-cost-usd", "--json-schema": "output-schema",
		"--mcp-config": "mcp-servers", "--strict-mcp-config": "mcp-servers",
		"--permission-mode": "permission-mode", "--dangerously-skip-permissions": "permission-mode",
		"--allow-dangerously-skip-permissions": "permission-mode",
		"--tools":                              "allowed-tools", "--allowedTools": "allowed-tools",
		"--allowed-tools": "allowed-tools", "--disallowedTools": "denied-tools",
		"--disallowed-tools": "denied-tools", "--system-prompt": "system-prompt",
		"--system-prompt-file": "system-prompt", "--append-system-prompt": "append-system-prompt",
		"--append-system-prompt-file": "append-system-prompt",
	}
}

// checkArgs refuses args that would change what the runner relies on.
func checkArgs(args []string) error {
	own := ownFlags()
	for i, arg := range args {
		if i == 0 && !strings.HasPrefix(arg, "-") {
			return runtimes.Refuse("args", arg, "args: %q is not a flag: the prompt belongs in `prompt:`", arg)
		}
		if arg == "--" {
			return runtimes.Refuse("args", arg, "args: %q would turn what follows into a prompt: remove it", arg)
		}
		name, _, _ := strings.Cut(arg, "=")
		key, ok := own[name]
		if !ok {
			continue
		}
		if key == "" {
			return runtimes.Refuse("args", arg, "args: %s is set by the runner: remove it", name)
		}
		return runtimes.Refuse("args", arg, "args: %s is set by the runner: use the key %q of `runtime:`", name, key)
	}
	return nil
}
