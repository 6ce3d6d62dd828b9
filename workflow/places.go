package workflow

import (
	"slices"
	"strings"
	"sync"
)

// place is a kind of key in which expressions may stand, with what they may use
// there. The source is the `context` of GitHub's workflow schema, see also
// https://docs.github.com/en/actions/reference/workflows-and-actions/contexts#context-availability
type place struct {
	key       string // as in GitHub's table
	contexts  []string
	status    bool // success, failure, always, cancelled
	hashFiles bool
}

const (
	jobContexts    = "github needs strategy matrix vars inputs"
	runnerContexts = jobContexts + " job runner env steps"
	stepContexts   = runnerContexts + " secrets"
	// ourContexts are not GitHub's. budget is what is left to be spent.
	ourContexts = " budget"
)

// places gives all places by key. Keys of ours (runtime, docker, workspace,
// prompt, retry, budget) are evaluated in the scope of a step, wherever they stand.
var places = sync.OnceValue(func() map[string]place {
	m := map[string]place{}
	put := func(key, contexts string) place {
		p := place{key: key, contexts: strings.Fields(contexts)}
		m[key] = p
		return p
	}
	put("name", "")
	put("run-name", "github inputs vars")
	put("env", "github secrets inputs vars")
	put("concurrency", "github inputs vars")
	put("budget", "github inputs vars")
	put("defaults.run", "")
	put("on.workflow_call.inputs.default", "github inputs vars")
	put("on.workflow_call.outputs", "github jobs vars inputs")

	const job = "jobs.<job_id>."
	p := put(job+"if", "github needs vars inputs"+ourContexts)
	p.status = true
	m[p.key] = p
	put(job+"strategy", "github needs vars inputs")
	put(job+"env", jobContexts+" secrets")
	put(job+"defaults.run", jobContexts+" env")
	put(job+"environment.url", runnerContexts)
	put(job+"outputs", stepContexts)
	put(job+"container.credentials", jobContexts+" secrets env")
	put(job+"container.env", stepContexts)
	put(job+"secrets", jobContexts+" secrets")
	for _, k := range []string{"name", "runs-on", "concurrency", "continue-on-error", "environment", "timeout-minutes", "budget", "snapshot.if", "container", "services", "with"} {
		put(job+k, jobContexts)
	}

	const step = job + "steps."
	p = put(step+"if", runnerContexts+ourContexts)
	p.status, p.hashFiles = true, true
	m[p.key] = p
	put(step+"shell", "")
	p = put(step+"budget", stepContexts)
	p.hashFiles = true
	m[p.key] = p
	for _, k := range []string{"name", "run", "with", "prompt", "prompt-file", "env", "working-directory", "timeout-minutes",
		"continue-on-error", "retry", "runtime", "docker", "workspace"} {
		p = put(step+k, stepContexts+ourContexts)
		p.hashFiles = true
		m[p.key] = p
	}
	return m
})

// ours says whether GitHub has no such key.
func (p place) ours() bool {
	switch p.key[strings.LastIndex(p.key, ".")+1:] {
	case "prompt", "prompt-file", "retry", "budget", "runtime", "docker", "workspace":
		return true
	}
	return false
}

func (p place) has(context string) bool { return slices.Contains(p.contexts, context) }

func contextNames() []string {
	return []string{"github", "env", "vars", "job", "jobs", "steps", "runner", "secrets", "strategy", "matrix", "needs", "inputs", "budget"}
}
