package workflow

import "strings"

// place is a kind of key in which expressions may stand, with what they may use
// there. The source is GitHub's table of context availability:
// https://docs.github.com/en/actions/reference/workflows-and-actions/contexts#context-availability
type place struct {
	key       string // as in GitHub's table
	contexts  string // separated by spaces
	status    bool   // success, failure, always, cancelled
	hashFiles bool
}

const (
	stepContexts = "github needs strategy matrix job runner env vars secrets steps inputs"
	jobContexts  = "github needs strategy matrix vars inputs"
)

// The places. Keys of ours (runtime, docker, workspace, prompt, retry) are
// evaluated in the scope of a step, wherever they stand.
func places() map[string]place {
	m := map[string]place{}
	put := func(p place) { m[p.key] = p }
	put(place{key: "name"})
	put(place{key: "run-name", contexts: "github inputs vars"})
	put(place{key: "env", contexts: "github secrets inputs vars"})
	put(place{key: "concurrency", contexts: "github inputs vars"})
	put(place{key: "defaults.run", contexts: "github inputs vars"})
	put(place{key: "on.workflow_call.inputs.default", contexts: "github inputs vars"})
	put(place{key: "on.workflow_call.outputs", contexts: "github jobs vars inputs"})
	put(place{key: "jobs.<job_id>.if", contexts: "github needs vars inputs", status: true})
	put(place{key: "jobs.<job_id>.strategy", contexts: "github needs vars inputs"})
	put(place{key: "jobs.<job_id>.env", contexts: jobContexts + " secrets"})
	put(place{key: "jobs.<job_id>.defaults.run", contexts: jobContexts + " env"})
	put(place{key: "jobs.<job_id>.environment.url", contexts: jobContexts + " job runner env steps"})
	put(place{key: "jobs.<job_id>.outputs", contexts: jobContexts + " job runner env secrets steps"})
	for _, k := range []string{"name", "runs-on", "concurrency", "continue-on-error", "environment", "timeout-minutes"} {
		put(place{key: "jobs.<job_id>." + k, contexts: jobContexts})
	}
	put(place{key: "jobs.<job_id>.steps.if", contexts: strings.ReplaceAll(stepContexts, " secrets", ""), status: true, hashFiles: true})
	for _, k := range []string{"name", "run", "prompt", "prompt-file", "env", "shell", "working-directory", "timeout-minutes",
		"continue-on-error", "retry", "runtime", "docker", "workspace"} {
		put(place{key: "jobs.<job_id>.steps." + k, contexts: stepContexts, hashFiles: true})
	}
	return m
}

func (p place) has(context string) bool {
	for _, c := range strings.Fields(p.contexts) {
		if c == context {
			return true
		}
	}
	return false
}

func contextNames() []string {
	return []string{"github", "env", "vars", "job", "jobs", "steps", "runner", "secrets", "strategy", "matrix", "needs", "inputs"}
}
