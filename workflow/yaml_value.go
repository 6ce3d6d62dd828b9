package workflow

import (
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// value turns one node into a Value. depth is how many levels may still follow.
func (r *reader) value(n ast.Node, depth int) *Value {
	if n == nil {
		return &Value{src: r.src, size: 1}
	}
	pos := r.clamp(nodePos(n))
	v := &Value{Pos: pos, EndLine: pos.Line, src: r.src, size: 1}
	if depth == 0 && isCollection(n) {
		r.fail("limit", pos, 1, "", "nested deeper than %d levels", maxDepth)
		return v
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		return r.anchor(n, depth)
	case *ast.AliasNode:
		return r.alias(n, v, depth)
	case *ast.TagNode:
		return r.tag(n, v, depth)
	case *ast.MappingNode:
		v.Kind, v.height = Mapping, 1
		r.entries(v, n.Values, depth)
	case *ast.MappingValueNode:
		v.Kind, v.height = Mapping, 1
		r.entries(v, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		v.Kind, v.height = Sequence, 1
		for _, item := range n.Values {
			r.item(v, r.value(item, depth-1))
		}
	case *ast.LiteralNode:
		v.Quoted = true
		v.Text, v.Plain = n.Value.Value, n.Value.Value
		v.EndLine += lineBreaks(n.Value.GetToken())
	default:
		r.scalar(n, v)
	}
	if v.Kind != Scalar {
		v.EndLine = endLine(v)
	}
	return v
}

func isCollection(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		return true
	}
	return false
}

func (r *reader) scalar(n ast.Node, v *Value) {
	t := n.GetToken()
	if _, implicit := n.(*ast.NullNode); implicit && t != nil && t.Type == token.ImplicitNullType {
		return
	}
	if t == nil {
		return
	}
	v.Text = t.Value
	v.Quoted = t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	v.EndLine += strings.Count(strings.Trim(t.Origin, " \n"), "\n")
	if v.Quoted {
		v.Plain = v.Text
		return
	}
	v.Text = strings.TrimSpace(v.Text)
	v.Plain = coreScalar(v.Text)
}

func lineBreaks(t *token.Token) int {
	if t == nil {
		return 0
	}
	return strings.Count(strings.TrimRight(t.Origin, " \n"), "\n") + 1
}

func endLine(v *Value) int {
	end := v.Pos.Line
	for _, item := range v.Items {
		end = max(end, item.EndLine)
	}
	for _, e := range v.Entries {
		if e.Value.Pos.Line >= v.Pos.Line { // not the target of an alias
			end = max(end, e.Value.EndLine)
		}
	}
	return end
}

// item adds a child to a sequence and counts it.
func (r *reader) item(v, child *Value) {
	v.Items = append(v.Items, child)
	v.grow(child)
}

// grow counts a child.
func (v *Value) grow(child *Value) {
	v.size += child.size
	v.height = max(v.height, child.height+1)
}

func (r *reader) entries(v *Value, nodes []*ast.MappingValueNode, depth int) {
	seen := make(map[string]*Value, len(nodes))
	for _, n := range nodes {
		if n.Key.IsMergeKey() {
			r.fail("syntax", r.clamp(tokenPos(n.Key.GetToken())), 2, "write the keys out, or use an alias for the whole value", "merge keys (<<) do not exist in workflow files")
			continue
		}
		key := r.key(n.Key)
		if key == nil {
			continue
		}
		child := r.value(n.Value, depth-1)
		if child.Pos.Line == 0 || (child.Kind == Scalar && child.Text == "" && !child.Quoted && child.Plain == nil) {
			child.Pos, child.EndLine = key.Pos, key.Pos.Line // an empty value is shown at its key
		}
		if first, dup := seen[strings.ToLower(key.Text)]; dup {
			r.duplicate(key, first)
			continue
		}
		seen[strings.ToLower(key.Text)] = key
		v.Entries = append(v.Entries, Entry{key, child})
		v.grow(child)
	}
}

func (r *reader) duplicate(key, first *Value) {
	if key.Text == first.Text {
		r.fail("duplicate-key", key.Pos, key.width(), "remove one of them", "key %q is already written in line %d", key.Text, first.Pos.Line)
		return
	}
	r.fail("duplicate-key", key.Pos, key.width(), "keys are told apart without regard to case; rename one of them",
		"key %q is already written in line %d as %q", key.Text, first.Pos.Line, first.Text)
}

func (r *reader) key(n ast.MapKeyNode) *Value {
	var node ast.Node = n
	if m, ok := n.(*ast.MappingKeyNode); ok {
		node = m.Value
	}
	if node == nil {
		r.fail("syntax", r.clamp(tokenPos(n.GetToken())), 1, "", "a key is missing here")
		return nil
	}
	v := r.value(node, 2)
	if v.Kind != Scalar {
		r.fail("syntax", v.Pos, 1, "write a name", "a key must be a plain text, found %s", describe(v))
		return nil
	}
	return v
}

func (r *reader) anchor(n *ast.AnchorNode, depth int) *Value {
	name := ""
	if n.Name != nil {
		name = n.Name.GetToken().Value
	}
	r.anchors[name] = nil
	v := r.value(n.Value, depth)
	r.anchors[name] = v
	return v
}

func (r *reader) alias(n *ast.AliasNode, v *Value, depth int) *Value {
	name := ""
	if n.Value != nil {
		name = n.Value.GetToken().Value
	}
	target, known := r.anchors[name]
	switch {
	case !known:
		names := make([]string, 0, len(r.anchors))
		for a := range r.anchors {
			names = append(names, a)
		}
		r.fail("syntax", v.Pos, len([]rune(name))+1, didYouMean(name, names), "alias *%s has no anchor &%s before it", name, name)
		return v
	case target == nil:
		r.fail("syntax", v.Pos, len([]rune(name))+1, "", "alias *%s stands inside its own anchor &%s", name, name)
		return v
	case target.height > depth:
		r.fail("limit", v.Pos, len([]rune(name))+1, "", "nested deeper than %d levels with what *%s stands for", maxDepth, name)
		return v
	}
	// Values are shared, so a bomb costs nothing here; who walks over them later would pay.
	r.total += target.size
	if r.total > maxValues {
		if r.total-target.size <= maxValues {
			r.fail("limit", v.Pos, len([]rune(name))+1, "", "aliases grow to more than %d values here", maxValues)
		}
		return v
	}
	return target
}

// hasTag says whether a value is of the type that a tag names.
func hasTag(x expr.Value, tag string) bool {
	switch x := x.(type) {
	case nil:
		return tag == "!!null"
	case bool:
		return tag == "!!bool"
	case float64:
		return tag == "!!float" || tag == "!!int" && x == math.Trunc(x)
	}
	return false
}

func (r *reader) tag(n *ast.TagNode, v *Value, depth int) *Value {
	name := n.Start.Value
	if core, ok := strings.CutPrefix(name, "!<tag:yaml.org,2002:"); ok {
		name = "!!" + strings.TrimSuffix(core, ">")
	}
	inner := r.value(n.Value, depth)
	plain := inner.Kind == Scalar
	switch name {
	case "!!str":
		if plain {
			inner.Plain = inner.Text
			return inner
		}
	case "!!int", "!!float", "!!bool", "!!null":
		if !plain {
			break
		}
		inner.Plain = coreScalar(inner.Text)
		if !hasTag(inner.Plain, name) {
			r.fail("syntax", inner.Pos, inner.width(), "remove the tag", "%q is no %s", inner.Text, strings.TrimPrefix(name, "!!"))
		}
		return inner
	case "!!map":
		if inner.Kind == Mapping {
			return inner
		}
	case "!!seq":
		if inner.Kind == Sequence {
			return inner
		}
	}
	hint := "remove the tag"
	if !strings.HasPrefix(name, "!!") {
		hint = "a value that begins with ! needs quotes, or ${{ }} around it"
	}
	r.fail("syntax", v.Pos, len([]rune(name)), hint, "tag %s cannot stand here", name)
	return inner
}
