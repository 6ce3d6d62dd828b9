package redact

// automaton is an Aho-Corasick automaton over bytes: it finds all patterns in
// one pass, and its state says how much of what has been read may be the
// beginning of one. It is immutable. Ours because the stream needs that depth,
// which the libraries do not give.
type automaton struct {
	root    [256]int32 // where each byte leads from the beginning
	nodes   []node
	labels  []byte // edges of all nodes, see node.edges
	targets []int32
}

type node struct {
	edges, edgesEnd int32 // in labels and targets
	fail            int32 // the node of the longest proper suffix
	depth           int32 // bytes read that may be the beginning of a pattern still to end
	match           int32 // length of the longest pattern that ends here, or 0
}

// span is a part of the text, [start, end).
type span struct{ start, end int }

func newAutomaton(patterns []string) *automaton {
	children := []map[byte]int32{nil}
	a := &automaton{nodes: []node{{}}}
	for _, p := range patterns {
		at := int32(0)
		for i := range len(p) {
			next, ok := children[at][p[i]]
			if !ok {
				next = int32(len(a.nodes))
				if children[at] == nil {
					children[at] = make(map[byte]int32, 1)
				}
				children[at][p[i]] = next
				children = append(children, nil)
				a.nodes = append(a.nodes, node{depth: int32(i) + 1})
			}
			at = next
		}
		a.nodes[at].match = int32(len(p))
	}
	a.link(children)
	return a
}

// link lays out the edges and finds the suffix of each node, level by level.
func (a *automaton) link(children []map[byte]int32) {
	for b, n := range children[0] {
		a.root[b] = n
	}
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		n := &a.nodes[at]
		n.edges = int32(len(a.labels))
		for b, child := range children[at] {
			a.labels = append(a.labels, b)
			a.targets = append(a.targets, child)
			queue = append(queue, child)
			if at != 0 {
				a.nodes[child].fail = a.next(n.fail, b)
			}
			suffix := a.nodes[a.nodes[child].fail].match
			a.nodes[child].match = max(a.nodes[child].match, suffix)
		}
		n.edgesEnd = int32(len(a.labels))
		if n.edges == n.edgesEnd {
			n.depth = a.nodes[n.fail].depth
		}
	}
}

func (a *automaton) next(at int32, b byte) int32 {
	for at != 0 {
		n := &a.nodes[at]
		for i := n.edges; i < n.edgesEnd; i++ {
			if a.labels[i] == b {
				return a.targets[i]
			}
		}
		at = n.fail
	}
	return a.root[b]
}

// find reads text, which begins at offset, from the state at, and returns the
// state after it. It adds to found the parts that are secrets; those that
// overlap or touch become one.
func find[T string | []byte](a *automaton, at int32, text T, offset int, found *[]span) int32 {
	if len(a.nodes) == 1 {
		return 0
	}
	for i := 0; i < len(text); i++ {
		if at == 0 {
			for i < len(text) && a.root[text[i]] == 0 {
				i++
			}
			if i == len(text) {
				return 0
			}
		}
		at = a.next(at, text[i])
		if length := a.nodes[at].match; length > 0 {
			end := offset + i + 1
			addSpan(found, span{end - int(length), end})
		}
	}
	return at
}

// addSpan adds s, which ends after all that are there.
func addSpan(found *[]span, s span) {
	n := len(*found)
	for n > 0 && (*found)[n-1].end >= s.start {
		n--
		s.start = min(s.start, (*found)[n].start)
	}
	*found = append((*found)[:n], s)
}
