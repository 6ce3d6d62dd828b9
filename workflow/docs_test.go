package workflow

import (
	"fmt"
	"strings"
	"testing"
)

const generated = "<!-- Made by `go test ./workflow -run Docs -update` from workflow/schema_*.go; change it there. -->\n\n"

func TestDocsOfSyntax(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Workflow syntax\n\n" + generated +
		"Every key that may stand in a workflow file, block by block. [workflow.md](workflow.md)\n" +
		"explains how to use them, [compatibility.md](compatibility.md) how far each goes\n" +
		"beside GitHub. `herd-runner schema` prints the same as a JSON Schema for editors.\n\n" +
		"The last column lists the contexts that expressions may use there; where it is\n" +
		"empty no expression may stand. `success()`, `failure()`, `always()` and\n" +
		"`cancelled()` work in `if` only, `hashFiles()` in steps.\n\n")
	for _, block := range blocks() {
		fmt.Fprintf(&b, "## %s\n\n", heading(block))
		if block.doc != "" {
			b.WriteString(block.doc + "\n\n")
		}
		b.WriteString("| Key | Takes | Meaning | Contexts |\n|---|---|---|---|\n")
		for _, k := range block.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, takes(k.shape), meaning(k), contextsOf(k))
		}
		if block.free != nil {
			fmt.Fprintf(&b, "| any other | %s | | |\n", takes(*block.free))
		}
		b.WriteString("\n")
	}
	golden(t, "../docs/workflow-syntax.md", []byte(strings.TrimRight(b.String(), "\n")+"\n"))
}

// heading names a block by its place in the file.
func heading(b block) string {
	switch b.name {
	case "workflow", "job", "step", "schedule", "service", "ulimit":
		return strings.ToUpper(b.title[:1]) + b.title[1:]
	case "dispatch input", "call input", "call secret", "call output":
		return strings.ToUpper(b.title[:1]) + b.title[1:]
	case "job defaults", "job defaults.run":
		return "`" + strings.TrimPrefix(b.name, "job ") + "` of a job"
	case "runs-on", "strategy", "matrix", "environment", "snapshot", "container", "credentials", "budget", "retry", "runtime", "session", "docker", "network", "concurrency", "permissions":
		return "`" + b.name + "`"
	}
	return b.title
}

func meaning(k key) string {
	var notes []string
	if k.required {
		notes = append(notes, "Required.")
	}
	if k.ours {
		notes = append(notes, "*Ours.*")
	}
	if k.inert {
		notes = append(notes, "*No effect here.*")
	}
	return strings.TrimSpace(strings.ReplaceAll(k.doc, "|", `\|`) + " " + strings.Join(notes, " "))
}

func contextsOf(k key) string {
	p := places()[k.place]
	if len(p.contexts) == 0 {
		return ""
	}
	return strings.Join(p.contexts, " ")
}

// takes describes a shape in a few words.
func takes(s shape) string {
	switch s.kind {
	case nullShape:
		return "nothing"
	case textShape, filledShape:
		return "text"
	case numberShape:
		return "number"
	case booleanShape:
		return "`true`, `false`"
	case enumShape:
		if len(s.names) > 15 {
			return "name"
		}
		return "`" + strings.Join(s.names, "`, `") + "`"
	case listShape:
		return "list of " + takes(*s.of)
	case mapShape:
		return "names with " + takes(*s.of)
	case blockShape:
		return "[" + s.block + "](#" + anchor(s.block) + ")"
	case eitherShape:
		var all []string
		for _, e := range s.either {
			all = append(all, takes(e))
		}
		return strings.Join(all, ", or ")
	}
	return "anything"
}

// anchor is what GitHub makes of a block's heading.
func anchor(name string) string {
	h := strings.ToLower(heading(*language()[name]))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, h)
}
