package e2e

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What only boxes need is carried, not linked, and what only the agent needs is not
// in process 1 of a box: every run and every box would pay for it.
func TestWhatBoxesNeedIsCarried(t *testing.T) {
	p := built(t)
	vendors := []string{"github.com/anthropics/", "github.com/openai/", "google.golang.org/genai", "github.com/modelcontextprotocol/"}
	for file, unwanted := range map[string][]string{
		p.herd: vendors,
		filepath.Join(p.root, "internal/guests/embedded/linux-"+runtime.GOARCH): append(vendors, "github.com/docker/", "github.com/santhosh-tekuri/"),
	} {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, dep := range info.Deps {
			for _, start := range unwanted {
				if strings.HasPrefix(dep.Path, start) {
					t.Errorf("%s links %s", file, dep.Path)
				}
			}
		}
	}
	cmd := exec.Command(p.herd, "agent")
	cmd.Stdin, cmd.Stderr = strings.NewReader("{}"), os.Stderr
	out, err := cmd.Output()
	if err == nil || !strings.Contains(string(out), "this herd-runner speaks") {
		t.Errorf("the agent: %v, %s", err, out)
	}
}
