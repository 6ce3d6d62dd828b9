package gemini

import (
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// ownFlags are the flags that Command sets or that would undo what it sets,
// with the workflow key to use instead.
func ownFlags() map[string]string {
	return map[string]string{
		"-p": "", "--prompt": "", "-i": "", "--prompt-interactive": "", "-o": "", "--output-format": "",
		"-h": "", "--help": "", "-v": "", "--version": "", "-s": "", "--sandbox": "", "-w": "", "--worktree": "",
		"--acp": "", "--experimental-acp": "", "-l": "", "--list-extensions": "", "--list-sessions": "",
		"--delete-session": "", "--raw-output": "", "--accept-raw-output-risk": "", "-d": "", "--debug": "",
		"--skip-trust": "", "--extensions": "", "-e": "", "--policy": "", "--admin-policy": "",
		"-m": "model", "--model": "model", "-y": "permission-mode", "--yolo": "permission-mode",
		"--approval-mode": "permission-mode", "--allowed-tools": "allowed-tools",
		"--allowed-mcp-server-names": "mcp-servers",
		"-r":                         "session", "--resume": "session", "--session-id": "session", "--session-file": "session",
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
		switch key, ok := own[name]; {
		case !ok:
		case key == "":
			return runtimes.Refuse("args", arg, "args: %s is set by the runner: remove it", name)
		default:
			return runtimes.Refuse("args", arg, "args: %s is set by the runner: use the key %q of `runtime:`", name, key)
		}
	}
	return nil
}
