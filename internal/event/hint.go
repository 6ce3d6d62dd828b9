package event

import "errors"

// HintOf is what an error says to do next: of the first in its chain that has a
// method Hint() string; empty where none says anything.
func HintOf(err error) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}
