package gateway

import (
	"encoding/json"
	"strings"
)

// delta is a content_block_delta with one text that grows.
type delta struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
	Delta struct {
		Type     string  `json:"type"`
		Text     *string `json:"text,omitempty"`
		JSON     *string `json:"partial_json,omitempty"`
		Thinking *string `json:"thinking,omitempty"`
	} `json:"delta"`
}

func (d *delta) text() *string {
	switch d.Delta.Type {
	case "text_delta":
		return d.Delta.Text
	case "input_json_delta":
		return d.Delta.JSON
	case "thinking_delta":
		return d.Delta.Thinking
	}
	return nil
}

// joinSplit puts the deltas of a content block into its first one, where what
// clean must change (a secret, the working directory) is split over several.
// Other blocks stay as they streamed.
func joinSplit(lines []string, clean func(string) string) []string {
	type part struct {
		line  int
		delta delta
	}
	blocks := map[int][]part{}
	for i, line := range lines {
		data, ok := strings.CutPrefix(line, "data:")
		var d delta
		if !ok || !strings.Contains(data, "content_block_delta") || json.Unmarshal([]byte(data), &d) != nil || d.text() == nil {
			continue
		}
		blocks[d.Index] = append(blocks[d.Index], part{i, d})
	}
	out := append([]string(nil), lines...)
	for _, parts := range blocks {
		var whole, apart strings.Builder
		for _, p := range parts {
			whole.WriteString(*p.delta.text())
			apart.WriteString(clean(*p.delta.text()))
		}
		joined := clean(whole.String())
		if joined == apart.String() {
			continue
		}
		for i, p := range parts {
			*p.delta.text() = ""
			if i == 0 {
				*p.delta.text() = joined
			}
			data, err := json.Marshal(p.delta)
			if err != nil {
				data = nil
			}
			out[p.line] = "data: " + string(data)
		}
	}
	return out
}
