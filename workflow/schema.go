package workflow

import (
	"strings"
	"sync"
)

// shapeKind is what a shape is of.
type shapeKind int

const (
	anyShape     shapeKind = iota
	nullShape              // nothing written
	textShape              // a text; numbers and booleans count as their text
	filledShape            // a text that is not empty
	numberShape            // a number
	booleanShape           // true or false
	enumShape              // one of names
	listShape              // a list of of
	mapShape               // a mapping with free names, its values are of
	blockShape             // a mapping with the keys of a block
	eitherShape            // one of either
)

// shape says what may be written at a key, before expressions are looked at.
type shape struct {
	kind   shapeKind
	names  []string
	of     *shape
	either []shape
	block  string
	least  int // of a list or mapping
}

// key is one key of a block of the language.
type key struct {
	name     string
	shape    shape
	doc      string // one line of Markdown
	required bool
	ours     bool   // not GitHub's
	place    string // of places(), where expressions may stand in it
	// inert says that it is checked and has no effect here.
	inert bool
	// example is a value in flow style. beside is what the block needs with it,
	// without what of the block's sample cannot stand with it.
	example, beside, without string
}

// block is a mapping of the language.
type block struct {
	name  string // as other blocks refer to it
	title string // as problems name it: "a job"
	doc   string
	keys  []key
	free  *shape // keys with other names; nil: there are none
	// sample is a file with %s where a line of the block goes.
	sample string
}

// The language. Parser, JSON Schema and documentation all read from it.
var language = sync.OnceValue(func() map[string]*block {
	m := map[string]*block{}
	for _, b := range blocks() {
		m[b.name] = &b
	}
	return m
})

// blocks lists the blocks from the outermost inwards.
func blocks() []block {
	var all []block
	all = append(all, workflowBlocks()...)
	all = append(all, eventBlocks()...)
	all = append(all, jobBlocks()...)
	all = append(all, stepBlocks()...)
	return append(all, boxBlocks()...)
}

// keyNames are the keys that may stand in a block.
func keyNames(name string) []string {
	b := language()[name]
	names := make([]string, len(b.keys))
	for i, k := range b.keys {
		names[i] = k.name
	}
	return names
}

func text() shape    { return shape{kind: textShape} }
func filled() shape  { return shape{kind: filledShape} }
func number() shape  { return shape{kind: numberShape} }
func boolean() shape { return shape{kind: booleanShape} }
func null() shape    { return shape{kind: nullShape} }
func free() shape    { return shape{kind: anyShape} }

func oneOf(names ...string) shape { return shape{kind: enumShape, names: names} }
func in(name string) shape        { return shape{kind: blockShape, block: name} }
func either(all ...shape) shape   { return shape{kind: eitherShape, either: all} }

func listOf(s shape) shape { return shape{kind: listShape, of: &s} }
func mapOf(s shape) shape  { return shape{kind: mapShape, of: &s} }

// oneOrMore is a value or a list of such values.
func oneOrMore(s shape) shape { return either(s, listOf(s)) }

// withKey is a file in which the block has the key with that value.
func (b *block) withKey(k key, value string) string {
	line := k.name + ": " + value
	if b.name == "workflow" {
		line += "\n"
	} else if k.beside != "" {
		line += ", " + k.beside
	}
	sample := strings.Replace(b.sample, k.without, "", 1)
	return strings.Replace(sample, "%s", line, 1)
}
