// Package expr evaluates the ${{ }} expression language of GitHub Actions. It
// knows no YAML and no workflow: contexts and the functions that depend on them
// are given by the caller.
//
// The way of a string through the package: ParseTemplate finds the ${{ }} in a
// scalar, Parse makes a tree of one expression, Eval walks the tree with an Env.
// The reference is actions/runner (src/Sdk/DTExpressions2 and src/Sdk/Expressions),
// whose numbers, comparisons and refusals are followed to the letter.
package expr

// Value is nil, bool, float64, string, *Array or *Object.
type Value = any

// Array is a list; arrays compare by identity.
type Array struct {
	Items []Value
	// filtered marks what a wildcard gave: an index then applies to each item.
	filtered bool
}

// Func is a function of the caller's, beside the built-in ones.
type Func struct {
	Min, Max int // argument counts; Max < 0: no limit
	Call     func(args []Value) (Value, error)
}

// Env is what an expression may see. Both functions may be nil.
type Env struct {
	// Context gives the value of a context by lower-case name. It is asked
	// only for names the expression reaches, so values may be built lazily.
	// The same name must give the same *Array or *Object for as long as the
	// two may be compared: these compare by identity.
	Context func(name string) (Value, bool)
	// Function gives the functions that depend on the run: success, failure,
	// always, cancelled, hashFiles. Names are lower-case.
	Function func(name string) (Func, bool)
	// MaxBytes bounds the memory of one evaluation, counted as GitHub's runner
	// counts it (two bytes for each UTF-16 unit of a string). 0 means 10 MiB,
	// as in the runner; the reference library's own default is 1 MiB.
	MaxBytes int
}
