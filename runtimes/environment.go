package runtimes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Environment is what a CLI needs over its box's base environment: preset, then
// the workflow's own env over it, then HOME, TMPDIR, git's trust and a proxy
// exception for the gateway. The names in routing say where model traffic goes
// and with which credential: a workflow can not set them, and what an image
// sets is blanked. An error is a problem of the task.
func Environment(task Task, preset map[string]string, routing []string) (map[string]string, error) {
	box, own := task.Box, task.Config.Env
	env := maps.Clone(preset)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, own)
	for _, name := range routing {
		if _, ok := own[name]; ok {
			return nil, Refuse("env", name, "env: %s is set by the runner, which keeps credentials out of the box: remove it (base-url chooses another endpoint)", name)
		}
		if box.Env[name] != "" {
			env[name] = ""
		}
	}
	env["HOME"] = box.Home
	env["TMPDIR"] = box.Temp
	if box.Gateway != "" {
		// A proxy variable would catch the loopback address too.
		for _, name := range []string{"NO_PROXY", "no_proxy"} {
			old, ok := own[name]
			if !ok {
				old = box.Env[name]
			}
			env[name] = addNoProxy(old)
		}
	}
	switch task.Credential.Kind {
	case "api-key", "oauth", "login":
	case "":
		if box.Gateway != "" {
			return nil, fmt.Errorf("the task has no credential for the gateway")
		}
	default:
		return nil, fmt.Errorf("credential kind %q: expected api-key or oauth", task.Credential.Kind)
	}
	TrustWorkspace(env, box)
	return env, nil
}

func addNoProxy(old string) string {
	list := []string{"127.0.0.1", "localhost"}
	for _, host := range strings.Split(old, ",") {
		if host = strings.TrimSpace(host); host != "" && !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	return strings.Join(list, ",")
}
