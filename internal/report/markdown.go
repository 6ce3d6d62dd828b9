package report

import (
	"fmt"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// markdownMax is GitHub's limit for the summary of a step, in bytes.
const markdownMax = 1 << 20

// Markdown is the summary of a run: how it ended, its steps, why they failed,
// and what they wrote to GITHUB_STEP_SUMMARY, at most 1 MiB in all.
func Markdown(s journal.RunState) string {
	var b strings.Builder
	now := s.Finished
	sign, _ := mark(s.Status)
	fmt.Fprintf(&b, "## %s %s: %s\n\n", sign, mdText(orElse(s.Info.Name, orElse(s.Info.Workflow, s.Info.File))), s.Status)
	fmt.Fprintf(&b, "Run `%s` took %s.\n\n", mdCode(s.ID), Duration(s.Duration(now)))
	b.WriteString("| Job | Step | Result | Duration | Tokens in | out | Cost |\n|---|---|---|--:|--:|--:|--:|\n")
	for _, st := range s.Steps() {
		took := ""
		if st.Status != journal.Skipped {
			took = Duration(st.Duration(now))
		}
		sign, _ := stepMark(st)
		mdRow(&b, mdText(jobName(st)), mdText(stepName(st)), sign+" "+mdText(result(st.Status, st.Outcome)+origin(st)), took, tokensIn(st.Usage), tokensOut(st.Usage), Cost(st.Usage))
	}
	mdRow(&b, "**total**", "", "", Duration(s.Duration(now)), tokensIn(s.Usage), tokensOut(s.Usage), Cost(s.Usage))
	mdFailures(&b, s)
	for _, st := range s.Steps() {
		if text := strings.TrimSpace(st.Summary); text != "" {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", mdText(jobName(st)+" / "+stepName(st)), text)
		}
	}
	text := b.String()
	const note = "\n\n_The rest was left out: a summary holds at most 1 MiB._\n"
	if len(text) > markdownMax {
		text = strings.ToValidUTF8(text[:markdownMax-len(note)], "") + note
	}
	return text
}

func mdFailures(b *strings.Builder, s journal.RunState) {
	title := "\n### Failures\n\n"
	for _, st := range s.Steps() {
		o := st.Outcome
		if o == nil || o.Outcome != "failure" {
			continue
		}
		fmt.Fprintf(b, "%s- **%s**", title, mdText(jobName(st)+" / "+stepName(st)))
		title = ""
		if at := place(st.Info.File, st.Info.Line); at != "" {
			fmt.Fprintf(b, " (`%s`)", mdCode(at))
		}
		fmt.Fprintf(b, ": %s", mdText(result(st.Status, o)))
		for _, part := range []string{o.Message, hintOf(o)} {
			if part != "" {
				fmt.Fprintf(b, ". %s", mdText(oneLine(part, 500)))
			}
		}
		b.WriteString("\n")
	}
}

func hintOf(o *event.Outcome) string {
	if o.Hint == "" {
		return ""
	}
	return "Hint: " + o.Hint
}

func mdRow(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

var mdEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "@", "&#64;")

// mdText keeps text on one line and its characters from meaning something.
func mdText(s string) string { return mdEscapes.Replace(oneLine(s, 500)) }

func mdCode(s string) string { return strings.ReplaceAll(oneLine(s, 200), "`", "'") }
