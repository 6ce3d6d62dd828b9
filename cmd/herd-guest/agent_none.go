//go:build !carryagent

package main

import (
	"fmt"
	"os"
)

// agent is for want of the program: the go command alone does not lay it here.
func agent() int {
	fmt.Fprintln(os.Stderr, "herd-guest agent: this build carries no agent; build it with scripts/build.sh")
	return 1
}
