// Package expr evaluates the ${{ }} expression language of GitHub Actions. It
// knows no YAML and no workflow: contexts and the functions that depend on them
// are given by the caller.
package expr

// Value is nil, bool, float64, string, *Array or *Object.
type Value = any

// Array is a list; arrays compare by identity.
type Array struct{ Items []Value }

// Func is a function of the caller's, beside the built-in ones.
type Func struct {
	Min, Max int // argument counts; Max < 0: no limit
	Call     func(args []Value) (Value, error)
}

// Env is what an expression may see. Both may be nil.
type Env struct {
	// Context gives the value of a context by lower-case name. It is asked
	// only for names the expression reaches, so values may be built lazily.
	Context func(name string) (Value, bool)
	// Function gives the functions that depend on the run: success, failure,
	// always, cancelled, hashFiles. Names are lower-case.
	Function func(name string) (Func, bool)
}

// Object is an ordered mapping whose keys are found without regard to case; the
// case of the first writing is kept. Objects compare by identity.
type Object struct {
	keys   []string
	values []Value
	index  map[string]int // by lower-case key
}
