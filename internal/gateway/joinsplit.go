package gateway

import (
	"encoding/json"
	"strings"
)

// growth is a text in an event of a stream that continues in later ones.
type growth struct {
	of   string // which text of the answer: equal in all events that continue it
	path []any  // to it in the event: keys and 0-based indexes
}

// joinSplit puts the pieces of a growing text into its first one, where what
// clean must change (a secret, the working directory) is split over several.
// Other texts stay as they streamed.
func (d *dialect) joinSplit(lines []string, clean func(string) string) []string {
	type piece struct {
		line int
		path []any
		text string
	}
	grown := map[string][]piece{}
	for i, line := range lines {
		data, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		for _, g := range d.growing([]byte(data)) {
			var text string
			from, to, ok := locate([]byte(data), g.path...)
			if ok && json.Unmarshal([]byte(data[from:to]), &text) == nil {
				grown[g.of] = append(grown[g.of], piece{i, g.path, text})
			}
		}
	}
	out := append([]string(nil), lines...)
	for _, pieces := range grown {
		var whole, apart strings.Builder
		for _, p := range pieces {
			whole.WriteString(p.text)
			apart.WriteString(clean(p.text))
		}
		joined := clean(whole.String())
		if joined == apart.String() {
			continue
		}
		for _, p := range pieces {
			out[p.line] = "data:" + replaceText(strings.TrimPrefix(out[p.line], "data:"), joined, p.path)
			joined = ""
		}
	}
	return out
}

// replaceText puts text in the place of the JSON string at path.
func replaceText(data, text string, path []any) string {
	from, to, ok := locate([]byte(data), path...)
	quoted, err := json.Marshal(text)
	if !ok || err != nil {
		return data
	}
	return data[:from] + string(quoted) + data[to:]
}

// locate finds the value at path (keys and 0-based indexes) in JSON.
func locate(data []byte, path ...any) (from, to int, ok bool) {
	from, to = 0, len(data)
	for _, step := range path {
		value := data[from:to]
		var found []byte
		switch step := step.(type) {
		case string:
			_ = eachKey(value, func(key string, v []byte) error {
				if key == step && found == nil {
					found = v
				}
				return nil
			})
		case int:
			found = item(value, step)
		}
		if found == nil {
			return 0, 0, false
		}
		// found is a slice of value: their capacities end at the same place.
		from += cap(value) - cap(found)
		to = from + len(found)
	}
	return from, to, true
}

// item is the n-th value of a JSON list, unread; nil: there is none.
func item(list []byte, n int) []byte {
	rest := trimSpace(list)
	if len(rest) == 0 || rest[0] != '[' {
		return nil
	}
	for rest = trimSpace(rest[1:]); len(rest) > 0 && rest[0] != ']'; n-- {
		size := valueLength(rest)
		if size <= 0 {
			return nil
		}
		if n == 0 {
			return rest[:size]
		}
		rest = trimSpace(rest[size:])
		if len(rest) == 0 || rest[0] != ',' {
			return nil
		}
		rest = trimSpace(rest[1:])
	}
	return nil
}
