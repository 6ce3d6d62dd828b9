package docker

import (
	"encoding/json"

	"github.com/moby/profiles/seccomp"
)

// dockerSeccomp is the default profile of Docker engines, as a file.
func dockerSeccomp() ([]byte, error) { return json.Marshal(seccomp.DefaultProfile()) }
