package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// facts are what the runner's side tells a probe.
type facts struct {
	Runner, Workdir, Home, Temp string
	MountPoints                 []string          // asked for
	Namespaces                  map[string]string // of the runner, by name; empty where it is not on the engine's machine
	PidsLimit, Memory           int64
	Beside                      string // path of a file on the runner's machine, beside the project
	BesideText                  string // what is in it
	RecordText                  string // what is in .herd
	Loopback                    string // host:port of a listener on the runner's loopback
	Neighbours                  []string
	Gateway, Token, Egress      string
	// Salt and Digests tell real credentials without showing them to the box.
	Salt    string
	Digests []string
}

// answer is what a probe prints: one line of JSON.
type answer struct {
	Hole  bool   `json:"hole"`
	Seen  string `json:"seen"`
	Error string `json:"error,omitempty"` // it could not be tried
}

func hole(format string, args ...any) answer {
	return answer{Hole: true, Seen: fmt.Sprintf(format, args...)}
}

func held(format string, args ...any) answer { return answer{Seen: fmt.Sprintf(format, args...)} }

func unable(format string, args ...any) answer { return answer{Error: fmt.Sprintf(format, args...)} }

// digest is how a credential is told to a box that must not see it.
func digest(salt, value string) string {
	h := hmac.New(sha256.New, []byte(salt))
	h.Write([]byte(value))
	return hex.EncodeToString(h.Sum(nil))
}

// dialTime bounds one try to connect.
const dialTime = 3 * time.Second

// Main is what process 1's executable does in a box under attack: the probe of
// that name, with the facts as JSON on stdin; one with more arguments asks for
// none. It returns the exit code.
func Main(args []string, stdin io.Reader, stdout io.Writer) int {
	if len(args) == 0 {
		return 2
	}
	var f facts
	if len(args) == 1 {
		if err := json.NewDecoder(io.LimitReader(stdin, 1<<20)).Decode(&f); err != nil {
			return 2
		}
	}
	if serve, ok := servants()[args[0]]; ok {
		return serve(f, stdout)
	}
	probe, ok := probes()[args[0]]
	if !ok {
		return 2
	}
	if err := json.NewEncoder(stdout).Encode(probe(f)); err != nil {
		return 2
	}
	return 0
}
