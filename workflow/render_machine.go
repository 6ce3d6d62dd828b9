package workflow

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// RenderJSON writes problems as one JSON array; none are [].
func RenderJSON(w io.Writer, ps []Problem) error {
	if ps == nil {
		ps = []Problem{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(ps)
}

// RenderGitHub writes problems as the commands that GitHub shows as annotations.
func RenderGitHub(w io.Writer, ps []Problem) error {
	out := bufio.NewWriter(w)
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, p := range ps {
		message := p.Message
		if p.Hint != "" {
			message += "\n" + p.Hint
		}
		command := string(p.Severity)
		if p.Severity == SeverityNote {
			command = "notice"
		}
		fmt.Fprintf(out, "::%s file=%s,line=%d,col=%d,endColumn=%d,title=%s::%s\n", command, property.Replace(p.File),
			p.Line, p.Column, p.Column+p.Length, property.Replace(p.Rule), data.Replace(message))
	}
	return out.Flush()
}
