// Command herd-runner runs workflows of coding agents in hardened containers.
package main

import (
	"os"
	"time"
)

// version is set by the linker in release builds.
var version = "dev"

func main() {
	app := &App{
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Environ: os.Environ,
		Now:     time.Now,
		Version: version,
	}
	os.Exit(app.Main(os.Args[1:]))
}
