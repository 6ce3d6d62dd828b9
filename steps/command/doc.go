// Package command reads what the processes of a step say to the runner: the
// environment files (GITHUB_OUTPUT, GITHUB_ENV, GITHUB_PATH, GITHUB_STATE) after
// the step, and the workflow commands in its output while it runs. It also
// holds hashFiles, the one function of the expressions that reads the disk.
// What arrives here is untrusted: all of it is bounded, and none of it panics.
package command
