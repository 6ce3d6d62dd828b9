// Command testguest is the guest alone, as a small static executable for
// tests of package docker.
package main

import (
	"os"

	"github.com/herd-runner/herd-runner/sandbox/guest"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "guest" {
		os.Exit(2)
	}
	os.Exit(guest.Main(os.Args[2:]))
}
