//go:build guests

package guests

import (
	"debug/elf"
	"testing"
)

// TestWhatIsCarried: a release carries an executable for each architecture.
func TestWhatIsCarried(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		name, err := Write(t.TempDir(), arch)
		if err != nil {
			t.Errorf("%s: %v", arch, err)
			continue
		}
		f, err := elf.Open(name)
		if err != nil {
			t.Errorf("%s: %v", arch, err)
			continue
		}
		if f.Machine != machine || f.Section(".interp") != nil {
			t.Errorf("%s: an executable for %s, static: %t", arch, f.Machine, f.Section(".interp") == nil)
		}
		_ = f.Close()
	}
}
