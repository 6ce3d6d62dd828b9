package e2e

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What only the agent needs is carried, not linked: every run and every box would
// pay for it.
func TestTheAgentIsCarried(t *testing.T) {
	herd := built(t).herd
	info, err := buildinfo.ReadFile(herd)
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range info.Deps {
		for _, vendor := range []string{"github.com/anthropics/", "github.com/openai/", "google.golang.org/genai", "github.com/modelcontextprotocol/"} {
			if strings.HasPrefix(dep.Path, vendor) {
				t.Errorf("herd-runner links %s", dep.Path)
			}
		}
	}
	cmd := exec.Command(herd, "agent")
	cmd.Stdin, cmd.Stderr = strings.NewReader("{}"), os.Stderr
	out, err := cmd.Output()
	if err == nil || !strings.Contains(string(out), "this herd-runner speaks") {
		t.Errorf("the agent: %v, %s", err, out)
	}
}
