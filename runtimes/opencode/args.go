package opencode

import (
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// ownFlags are the flags that Command sets, or that would undo what it sets,
// with the workflow key to use instead.
func ownFlags() map[string]string {
	return map[string]string{
		"--format": "", "--title": "", "--thinking": "", "--print-logs": "", "--log-level": "", "--pure": "",
		"-h": "", "--help": "", "-v": "", "--version": "", "-i": "", "--interactive": "",
		"--attach": "", "-p": "", "--password": "", "-u": "", "--username": "", "--port": "", "--dir": "", "--share": "",
		"--command": "",
		"-c":        "session", "--continue": "session", "-s": "session", "--session": "session", "--fork": "session",
		"-m": "model", "--model": "model",
		"--auto": "permission-mode",
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
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' { // -mMODEL
			name = arg[:2]
		}
		// The CLI takes --no-X for every X as well.
		key, ok := own[strings.Replace(name, "--no-", "--", 1)]
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
