// Package report shows runs to people and programs. It has two halves: sinks
// that render the stream of events while a run goes on (Terminal, JSON,
// GitHub), and renderers of a run's state as the journal tells it (PS, Show,
// Markdown). All text that comes from steps, agents and files is untrusted and
// is made harmless here before it reaches a screen.
package report
