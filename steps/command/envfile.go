package command

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Pair is one entry of an environment file.
type Pair struct{ Key, Value string }

// ParseEnvFile reads GITHUB_OUTPUT, GITHUB_ENV or GITHUB_STATE: lines NAME=VALUE,
// and NAME<<DELIMITER with lines up to one that is DELIMITER. Whichever of = and
// << comes first decides. Blank lines between entries are ignored. The error
// names file and the 1-based line; the pairs before it are returned with it and
// count, as in GitHub's runner.
func ParseEnvFile(file string, data []byte) ([]Pair, error) {
	var pairs []Pair
	lines := splitLines(decodeText(data))
	for i := 0; i < len(lines); i++ {
		line := lines[i].text
		if line == "" {
			continue
		}
		equals, heredoc := strings.Index(line, "="), strings.Index(line, "<<")
		var p Pair
		switch {
		case equals >= 0 && (heredoc < 0 || equals < heredoc):
			p = Pair{Key: line[:equals], Value: line[equals+1:]}
			if p.Key == "" {
				return pairs, fmt.Errorf("%s:%d: invalid format %q: the name before = must not be empty", file, i+1, clip(line))
			}
		case heredoc >= 0:
			end, err := readHeredoc(lines, i, &p)
			if err != nil {
				return pairs, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			i = end
		default:
			return pairs, fmt.Errorf("%s:%d: invalid format %q: expected NAME=VALUE or NAME<<DELIMITER", file, i+1, clip(line))
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// readHeredoc fills p from the lines after the one at, and returns the index of
// the delimiter's line.
func readHeredoc(lines []line, at int, p *Pair) (end int, err error) {
	name, delimiter, _ := strings.Cut(lines[at].text, "<<")
	if name == "" || delimiter == "" {
		return 0, fmt.Errorf("invalid format %q: neither the name nor the delimiter may be empty", clip(lines[at].text))
	}
	for end := at + 1; end < len(lines); end++ {
		if lines[end].text == delimiter {
			*p = Pair{Key: name, Value: joinLines(lines[at+1 : end])}
			return end, nil
		}
		if !lines[end].ended {
			return 0, fmt.Errorf("matching delimiter %q of %q not found: the file ends without it (does the value's last line end with a new line?)", clip(delimiter), clip(name))
		}
	}
	return 0, fmt.Errorf("matching delimiter %q of %q not found: the file ends without it", clip(delimiter), clip(name))
}

// ParsePathFile reads GITHUB_PATH: one directory a line, in the order to be put
// before PATH; of a directory that is there twice the last place counts.
func ParsePathFile(data []byte) []string {
	var paths []string
	for _, l := range splitLines(decodeText(data)) {
		p := strings.TrimSuffix(l.text, "\r")
		if p == "" {
			continue
		}
		for i, known := range paths {
			if known == p {
				paths = append(paths[:i], paths[i+1:]...)
				break
			}
		}
		paths = append(paths, p)
	}
	return paths
}

// CheckEnvName refuses the names that GITHUB_ENV must not set.
func CheckEnvName(name string) error {
	if strings.EqualFold(name, "NODE_OPTIONS") {
		return fmt.Errorf("can't store %s using '$GITHUB_ENV': it would change every Node program that comes later; set it in the step's env instead", strings.ToUpper(name))
	}
	return nil
}

// line is a line without its end, and whether it had one.
type line struct {
	text  string
	ended bool
}

// splitLines cuts at line feeds only: a carriage return belongs to the value.
func splitLines(s string) []line {
	var lines []line
	for s != "" {
		text, rest, ended := strings.Cut(s, "\n")
		lines = append(lines, line{text, ended})
		s = rest
	}
	return lines
}

func joinLines(lines []line) string {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	return strings.Join(texts, "\n")
}

// decodeText takes away a byte order mark; a UTF-16 one, which PowerShell's
// redirections write, decides how to read on.
func decodeText(data []byte) string {
	var order binary.ByteOrder
	switch {
	case len(data) >= 3 && string(data[:3]) == "\xef\xbb\xbf":
		return string(data[3:])
	case len(data) >= 2 && data[0] == 0xff && data[1] == 0xfe:
		order = binary.LittleEndian
	case len(data) >= 2 && data[0] == 0xfe && data[1] == 0xff:
		order = binary.BigEndian
	default:
		return string(data)
	}
	units := make([]uint16, 0, len(data)/2)
	for at := 2; at+1 < len(data); at += 2 {
		units = append(units, order.Uint16(data[at:]))
	}
	return string(utf16.Decode(units))
}

// clip shortens what goes into a message.
func clip(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
