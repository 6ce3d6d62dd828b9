package github

import (
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// Runner is the machine as the steps see it.
type Runner struct {
	GOOS, GOARCH string
	Name         string
	RunID        string // ours
}

// Environment gives the variables that every step starts with, made from the
// context. The token is not among them, nor what differs by box: RUNNER_TEMP and
// RUNNER_TOOL_CACHE.
func Environment(github *expr.Object, r Runner) map[string]string {
	env := map[string]string{
		"CI": "true", "GITHUB_ACTIONS": "true",
		"RUNNER_OS": RunnerOS(r.GOOS), "RUNNER_ARCH": RunnerArch(r.GOARCH), "RUNNER_ENVIRONMENT": "self-hosted",
	}
	for _, key := range []string{
		"actor", "actor_id", "api_url", "base_ref", "event_name", "event_path", "graphql_url", "head_ref", "job", "ref", "ref_name",
		"ref_protected", "ref_type", "repository", "repository_id", "repository_owner", "repository_owner_id", "retention_days",
		"run_attempt", "run_id", "run_number", "server_url", "sha", "triggering_actor", "workflow", "workflow_ref", "workflow_sha", "workspace",
	} {
		if v, ok := github.Get(key); ok {
			env["GITHUB_"+strings.ToUpper(key)] = expr.String(v)
		}
	}
	for key, value := range map[string]string{"RUNNER_NAME": r.Name, "HERD_RUN_ID": r.RunID} {
		if value != "" {
			env[key] = value
		}
	}
	if env["GITHUB_EVENT_PATH"] == "" {
		delete(env, "GITHUB_EVENT_PATH")
	}
	return env
}

// RunnerOS is runner.os for a GOOS.
func RunnerOS(goos string) string {
	switch goos {
	case "darwin":
		return "macOS"
	case "windows":
		return "Windows"
	}
	return "Linux"
}

// RunnerArch is runner.arch for a GOARCH.
func RunnerArch(goarch string) string {
	switch goarch {
	case "amd64":
		return "X64"
	case "386":
		return "X86"
	case "arm64":
		return "ARM64"
	case "arm":
		return "ARM"
	}
	return strings.ToUpper(goarch)
}
