package steps

import "testing"

func TestSlotsAreTheLowestThatAreFree(t *testing.T) {
	var s slots
	for _, want := range []int{0, 1, 2} {
		if got := s.take(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	s.give(1)
	s.give(0)
	for _, want := range []int{0, 1, 3} {
		if got := s.take(); got != want {
			t.Errorf("after two were given back: got %d, want %d", got, want)
		}
	}
}
