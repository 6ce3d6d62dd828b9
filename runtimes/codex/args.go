package codex

import (
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// ownFlags are the flags that Command sets, or that would undo what it sets,
// with the workflow key to use instead.
func ownFlags() map[string]string {
	return map[string]string{
		"--json": "", "--color": "", "-o": "", "--output-last-message": "", "--skip-git-repo-check": "",
		"-h": "", "--help": "", "-V": "", "--version": "",
		"-p": "", "--profile": "", "--ignore-user-config": "", "--strict-config": "",
		"--oss": "base-url", "--local-provider": "base-url",
		"-C": "", "--cd": "", "--worktree": "workspace",
		"--ephemeral": "session", "--last": "session", "--all": "session",
		"-m": "model", "--model": "model",
		"--output-schema": "output-schema",
		"-s":              "permission-mode", "--sandbox": "permission-mode", "--approve-for-me": "permission-mode",
		"--dangerously-bypass-approvals-and-sandbox": "permission-mode",
		"--trust": "", "--dangerously-bypass-hook-trust": "",
	}
}

// ownConfig are the configuration keys of the same kind, with those below them.
func ownConfig() []string {
	return []string{
		"model_provider", "model_providers", "openai_base_url", "chatgpt_base_url", "profile", "profiles",
		"projects", "sandbox_mode", "approval_policy", "mcp_servers",
	}
}

// checkArgs refuses args that would change what the runner relies on.
func checkArgs(args []string) error {
	own := ownFlags()
	for i, arg := range args {
		if i == 0 && !strings.HasPrefix(arg, "-") {
			return runtimes.Refuse("args", arg, "args: %q is not a flag: the prompt belongs in `prompt:`", arg)
		}
		if arg == "--" || arg == "-" {
			return runtimes.Refuse("args", arg, "args: %q would turn what follows into a prompt: remove it", arg)
		}
		name, value, _ := strings.Cut(arg, "=")
		if short(arg) && len(arg) > 2 { // -mMODEL
			name, value = arg[:2], strings.TrimPrefix(arg[2:], "=")
		}
		if name == "-c" || name == "--config" {
			if value == "" && i+1 < len(args) {
				value = args[i+1]
			}
			if err := checkConfig(arg, value); err != nil {
				return err
			}
		}
		key, ok := own[name]
		switch {
		case !ok:
		case key == "":
			return runtimes.Refuse("args", arg, "args: %s is set by the runner: remove it", name)
		default:
			return runtimes.Refuse("args", arg, "args: %s is set by the runner: use the key %q of `runtime:`", name, key)
		}
	}
	return nil
}

func short(arg string) bool {
	return len(arg) >= 2 && arg[0] == '-' && arg[1] != '-'
}

// checkConfig takes KEY=VALUE, KEY dotted and perhaps quoted, that arg gives.
func checkConfig(arg, setting string) error {
	key, _, _ := strings.Cut(setting, "=")
	first, _, _ := strings.Cut(key, ".")
	first = strings.Trim(strings.TrimSpace(first), `"'`)
	if slices.Contains(ownConfig(), first) {
		return runtimes.Refuse("args", arg, "args: the configuration %q is set by the runner: remove it", first)
	}
	return nil
}
