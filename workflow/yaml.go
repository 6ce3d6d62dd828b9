package workflow

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on a workflow file. They keep bad input from costing more than a
// second; GitHub's own are of the same order or smaller.
const (
	maxFileBytes = 4 << 20
	maxDepth     = 100       // mappings and lists in each other
	maxKeys      = 5000      // of one block mapping
	maxTokens    = 600_000   // of YAML: names, values, brackets
	maxValues    = 1_000_000 // aliases spelled out
)

// reader turns YAML into Values and gathers what is wrong with it.
type reader struct {
	collector
	src     *source
	anchors map[string]*Value // nil while the anchor is being read
	total   int
}

func (r *reader) fail(rule string, p Pos, length int, hint, format string, args ...any) {
	r.add(SeverityError, rule, p, length, hint, fmt.Sprintf(format, args...))
}

// readYAML gives the file's one document; nil where it cannot be read at all.
func readYAML(file string, src []byte) (*Value, []Problem) {
	text := strings.TrimPrefix(string(src), "\ufeff")
	r := &reader{collector: collector{file: file}, anchors: map[string]*Value{}}
	if len(text) > maxFileBytes {
		r.fail("limit", Pos{1, 1}, 1, "split it into several workflows", "the file has %d bytes, at most %d are read", len(text), maxFileBytes)
		return nil, r.problems
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	r.src = newSource(file, text)
	if !r.characters() {
		return nil, r.problems
	}
	body := r.document(text)
	if body == nil {
		return nil, r.problems
	}
	return r.value(body, maxDepth), r.problems
}

// characters refuses what YAML does not allow in a file.
func (r *reader) characters() bool {
	for i, line := range r.src.lines {
		col := 1
		for j := 0; j < len(line); col++ {
			c, n := utf8.DecodeRuneInString(line[j:])
			switch {
			case c == utf8.RuneError && n == 1:
				r.fail("syntax", Pos{i + 1, col}, 1, "save the file as UTF-8", "byte %#02x is no UTF-8", line[j])
				return false
			case c < ' ' && c != '\t', c == 0x7f:
				r.fail("syntax", Pos{i + 1, col}, 1, "remove it, or write it as an escape in double quotes", "control character %#02x in the file", c)
				return false
			}
			j += n
		}
	}
	return true
}

// document reads the syntax tree. The library is known to panic on some broken
// input, which must not end the program.
func (r *reader) document(text string) (body ast.Node) {
	last := token.Position{Line: 1, Column: 1}
	defer func() {
		if p := recover(); p != nil {
			r.fail("syntax", Pos{last.Line, last.Column}, 1, "check quotes, brackets and indentation", "this is no YAML that can be read")
			body = nil
		}
	}()
	tokens := joinFlowScalars(dropNullTags(lexer.Tokenize(text)))
	for _, t := range tokens {
		if t.Type == token.InvalidType {
			last = *t.Position
			break
		}
	}
	if len(tokens) > maxTokens {
		r.fail("limit", r.clamp(tokenPos(tokens[maxTokens])), 1, "split it into several workflows", "the file has too many keys and values")
		return nil
	}
	if p, problem := tooBig(tokens); problem != "" {
		r.fail("limit", r.clamp(p), 1, "", "%s", problem)
		return nil
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if body != nil {
			r.fail("syntax", nodePos(doc.Body), 1, "put each workflow into a file of its own", "a second YAML document starts here")
			return body
		}
		body = doc.Body
	}
	if body == nil {
		r.fail("syntax", Pos{1, 1}, 1, "a workflow needs at least `on:` and `jobs:`", "the file is empty")
	}
	return body
}

func (r *reader) syntax(err error) {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		r.fail("syntax", Pos{1, 1}, 1, "", "cannot read this as YAML: %v", err)
		return
	}
	p := Pos{1, 1}
	if t := ye.GetToken(); t != nil && t.Position != nil {
		p = r.clamp(Pos{t.Position.Line, t.Position.Column})
	}
	if strings.Contains(ye.GetMessage(), "character '\t'") {
		r.fail("syntax", p, 1, "indent with spaces", "a tab cannot indent YAML")
		return
	}
	hint := ""
	if line := r.src.lines[p.Line-1]; strings.Contains(line, ": !") {
		hint = "a value that begins with ! needs quotes, or ${{ }} around it"
	}
	r.fail("syntax", p, 1, hint, "cannot read this as YAML: %s", strings.ToLower(strings.TrimSpace(ye.GetMessage())))
}

// clamp keeps a position of the library's inside the file.
func (r *reader) clamp(p Pos) Pos {
	p.Line = max(1, min(p.Line, len(r.src.lines)))
	p.Column = max(1, min(p.Column, r.src.width[p.Line-1]+1))
	return p
}

// nesting is a block collection that is open while tokens are looked at.
type nesting struct{ column, keys int }

// tooBig looks for what would make the syntax parser overflow its stack or take
// time in the square of the input: deep nesting and huge block mappings.
func tooBig(tokens token.Tokens) (p Pos, problem string) {
	var open []nesting
	flow, line, fresh, work := 0, 0, false, 0
	for _, t := range tokens {
		p = Pos{t.Position.Line, t.Position.Column}
		if flow == 0 && (p.Line != line || fresh) {
			for len(open) > 0 && open[len(open)-1].column > p.Column {
				keys := open[len(open)-1].keys
				work += keys * keys
				open = open[:len(open)-1]
			}
			if len(open) == 0 || open[len(open)-1].column < p.Column {
				open = append(open, nesting{column: p.Column})
			}
		}
		line = p.Line
		fresh = t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.MappingValueType:
			if flow == 0 {
				open[len(open)-1].keys++
			}
		}
		switch {
		case len(open)+flow > maxDepth:
			return p, fmt.Sprintf("nested deeper than %d levels", maxDepth)
		case len(open) > 0 && open[len(open)-1].keys > maxKeys:
			return p, fmt.Sprintf("a mapping with more than %d keys", maxKeys)
		case work > 2*maxKeys*maxKeys:
			return p, "the mappings up to here have too many keys"
		}
	}
	return p, ""
}

func nodePos(n ast.Node) Pos {
	switch n := n.(type) {
	case *ast.MappingNode:
		if n.IsFlowStyle || len(n.Values) == 0 {
			return tokenPos(n.Start)
		}
		return nodePos(n.Values[0].Key)
	case *ast.MappingValueNode:
		return nodePos(n.Key)
	case *ast.LiteralNode:
		return tokenPos(n.Start)
	case *ast.AnchorNode:
		return tokenPos(n.Start)
	case *ast.TagNode:
		return tokenPos(n.Start)
	}
	return tokenPos(n.GetToken())
}

func tokenPos(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{1, 1}
	}
	return Pos{t.Position.Line, t.Position.Column}
}
