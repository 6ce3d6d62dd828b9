package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/herd-runner/herd-runner/workflow"
)

// Demand is one thing that needs the operator's word.
type Demand struct {
	Rule string
	What string // as the workflow says it: "docker.network: host"
}

// Paths says where volumes lie. Resolve follows all symbolic links of an
// existing absolute path, as filepath.EvalSymlinks does.
type Paths struct {
	Workspace string // absolute
	Home      string // absolute, for ~
	Resolve   func(string) (string, error)
}

// Demands gives the rules that a docker: block needs, in the order of its keys.
// An error means that a volume's source is not there.
func Demands(d workflow.Docker, paths Paths) ([]Demand, error) {
	var ds []Demand
	need := func(asked bool, rule, what string) {
		if asked {
			ds = append(ds, Demand{rule, what})
		}
	}
	need(d.Host, "host", "docker: false, which runs steps without a container,")
	need(d.Network.Mode == "host", "network-host", "docker.network: host")
	for _, host := range privateEntries(d.Network.Allow) {
		need(true, privatePrefix+host, fmt.Sprintf("%q in docker.network.allow, which is not of the internet,", host))
	}
	need(isRoot(d.User), "root", fmt.Sprintf("docker.user: %q", d.User))
	vs, err := resolveVolumes(d.Volumes, paths)
	if err != nil {
		return nil, err
	}
	for i, v := range vs {
		need(!v.free, volumeRule(v.path, v.ReadOnly), what(d.Volumes[i], v.path))
	}
	need(d.Auth == "env" || d.Auth == "mount", "auth:"+d.Auth, "docker.auth: "+d.Auth)
	need(d.Privileged, "privileged", "docker.privileged: true")
	need(len(d.HostConfig) > 0, "host-config", "docker.host-config")
	return ds, nil
}

// BaseURLDemands gives the rule that a runtime's base-url needs: the operator's
// credential for the API goes there. Empty: none.
func BaseURLDemands(base string) []Demand {
	if base == "" {
		return nil
	}
	return []Demand{{"base-url:" + base, fmt.Sprintf("runtime.base-url: %s, to which your credential would go,", base)}}
}

// WorkspaceDemands gives the rule that a workspace needs whose work is pushed.
func WorkspaceDemands(w workflow.Workspace) []Demand {
	if w.Push == "" {
		return nil
	}
	return []Demand{{"push:" + w.Push, "workspace.push: " + w.Push}}
}

func what(v workflow.Volume, path string) string {
	text := fmt.Sprintf("the volume %q", v.Source)
	if filepath.Clean(v.Source) != path {
		text += fmt.Sprintf(", which is %s,", path)
	}
	return text
}

// isRoot says whether a user "uid:gid" has the id or the group of root.
func isRoot(user string) bool {
	for part := range strings.SplitSeq(user, ":") {
		if n, err := strconv.ParseUint(part, 10, 64); part == "root" || err == nil && n == 0 {
			return true
		}
	}
	return false
}

type volume struct {
	workflow.Volume
	path string // absolute, without links
	free bool   // lies inside the workspace
}

func resolveVolumes(volumes []workflow.Volume, paths Paths) ([]volume, error) {
	if len(volumes) == 0 {
		return nil, nil
	}
	workspace, err := paths.Resolve(paths.Workspace)
	if err != nil {
		return nil, fmt.Errorf("look at the workspace: %w", err)
	}
	out := make([]volume, len(volumes))
	for i, v := range volumes {
		path := v.Source
		if path == "~" || strings.HasPrefix(path, "~/") {
			path = filepath.Join(paths.Home, path[1:])
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(workspace, path)
		}
		path, err := paths.Resolve(filepath.Clean(path))
		if err != nil {
			return nil, fmt.Errorf("volume %q: its source can not be used, create it first: %w", v.Source, err)
		}
		out[i] = volume{v, path, inside(path, workspace)}
	}
	return out, nil
}

// inside says whether path may be mounted without asking: below the workspace,
// but not the whole of it or a part of .git or .herd, which a box sees only in
// the form that the runner gives them.
func inside(path, workspace string) bool {
	rel, err := filepath.Rel(workspace, path)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return false
	}
	first, _, _ := strings.Cut(rel, "/")
	return !strings.EqualFold(first, ".git") && !strings.EqualFold(first, ".herd")
}

// Authorize refuses what d asks for and p does not allow. projectDir is
// absolute.
func (p *Policy) Authorize(d workflow.Docker, projectDir string) error {
	demands, err := Asked(d, projectDir)
	if err != nil {
		return err
	}
	return p.Check(demands)
}

// ResolveVolumes gives the volumes of d with absolute sources free of links, the
// paths that Authorize judged: what is mounted is what was allowed.
func ResolveVolumes(d workflow.Docker, projectDir string) ([]workflow.Volume, error) {
	paths, err := realPaths(d, projectDir)
	if err != nil {
		return nil, err
	}
	vs, err := resolveVolumes(d.Volumes, paths)
	if err != nil {
		return nil, err
	}
	out := make([]workflow.Volume, len(vs))
	for i, v := range vs {
		out[i] = v.Volume
		out[i].Source = v.path
	}
	return out, nil
}

// Asked gives what d asks of the policy of a project, allowed or not.
func Asked(d workflow.Docker, projectDir string) ([]Demand, error) {
	paths, err := realPaths(d, projectDir)
	if err != nil {
		return nil, err
	}
	return Demands(d, paths)
}

func realPaths(d workflow.Docker, projectDir string) (Paths, error) {
	paths := Paths{Workspace: projectDir, Resolve: filepath.EvalSymlinks}
	for _, v := range d.Volumes {
		if !strings.HasPrefix(v.Source, "~") {
			continue
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return Paths{}, errors.Join(fmt.Errorf("volume %q: where is the home directory?", v.Source), err)
		}
		paths.Home = home
	}
	return paths, nil
}
