// Package github makes the `github` context and the GITHUB_* variables that
// workflows expect, the same way on a laptop and inside GitHub Actions: from
// the event's payload, the git checkout, and where it runs in GitHub Actions
// from what that says. Checkout reads git's files itself and starts no process.
package github
