package agent

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// permission is what a step lets its model do: all that allowed names, or
// everything where it names nothing, less what denied names. It guides the
// model; the border is the box.
type permission struct {
	dir             string // of relative paths
	allowed, denied []sdk.Rule
}

func newPermission(req sdk.Request) (permission, error) {
	p := permission{dir: req.Workdir}
	for _, list := range []struct {
		from []string
		to   *[]sdk.Rule
	}{{req.AllowedTools, &p.allowed}, {req.DeniedTools, &p.denied}} {
		for _, text := range list.from {
			rule, err := sdk.ParseRule(text)
			if err != nil {
				return p, err
			}
			*list.to = append(*list.to, rule)
		}
	}
	return p, nil
}

// offers says whether the model should see the tool.
func (p permission) offers(tool string) bool {
	if slices.ContainsFunc(p.denied, func(r sdk.Rule) bool { return r.Pattern == "" && glob(r.Tool, tool) }) {
		return false
	}
	return len(p.allowed) == 0 || slices.ContainsFunc(p.allowed, func(r sdk.Rule) bool { return glob(r.Tool, tool) })
}

// check is the refusal of one use of a tool that is offered; nil: it may run.
func (p permission) check(tool string, input json.RawMessage) error {
	allowed, anyUse := p.patterns(p.allowed, tool)
	anyUse = anyUse || len(p.allowed) == 0
	denied, _ := p.patterns(p.denied, tool)
	if anyUse && len(denied) == 0 && tool != "bash" {
		return nil
	}
	var in struct {
		Command, Path, Pattern, URL string
	}
	if json.Unmarshal(input, &in) != nil {
		return nil // the tool says so
	}
	switch tool {
	case "bash":
		return p.checkCommand(in.Command, anyUse, allowed, denied)
	case "fetch":
		return judge(in.URL, anyUse, allowed, denied, matchAddress)
	}
	if tool == "glob" && filepath.IsAbs(in.Pattern) {
		in.Path, _ = doublestar.SplitPattern(in.Pattern)
	}
	return judge(in.Path, anyUse, allowed, denied, p.matchPath)
}

// patterns are those of the rules for tool; whole says that a rule has none.
func (p permission) patterns(rules []sdk.Rule, tool string) (patterns []string, whole bool) {
	for _, r := range rules {
		switch {
		case !glob(r.Tool, tool):
		case r.Pattern == "":
			whole = true
		default:
			patterns = append(patterns, r.Pattern)
		}
	}
	return patterns, whole
}

// judge decides about one subject.
func judge(subject string, anyUse bool, allowed, denied []string, match func(pattern, subject string) bool) error {
	hit := func(pattern string) bool { return match(pattern, subject) }
	if i := slices.IndexFunc(denied, hit); i >= 0 {
		return refusal("denied-tools has a rule against %q: %s", subject, denied[i])
	}
	if !anyUse && !slices.ContainsFunc(allowed, hit) {
		return refusal("%q is not among what allowed-tools has: %s", subject, strings.Join(allowed, ", "))
	}
	return nil
}

// refusal is told to the model.
func refusal(format string, args ...any) error {
	return fmt.Errorf("not run, this step does not allow it: "+format+". Do it another way, or say what is missing", args...)
}

// matchPath matches files and directories, in the workspace by their relative
// path.
func (p permission) matchPath(pattern, path string) bool {
	if path == "" {
		path = "."
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.dir, path)
	}
	path = filepath.Clean(path)
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(p.dir, strings.TrimPrefix(pattern, "./"))
	}
	ok, err := doublestar.Match(pattern, path)
	return err == nil && ok
}

// matchAddress matches "domain:example.com" by host, with "*." for those below,
// and other patterns by the whole address.
func matchAddress(pattern, address string) bool {
	host, byHost := strings.CutPrefix(pattern, "domain:")
	if !byHost {
		return glob(pattern, address)
	}
	u, err := url.Parse(address)
	return err == nil && glob(strings.ToLower(host), strings.ToLower(u.Hostname()))
}

// glob matches text with a pattern in which * stands for any text.
func glob(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, last)
}
