package gateway

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/diff"
)

// player gives recorded answers to the requests of one session. A request
// matches a recording of its own agent with the same kind and the same
// normalised last turn; the order between agents and lanes plays no part. Safe
// for concurrent use.
type player struct {
	rec *laneRecording

	mu     sync.Mutex
	claims map[string]string     // sub-agent id → recorded name
	served map[*recording]string // → the conversation it was given to
}

func newPlayer(rec *laneRecording) *player {
	return &player{rec: rec, claims: map[string]string{}, served: map[*recording]string{}}
}

// miss says why no recording fits.
type miss struct {
	nearest *recording // nil: nothing was recorded
	used    bool       // it would fit, but was given away already
}

// find gives the recording for t, each once. A request of the same
// conversation as before is a retry and gets the same answer again.
func (p *player) find(agentID string, t *turn) (*recording, *miss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, candidates := p.agent(agentID, t.key())
	recs := p.rec.agents[name]
	if rec := p.pick(recs, t); rec != nil {
		p.served[rec] = t.Conversation
		return rec, nil
	}
	for _, r := range recs {
		if r.Request.key() == t.key() {
			return nil, &miss{nearest: r, used: true}
		}
	}
	if name == "" {
		recs = candidates
	}
	return nil, &miss{nearest: p.nearest(recs, t)}
}

// agent is the recorded name of a sub-agent. Sub-agents that run at the same
// time begin in any order, so a new one is known by its first request. Without
// a match the name is empty, and the beginnings of those left are returned.
func (p *player) agent(id, key string) (string, []*recording) {
	if id == "" {
		return mainAgent, nil
	}
	if name := p.claims[id]; name != "" {
		return name, nil
	}
	claimed := map[string]bool{}
	for _, n := range p.claims {
		claimed[n] = true
	}
	var left []*recording
	for _, name := range p.rec.subagents() {
		first := p.rec.agents[name][0]
		switch {
		case claimed[name]:
		case first.Request.key() == key:
			p.claims[id] = name
			return name, nil
		default:
			left = append(left, first)
		}
	}
	return "", left
}

func (p *player) pick(recs []*recording, t *turn) *recording {
	var retry, later *recording
	for _, r := range recs {
		if r.Request.key() != t.key() {
			continue
		}
		given, used := p.served[r]
		switch {
		case !used && r.Request.Depth == t.Depth:
			return r
		case used && given == t.Conversation:
			retry = r
		case !used && later == nil:
			later = r
		}
	}
	if retry != nil {
		return retry
	}
	return later
}

// nearest is the recording whose turn shares most lines with t; those not yet
// given away and of the same kind come first.
func (p *player) nearest(recs []*recording, t *turn) *recording {
	lines := map[string]bool{}
	for _, l := range t.Lines {
		lines[l] = true
	}
	var best *recording
	bestScore := -1.0
	for _, r := range recs {
		shared := 0
		for _, l := range r.Request.Turn {
			if lines[l] {
				shared++
			}
		}
		score := float64(2*shared) / float64(len(lines)+len(r.Request.Turn)+1)
		if r.Request.Dialect == t.Dialect && r.Request.Kind == t.Kind {
			score += 2
		}
		if _, used := p.served[r]; !used {
			score++
		}
		if score > bestScore {
			best, bestScore = r, score
		}
	}
	return best
}

// explain is the message for the person, with a unified diff from the nearest
// recording to what was asked.
func (m *miss) explain(lane Lane, agent string, t *turn) string {
	who := lane.String()
	if agent != "" {
		who += ", sub-agent"
	}
	switch {
	case m.nearest == nil:
		return fmt.Sprintf("herd-runner: replay of %s: nothing is recorded for this request; record it again with --record. It asks (%s):\n%s",
			who, t.Kind, strings.Join(t.Lines, "\n"))
	case m.used:
		return fmt.Sprintf("herd-runner: replay of %s: the request recorded in %s was made once more than recorded; record it again with --record",
			who, m.nearest.file)
	}
	from := []byte(strings.Join(m.nearest.Request.Turn, "\n") + "\n")
	to := []byte(strings.Join(t.Lines, "\n") + "\n")
	change := string(diff.Diff("recorded", from, "asked", to))
	if _, after, ok := strings.Cut(change, "\n"); ok {
		change = after // without git's headline
	}
	was := m.nearest.Request
	if was.Dialect != t.Dialect {
		change = fmt.Sprintf("(recorded dialect %s, asked %s)\n%s", was.Dialect, t.Dialect, change)
	}
	if was.Kind != t.Kind {
		change = fmt.Sprintf("(recorded kind %s, asked %s)\n%s", was.Kind, t.Kind, change)
	}
	return fmt.Sprintf("herd-runner: replay of %s: the request is not in the cassette. Change the step back, or record it again with --record (or remove its directory and use --replay-or-record). Nearest is %s:\n%s",
		who, m.nearest.file, change)
}
