package steps

import (
	"maps"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// machine is what the variables depend on that steps start from, beside those of
// the box.
type machine struct {
	backend, os, arch string
	onHost            bool
}

// startEnv are the variables that every step in boxes of a kind starts from. Read
// only.
type startEnv struct {
	box      map[string]string // Info.Env
	all      map[string]string // these, and Options.Env over them
	listed   []variable        // all, sorted
	defaults map[string]bool   // names of those that nobody changes
}

// variable is one of a list.
type variable struct{ name, text string } // text is KEY=VALUE

// environment is that of one process: what it starts from with more laid over it.
type environment struct {
	start startEnv
	over  map[string]string
}

// processEnv is the whole environment of the step's process, over what the box
// gives: the run's, its own (workflow, job, GITHUB_ENV, step), and the default
// variables, which nobody changes.
func (s *stepRun) processEnv(info sandbox.Info, own map[string]string) environment {
	env := environment{start: s.startEnv(info, s.sc.onHost), over: make(map[string]string, len(own)+16)}
	for name, value := range own {
		if !env.start.defaults[name] {
			env.over[name] = value
		}
	}
	env.over["GITHUB_JOB"] = s.node.Job.ID
	env.over["GITHUB_ACTION"] = s.actionName()
	env.over["RUNNER_TEMP"] = info.Temp
	env.over["RUNNER_TOOL_CACHE"] = toolCache(info.Temp)
	env.over["GITHUB_WORKSPACE"] = info.Workdir
	s.frame.env(env.over, info)
	return env
}

// startEnv builds what steps in a box start from once for boxes that come one after
// another and are alike.
func (r *run) startEnv(info sandbox.Info, onHost bool) startEnv {
	r.startEnvsMu.Lock()
	defer r.startEnvsMu.Unlock()
	at := machine{info.Backend, info.OS, info.Arch, onHost}
	start, ok := r.startEnvs[at]
	if ok && maps.Equal(start.box, info.Env) {
		return start
	}
	given := r.Env(info)
	start = startEnv{box: info.Env, all: overlaid(info.Env, given), defaults: map[string]bool{}}
	start.listed = listed(start.all)
	for name := range given {
		if r.isDefault(name, onHost) {
			start.defaults[name] = true
		}
	}
	r.startEnvs[at] = start
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

// get is a variable's value; empty where there is none.
func (e environment) get(name string) string {
	if value, ok := e.over[name]; ok {
		return value
	}
	return e.start.all[name]
}

// list gives the variables as KEY=VALUE, sorted.
func (e environment) list() []string {
	list := make([]string, 0, len(e.start.listed)+len(e.over))
	over := listed(e.over)
	for _, v := range e.start.listed {
		if _, ok := e.over[v.name]; ok {
			continue
		}
		for len(over) > 0 && over[0].text < v.text {
			list, over = append(list, over[0].text), over[1:]
		}
		list = append(list, v.text)
	}
	for _, v := range over {
		list = append(list, v.text)
	}
	return list
}

// listed gives the variables that the kernel can carry, sorted by their text.
func listed(env map[string]string) []variable {
	list := make([]variable, 0, len(env))
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			continue
		}
		list = append(list, variable{name, name + "=" + value})
	}
	slices.SortFunc(list, func(a, b variable) int { return strings.Compare(a.text, b.text) })
	return list
}
