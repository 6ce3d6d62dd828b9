package report

import (
	"fmt"

	"github.com/herd-runner/herd-runner/internal/event"
)

// maxRefusals of a step's requests are shown in full; a box can make any number.
const maxRefusals = 10

// refusals are the requests of a step that were refused, each kind once.
type refusals struct {
	seen map[string]bool
	all  int
}

// first says whether a refusal like c is to be shown, and whether it is the
// last one that is.
func (r *refusals) first(c event.EgressCall) (show, last bool) {
	if r.all >= maxRefusals || r.seen[c.Message] {
		return false, false
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[c.Message] = true
	r.all++
	return true, r.all == maxRefusals
}

// refusal is one line on a request that did not get out.
func refusal(c event.EgressCall) string {
	text := "request refused: " + c.Message
	if c.Hint != "" {
		text += "; to allow it, " + c.Hint
	}
	return text
}

// egress shows what was refused, and with Verbose everything.
func (t *Terminal) egress(v *stepView, e event.Event) {
	c := *e.Egress
	if c.Allowed {
		if t.opts.Verbose && !c.Open {
			text := fmt.Sprintf("%s %s:%d: %d bytes out, %d in, %s", c.Method, c.Host, c.Port, c.Sent, c.Received, milliseconds(c.DurationMS))
			if c.Message != "" {
				text += ": " + c.Message
			}
			t.say(v, t.p.with(dim, "⇄ "+oneLine(text, 300)))
		}
		return
	}
	show, last := v.refusals.first(c)
	if !show {
		return
	}
	t.say(v, t.p.with(yellow, "⇄ "+oneLine(refusal(c), 400)))
	if last {
		t.say(v, t.p.with(yellow, "⇄ further refusals are not shown; herd-runner egress "+t.fold.Info().ID+" tells them all"))
	}
}
