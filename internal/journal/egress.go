package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
)

// EgressRow sums up the requests of one step to one place that ended alike.
type EgressRow struct {
	Job      string `json:"job"`
	Step     string `json:"step,omitempty"` // empty: several steps shared the box
	Host     string `json:"host,omitempty"` // empty: not understood
	Port     int    `json:"port,omitempty"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	Hint     string `json:"hint,omitempty"`
	Requests int    `json:"requests"`
	Sent     int64  `json:"sent"`     // bytes
	Received int64  `json:"received"` // bytes
}

// EgressList is the allow-list that would have been enough for a step.
type EgressList struct {
	Job   string   `json:"job"`
	Step  string   `json:"step,omitempty"`
	Allow []string `json:"allow"`
}

// EgressState is what the boxes of a run asked of the egress proxy.
type EgressState struct {
	Run  string       `json:"run"`
	Rows []EgressRow  `json:"requests"` // by job and step in the order of the run
	List []EgressList `json:"enough"`
}

// maxEgressRows bounds what is told apart.
const maxEgressRows = 20_000

// Egress sums up what the boxes of a run asked of the egress proxy.
func Egress(r *Reader) (EgressState, error) {
	s := EgressState{Run: r.ID, Rows: []EgressRow{}, List: []EgressList{}}
	at := map[EgressRow]int{}
	open := map[EgressRow][]event.EgressCall{}
	for e, err := range r.Events {
		if err != nil {
			return EgressState{}, err
		}
		if e.Type != event.Egress || e.Egress == nil {
			continue
		}
		c := *e.Egress
		key := EgressRow{Job: e.Job, Step: e.Step, Host: c.Host, Port: c.Port, Allowed: c.Allowed, Reason: c.Reason, Message: c.Message, Hint: c.Hint}
		i, ok := at[key]
		if !ok && len(s.Rows) >= maxEgressRows {
			continue
		}
		if !ok {
			i = len(s.Rows)
			at[key] = i
			s.Rows = append(s.Rows, key)
		}
		s.Rows[i].Requests += max(c.Count, 1)
		s.Rows[i].Sent += c.Sent
		s.Rows[i].Received += c.Received

		// What was told while it was open is told again at its end.
		early := EgressRow{Job: e.Job, Step: e.Step, Host: c.Host, Port: c.Port, Allowed: true}
		if waiting := open[early]; c.Open {
			open[early] = append(waiting, c)
		} else if c.Told && len(waiting) > 0 {
			first := &s.Rows[at[early]]
			first.Requests--
			first.Sent -= waiting[0].Sent
			first.Received -= waiting[0].Received
			open[early] = waiting[1:]
		}
	}
	s.Rows = slices.DeleteFunc(s.Rows, func(r EgressRow) bool { return r.Requests == 0 })
	s.sort()
	s.enough()
	return s, nil
}

// sort keeps the order in which jobs and steps were first heard of.
func (s *EgressState) sort() {
	order := map[[2]string]int{}
	for i, row := range s.Rows {
		if _, ok := order[[2]string{row.Job, row.Step}]; !ok {
			order[[2]string{row.Job, row.Step}] = i
		}
	}
	slices.SortStableFunc(s.Rows, func(a, b EgressRow) int {
		return cmp.Or(cmp.Compare(order[[2]string{a.Job, a.Step}], order[[2]string{b.Job, b.Step}]), strings.Compare(a.Host, b.Host), a.Port-b.Port)
	})
}

// enough collects the hosts of rows that a list decides about.
func (s *EgressState) enough() {
	for _, row := range s.Rows {
		if row.Host == "" || !row.Allowed && row.Reason != "not_listed" && row.Reason != "private" {
			continue
		}
		last := len(s.List) - 1
		if last < 0 || s.List[last].Job != row.Job || s.List[last].Step != row.Step {
			s.List, last = append(s.List, EgressList{Job: row.Job, Step: row.Step}), last+1
		}
		if entry := row.entry(); !slices.Contains(s.List[last].Allow, entry) {
			s.List[last].Allow = append(s.List[last].Allow, entry)
		}
	}
}

// entry is what stands in a list for the row's place: 443 and 80 are meant
// without a port.
func (r EgressRow) entry() string {
	host := r.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.Port == 443 || r.Port == 80 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, r.Port)
}
