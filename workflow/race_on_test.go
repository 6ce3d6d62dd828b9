//go:build race

package workflow

const raceEnabled = true
