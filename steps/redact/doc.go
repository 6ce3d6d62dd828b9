// Package redact keeps secrets out of everything a person or a file gets to see.
// It stands once, between the executor and the consumers of events: Sink masks
// each event on its way, and the output of the steps as a stream, so that a
// secret split over two writes is caught as well. A Masker knows each secret in
// the forms in which programs print it; see forms.go.
package redact
