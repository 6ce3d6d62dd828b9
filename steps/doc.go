// Package steps executes a plan: the scheduler walks the DAG, and for each node
// one file says what happens to it (gate.go, step.go, leg.go). It knows boxes,
// runtimes and the model gateway only by their contracts; everything that
// happens leaves as events, redacted once on the way.
package steps
