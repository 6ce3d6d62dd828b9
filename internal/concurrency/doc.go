// Package concurrency keeps the concurrency groups of workflows and jobs across
// the processes of one user on one machine: in a group one runs at a time and
// the others wait for it, or are cancelled, as GitHub has it.
//
// There is no daemon. A group is a folder in the user's state directory, with a
// file for each member, numbered in the order they came; a member holds a lock
// on its own file for as long as its process lives, so that one that was killed
// is known to be gone. All that reads and changes a group does so under one more
// lock, for moments. Who is to be cancelled finds a note beside its file.
//
// The executor asks through a function type of its own (steps.Options); cmd puts
// the two together. The meaning is that of
// https://docs.github.com/actions/how-tos/write-workflows/choose-when-workflows-run/control-workflow-concurrency
package concurrency
