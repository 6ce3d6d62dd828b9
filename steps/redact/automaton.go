package redact

// automaton is an Aho-Corasick automaton over bytes: it finds all patterns in
// one pass, and its state says how much of what has been read may be the
// beginning of one. It is immutable. Ours because the stream needs that depth,
// which the libraries do not give.
type automaton struct {
	root [256]int32 // where each byte leads from the beginning
	// pairs has a bit for each two bytes that a pattern may begin with: most of a
	// text is passed over by this alone.
	pairs   [1 << 16 / 64]uint64
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
	a := &automaton{nodes: []node{{}}}
	t := trie{first: []int32{0}, sibling: []int32{0}, label: []byte{0}}
	for _, p := range patterns {
		at := int32(0)
		for i := range len(p) {
			at = t.child(at, p[i])
			if int(at) == len(a.nodes) {
				a.nodes = append(a.nodes, node{depth: int32(i) + 1})
			}
		}
		a.nodes[at].match = int32(len(p))
	}
	a.link(&t)
	return a
}

// trie holds the children of each node as a list, which takes nine bytes a node;
// 0 ends a list.
type trie struct {
	first, sibling []int32
	label          []byte
}

// child returns the child of at for b, a new one if there is none.
func (t *trie) child(at int32, b byte) int32 {
	for c := t.first[at]; c != 0; c = t.sibling[c] {
		if t.label[c] == b {
			return c
		}
	}
	c := int32(len(t.first))
	t.first = append(t.first, 0)
	t.sibling = append(t.sibling, t.first[at])
	t.label = append(t.label, b)
	t.first[at] = c
	return c
}

// link lays out the edges and finds the suffix of each node, level by level.
func (a *automaton) link(t *trie) {
	for c := t.first[0]; c != 0; c = t.sibling[c] {
		a.root[t.label[c]] = c
	}
	queue := make([]int32, 1, len(a.nodes))
	for done := 0; done < len(queue); done++ {
		at := queue[done]
		n := &a.nodes[at]
		n.edges = int32(len(a.labels))
		for c := t.first[at]; c != 0; c = t.sibling[c] {
			b, child := t.label[c], &a.nodes[c]
			a.labels = append(a.labels, b)
			a.targets = append(a.targets, c)
			queue = append(queue, c)
			if at != 0 {
				child.fail = a.next(n.fail, b)
			}
			child.match = max(child.match, a.nodes[child.fail].match)
		}
		n.edgesEnd = int32(len(a.labels))
		if n.edges == n.edgesEnd {
			n.depth = a.nodes[n.fail].depth
		}
	}
	for b, c := range a.root {
		a.pair(uint(b), c, t)
	}
}

// pair notes which bytes may follow the first byte b, which leads to at.
func (a *automaton) pair(b uint, at int32, t *trie) {
	set := func(second uint) {
		pair := b<<8 | second
		a.pairs[pair/64] |= 1 << (pair % 64)
	}
	if at == 0 {
		return
	}
	if a.nodes[at].match > 0 {
		for second := range uint(256) {
			set(second)
		}
	}
	for c := t.first[at]; c != 0; c = t.sibling[c] {
		set(uint(t.label[c]))
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
			for ; i < len(text)-1; i++ {
				pair := uint(text[i])<<8 | uint(text[i+1])
				if a.pairs[pair/64]&(1<<(pair%64)) != 0 {
					break
				}
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
