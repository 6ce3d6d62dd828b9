package steps

import (
	"maps"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// machine is what the variables depend on that steps start from.
type machine struct {
	backend, os, arch string
	onHost            bool
}

// startEnv are the variables that every step on a machine starts from. Read only.
type startEnv struct {
	given    map[string]string // Options.Env
	defaults map[string]string // those of them that nobody changes
}

// processEnv is the whole environment of the step's process, over what the box
// gives: the run's, its own (workflow, job, GITHUB_ENV, step), and the default
// variables, which nobody changes.
func (s *stepRun) processEnv(info sandbox.Info, own map[string]string) map[string]string {
	start := s.startEnv(info, s.sc.onHost)
	env := make(map[string]string, len(info.Env)+len(start.given)+len(own)+16)
	maps.Copy(env, info.Env)
	maps.Copy(env, start.given)
	maps.Copy(env, own)
	maps.Copy(env, start.defaults)
	env["GITHUB_JOB"] = s.node.Job.ID
	env["GITHUB_ACTION"] = s.actionName()
	env["RUNNER_TEMP"] = info.Temp
	env["RUNNER_TOOL_CACHE"] = toolCache(info.Temp)
	env["GITHUB_WORKSPACE"] = info.Workdir
	s.frame.env(env, info)
	return env
}

// startEnv builds what steps in a box start from once for all boxes like it.
func (r *run) startEnv(info sandbox.Info, onHost bool) startEnv {
	r.startEnvsMu.Lock()
	defer r.startEnvsMu.Unlock()
	at := machine{info.Backend, info.OS, info.Arch, onHost}
	start, ok := r.startEnvs[at]
	if !ok {
		start.given = r.Env(info)
		start.defaults = maps.Clone(start.given)
		maps.DeleteFunc(start.defaults, func(name, _ string) bool { return !r.isDefault(name, onHost) })
		r.startEnvs[at] = start
	}
	return start
}

// isDefault says whether a variable repeats what the contexts github and runner
// say; as at GitHub, no `env` and no GITHUB_ENV changes these.
func (r *run) isDefault(name string, onHost bool) bool {
	for _, c := range []struct{ prefix, context string }{{"GITHUB_", "github"}, {"RUNNER_", "runner"}} {
		key, ok := strings.CutPrefix(name, c.prefix)
		if !ok || name == "GITHUB_TOKEN" {
			continue
		}
		context, _ := r.Contexts(c.context, onHost)
		if o, isObject := context.(*expr.Object); isObject {
			if _, ok := o.Get(key); ok {
				return true
			}
		}
	}
	return name == "GITHUB_ACTIONS"
}

// overlaid is below with above laid over it.
func overlaid(below, above map[string]string) map[string]string {
	if len(below) == 0 {
		return above
	}
	all := maps.Clone(below)
	maps.Copy(all, above)
	return all
}

// environ lists variables as KEY=VALUE, sorted.
func environ(env map[string]string) []string {
	size := 0
	for k, v := range env {
		size += len(k) + len(v) + 1
	}
	var all strings.Builder // of which each variable is a part
	all.Grow(size)
	list := make([]string, 0, len(env))
	for k, v := range env {
		if k == "" || strings.IndexByte(k, '=') >= 0 || strings.IndexByte(k, 0) >= 0 || strings.IndexByte(v, 0) >= 0 {
			continue // the kernel can not carry it
		}
		from := all.Len()
		all.WriteString(k)
		all.WriteByte('=')
		all.WriteString(v)
		list = append(list, all.String()[from:])
	}
	slices.Sort(list)
	return list
}
