package workflow

import (
	"path"
	"strings"
)

const checkoutAction = "actions/checkout"

func isCheckout(uses string) bool {
	name, version, ok := strings.Cut(uses, "@")
	return ok && version != "" && strings.EqualFold(name, checkoutAction)
}

// localPath is where in the project `./path` points to; ok is false for what
// points elsewhere.
func localPath(uses string) (clean string, ok bool) {
	rest, ok := strings.CutPrefix(uses, "./")
	if !ok {
		return "", false
	}
	clean = path.Clean(rest)
	return clean, !path.IsAbs(clean) && clean != ".." && !strings.HasPrefix(clean, "../") && !strings.ContainsAny(clean, "\\\x00")
}

// stepUses reads what a step uses in place of a script.
func (p *fileParser) stepUses(e Entry) *Value {
	v := p.filled(e)
	if v == nil || p.plainText(v, "`uses`") || p.outside(v) {
		return nil
	}
	name, _, versioned := strings.Cut(v.Text, "@")
	switch {
	case strings.HasPrefix(v.Text, "./"), isCheckout(v.Text):
		return v
	case strings.EqualFold(name, checkoutAction):
		p.errorf(v, "uses", "write actions/checkout@v4", "%s has no version", describe(v))
	case strings.HasPrefix(v.Text, "docker://"):
		p.errorf(v, "unsupported", "write `docker: "+strings.TrimPrefix(v.Text, "docker://")+"` and a `run:`", "actions that are an image are not there yet")
	case !versioned || !strings.Contains(name, "/"):
		p.errorf(v, "uses", "write ./path of an action in the project", "%s names no action", describe(v))
	default:
		p.errorf(v, "unsupported", "do its work in a `run:`, or copy the action into the project and write `uses: ./path`", "actions of other repositories are not there yet, found %s", describe(v))
	}
	return nil
}

func (p *fileParser) outside(v *Value) bool {
	if !strings.HasPrefix(v.Text, "./") {
		return false
	}
	_, ok := localPath(v.Text)
	if !ok {
		p.errorf(v, "uses", "write a path inside of the project", "%s points out of the project", describe(v))
	}
	return !ok
}

// jobUses reads the reusable workflow that a job calls.
func (p *fileParser) jobUses(e Entry) *Value {
	v := p.filled(e)
	if v == nil || p.plainText(v, "`uses`") || p.outside(v) {
		return nil
	}
	switch file, _ := localPath(v.Text); {
	case file == "":
		p.errorf(v, "unsupported", "copy the workflow into the project and write `uses: ./.github/workflows/NAME.yml`", "workflows of other repositories are not there yet, found %s", describe(v))
		return nil
	case path.Ext(file) != ".yml" && path.Ext(file) != ".yaml":
		p.errorf(v, "uses", "write ./.github/workflows/NAME.yml; an action is used by a step", "%s is no workflow file", describe(v))
		return nil
	}
	return v
}

// jobSecrets reads what a called workflow gets: `inherit`, or a mapping.
func (p *fileParser) jobSecrets(e Entry) *Value {
	if e.Value.Kind == Scalar && e.Value.Text == "inherit" {
		return e.Value
	}
	if v := e.Value; v.Kind == Scalar && !isNull(v) && !v.isExpression() {
		p.errorf(v, "type", "write `inherit`, or a mapping of names", "`secrets` cannot be %s", describe(v))
		return nil
	}
	return p.environment(e)
}

// InheritsSecrets says whether the called workflow gets all secrets of its
// caller.
func (j *Job) InheritsSecrets() bool {
	return j.Secrets != nil && j.Secrets.Kind == Scalar && j.Secrets.Text == "inherit"
}
