package workflow

import "slices"

func permissionScopes() []string {
	return []string{"actions", "artifact-metadata", "attestations", "checks", "contents", "deployments", "discussions",
		"id-token", "issues", "models", "packages", "pages", "pull-requests", "repository-projects", "security-events", "statuses"}
}

// permissions are checked and kept; nothing here acts on them.
func (p *fileParser) permissions(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	v := e.Value
	all, levels := []string{"read-all", "write-all"}, []string{"read", "write", "none"}
	switch v.Kind {
	case Sequence:
		p.errorf(v, "type", "", "`permissions` must be a mapping, read-all or write-all, found a list")
	case Scalar:
		if !slices.Contains(all, v.Text) {
			p.errorf(v, "type", suggest(v.Text, all), "`permissions` must be a mapping, read-all or write-all, found %s", describe(v))
		}
	case Mapping:
		for _, e := range v.Entries {
			if !slices.Contains(permissionScopes(), e.Key.Text) {
				p.unknown(e.Key, "`permissions`", permissionScopes())
				continue
			}
			if e.Value.Kind != Scalar || !slices.Contains(levels, e.Value.Text) {
				p.errorf(e.Value, "type", suggest(e.Value.Text, levels), "permission %q must be read, write or none, found %s", e.Key.Text, describe(e.Value))
			}
		}
	}
	return v
}
