package main

import (
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"herd-runner": func() {
			app := &App{
				Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Getenv: os.Getenv, Environ: os.Environ, Now: time.Now, Version: "test",
			}
			os.Exit(app.Main(os.Args[1:]))
		},
	})
}

// TestScripts runs the binary as its user would, one scenario per file. None of
// them needs an engine.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Nothing of this machine's policy, credentials or engine.
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("DOCKER_HOST", "unix://"+env.WorkDir+"/no-engine.sock")
			env.Setenv("NO_COLOR", "1")
			return os.Mkdir(env.WorkDir+"/home", 0o755)
		},
	})
}
