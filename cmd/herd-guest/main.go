// Command herd-guest is what runs inside of boxes: process 1, the agent loop of the
// SDK runtime and the probes of verify-sandbox. herd-runner carries it (package
// guests, scripts/build.sh); being small, it costs each box little time and memory.
package main

import (
	"fmt"
	"os"

	"github.com/herd-runner/herd-runner/internal/verify"
	"github.com/herd-runner/herd-runner/sandbox/guest"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) > 0 {
		switch args[0] {
		case "guest":
			return guest.Main(args[1:])
		case "attack":
			return verify.Main(args[1:], os.Stdin, os.Stdout)
		case "agent":
			return agent()
		}
	}
	fmt.Fprintf(os.Stderr, "herd-guest %q: herd-runner starts it in boxes, as guest, agent or attack\n", args)
	return 2
}
