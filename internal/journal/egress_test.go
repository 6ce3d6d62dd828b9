package journal_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

func TestEgress(t *testing.T) {
	dir := t.TempDir()
	id, err := journal.NewID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w, err := journal.Create(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(step string, c event.EgressCall) {
		w.Emit(event.Event{Type: event.Egress, Job: "a", Step: step, Time: time.Now(), Egress: &c})
	}
	ask("two", event.EgressCall{Method: "CONNECT", Host: "b.example", Port: 8443, Reason: "not_listed"})
	ask("one", event.EgressCall{Method: "CONNECT", Host: "x.example", Port: 443, Allowed: true, Sent: 3, Received: 4})
	ask("one", event.EgressCall{Method: "GET", Host: "x.example", Port: 443, Allowed: true, Sent: 30, Received: 40})
	ask("one", event.EgressCall{Method: "CONNECT", Host: "a.example", Port: 80, Reason: "private", Count: 5})
	ask("one", event.EgressCall{Method: "CONNECT", Host: "x.example", Port: 443, Reason: "server_name"})
	ask("one", event.EgressCall{Reason: "bad_request"})
	for _, host := range []string{"went-on.example", "killed.example", "turned.example"} {
		ask("one", event.EgressCall{Method: "CONNECT", Host: host, Port: 443, Allowed: true, Sent: 1, Received: 2, Open: true})
	}
	ask("one", event.EgressCall{Method: "CONNECT", Host: "went-on.example", Port: 443, Allowed: true, Sent: 10, Received: 20, Told: true})
	ask("one", event.EgressCall{Method: "CONNECT", Host: "turned.example", Port: 443, Reason: "server_name", Told: true})
	ask("two", event.EgressCall{Method: "CONNECT", Host: "2606:4700::1111", Port: 22, Reason: "not_listed"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := journal.Open(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := journal.Egress(r)
	if err != nil {
		t.Fatal(err)
	}
	want := journal.EgressState{
		Run: id,
		Rows: []journal.EgressRow{
			{Job: "a", Step: "two", Host: "2606:4700::1111", Port: 22, Reason: "not_listed", Requests: 1},
			{Job: "a", Step: "two", Host: "b.example", Port: 8443, Reason: "not_listed", Requests: 1},
			{Job: "a", Step: "one", Reason: "bad_request", Requests: 1},
			{Job: "a", Step: "one", Host: "a.example", Port: 80, Reason: "private", Requests: 5},
			{Job: "a", Step: "one", Host: "killed.example", Port: 443, Allowed: true, Requests: 1, Sent: 1, Received: 2},
			{Job: "a", Step: "one", Host: "turned.example", Port: 443, Reason: "server_name", Requests: 1},
			{Job: "a", Step: "one", Host: "went-on.example", Port: 443, Allowed: true, Requests: 1, Sent: 10, Received: 20},
			{Job: "a", Step: "one", Host: "x.example", Port: 443, Allowed: true, Requests: 2, Sent: 33, Received: 44},
			{Job: "a", Step: "one", Host: "x.example", Port: 443, Reason: "server_name", Requests: 1},
		},
		List: []journal.EgressList{
			{Job: "a", Step: "two", Allow: []string{"[2606:4700::1111]:22", "b.example:8443"}},
			{Job: "a", Step: "one", Allow: []string{"a.example", "killed.example", "went-on.example", "x.example"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
