package command

import (
	"fmt"
	"strings"
	"unicode"
)

// Command is a workflow command: ::name key=value,key=value::value, or in the
// old form ##[name key=value;key=value]value.
type Command struct {
	Name string // lower-case
	// Props are the properties. Those of annotations are spelled file, line,
	// endLine, col, endColumn, title and that of set-output and save-state
	// name, however they were written.
	Props map[string]string
	Value string
	// Refused says why the command must not be done. GitHub shows it as an
	// error and the step fails.
	Refused string
	// Warning is for the person; the command is done all the same.
	Warning string
}

// The names of the commands. An unknown one is text.
const (
	Error         = "error"
	Warning       = "warning"
	Notice        = "notice"
	Debug         = "debug"
	Group         = "group"
	EndGroup      = "endgroup"
	AddMask       = "add-mask"
	StopCommands  = "stop-commands"
	SetOutput     = "set-output"
	SaveState     = "save-state"
	SetEnv        = "set-env"
	AddPath       = "add-path"
	Echo          = "echo"
	AddMatcher    = "add-matcher"
	RemoveMatcher = "remove-matcher"
)

func known(name string) bool {
	switch name {
	case Error, Warning, Notice, Debug, Group, EndGroup, AddMask, StopCommands,
		SetOutput, SaveState, SetEnv, AddPath, Echo, AddMatcher, RemoveMatcher:
		return true
	}
	return false
}

const (
	marker    = "::"
	oldMarker = "##["
)

// Parse reads one line, without its end, as a command. While commands are
// stopped, resume is the token that starts them again: only a command of that
// name is one then.
func Parse(line, resume string) (c Command, ok bool) {
	line = strings.TrimLeftFunc(line, unicode.IsSpace)
	info, value, separator, unescape := "", "", ",", unescapeData
	if rest, isNew := strings.CutPrefix(line, marker); isNew {
		info, value, ok = strings.Cut(rest, marker)
	} else if rest, isOld := strings.CutPrefix(line, oldMarker); isOld {
		info, value, ok = strings.Cut(rest, "]")
		separator, unescape = ";", unescapeOld
	}
	if !ok {
		return Command{}, false
	}
	name, props, _ := strings.Cut(info, " ")
	c.Name = strings.ToLower(name)
	if resume != "" {
		return c, strings.EqualFold(name, resume)
	}
	if !known(c.Name) {
		return Command{}, false
	}
	c.Value = unescape(value)
	unescapeProperty := unescapeProperty
	if separator == ";" {
		unescapeProperty = unescapeOld
	}
	c.Props = parseProps(props, separator, unescapeProperty)
	c.check()
	return c, true
}

func parseProps(s, separator string, unescape func(string) string) map[string]string {
	props := map[string]string{}
	for _, pair := range strings.Split(strings.TrimSpace(s), separator) {
		key, value, ok := strings.Cut(strings.TrimLeft(pair, "="), "=")
		if ok && key != "" && value != "" {
			props[canonical(key)] = unescape(value)
		}
	}
	return props
}

func canonical(key string) string {
	for _, known := range [...]string{"file", "line", "endLine", "col", "endColumn", "title", "name", "owner"} {
		if strings.EqualFold(key, known) {
			return known
		}
	}
	return key
}

// check says what GitHub's runner has against the command.
func (c *Command) check() {
	switch c.Name {
	case SetEnv, AddPath:
		c.Refused = fmt.Sprintf("The `%s` command is disabled. Write to the file $%s instead.", c.Name,
			map[string]string{SetEnv: "GITHUB_ENV", AddPath: "GITHUB_PATH"}[c.Name])
	case SetOutput, SaveState:
		file := map[string]string{SetOutput: "GITHUB_OUTPUT", SaveState: "GITHUB_STATE"}[c.Name]
		c.Warning = fmt.Sprintf("The `%s` command is deprecated and will be disabled soon. Write to the file $%s instead.", c.Name, file)
		if c.Props["name"] == "" {
			c.Refused = fmt.Sprintf("Required field 'name' is missing in ##[%s] command.", c.Name)
		}
	case AddMask:
		if strings.TrimSpace(c.Value) == "" {
			c.Warning = "Can't add secret mask for empty string in ##[add-mask] command."
		}
	case StopCommands:
		if c.Value == "" || known(strings.ToLower(c.Value)) || strings.EqualFold(c.Value, "pause-logging") {
			c.Refused = "The stop-commands token is empty or the name of a command. Use a random token, so that no other output starts commands again."
		}
	}
}

// The escapes are undone one after the other, %25 last, so that %250A is %0A
// and not a line feed.

func unescapeData(s string) string {
	return unescape(s, "%0D", "\r", "%0A", "\n", "%25", "%")
}

func unescapeProperty(s string) string {
	return unescape(s, "%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
}

func unescapeOld(s string) string {
	return unescape(s, "%3B", ";", "%0D", "\r", "%0A", "\n", "%5D", "]", "%25", "%")
}

func unescape(s string, pairs ...string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	for i := 0; i < len(pairs); i += 2 {
		s = strings.ReplaceAll(s, pairs[i], pairs[i+1])
	}
	return s
}
