package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// vendor is what the wire formats of one API have in common. Constant.
type vendor struct {
	api      string // runtimes.Description.API
	name     string // for the person
	upstream string // base URL where none is configured
	baseVar  string // the variable that configures it
	prefix   string // of the box's paths: what the base URL has already
	// placeholder looks like the real thing to a CLI that checks its prefix.
	placeholder func(kind string) string
	// offered gives every credential that a request bears, prefixes removed;
	// what has not the form of one is given as it stands.
	offered func(r *http.Request) []string
	// authorize puts the real credential into headers that bear none.
	authorize func(h http.Header, cred Credential)
	// refusal is an error in the vendor's own shape, with a status that CLIs
	// which speak it do not retry.
	refusal func(no refusal) (status int, body any)
	// waits says that its CLIs wait for the end of a limit by themselves, in
	// silence, or ask on, whatever x-should-retry says: what can not be waited
	// out here is a refusal then, not the API's own answer.
	waits bool
	// models is a list of models.
	models func(ids []string) any
}

// dialect is one wire format: how its requests are known and read, and how its
// answers are counted. Constant, so safe for concurrent use.
type dialect struct {
	*vendor
	name string // in cassettes
	what string // a request, for the person: "an Anthropic Messages request"
	// route tells what a request is for; false: this dialect does not serve it.
	route func(method, path string) (endpoint, bool)
	// parts are the keys of a request's top level that read and conversation
	// look at; each may stand once.
	parts []string
	// tools are the kinds of tools a request may bring.
	tools toolKinds
	// read checks what no limit could be kept with; nil: nothing.
	read func(req *request) error
	// conversation is the request as cassettes compare it.
	conversation func(req request) (conversation, error)
	// event reads one event of a stream, document a whole answer.
	event    func(m *meter, data []byte)
	document func(m *meter, doc []byte)
	// growing finds the texts in an event that later events continue.
	growing func(data []byte) []growth
	// agent names the sub-agent that asks; empty: the main one.
	agent func(h http.Header) string
}

// purpose is what a request is for.
type purpose int

const (
	generate purpose = iota // asks the model
	compact                 // has the model shorten its conversation
	count                   // counts tokens; free
	list                    // lists models; answered by the gateway
)

// endpoint is what a path says.
type endpoint struct {
	purpose purpose
	model   string // empty: the body says it
	stream  bool
}

// asks tells whether the model is asked, which costs.
func (e endpoint) asks() bool { return e.purpose == generate || e.purpose == compact }

// Dialects of all APIs. Nothing writes to them.
var dialects = []*dialect{&messages, &responses, &chat, &generateContent}

// speaking gives the dialects of apis, in their order.
func speaking(apis []string) []*dialect {
	var all []*dialect
	for _, api := range apis {
		for _, d := range dialects {
			if d.api == api && !slices.Contains(all, d) {
				all = append(all, d)
			}
		}
	}
	return all
}

// dialectNamed finds a dialect by its name in cassettes; nil: none.
func dialectNamed(name string) *dialect {
	for _, d := range dialects {
		if d.name == name {
			return d
		}
	}
	return nil
}

func dialectNames() []string {
	var names []string
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

// vendorOf finds the vendor of an API; nil: none.
func vendorOf(api string) *vendor {
	for _, d := range dialects {
		if d.api == api {
			return d.vendor
		}
	}
	return nil
}

// recognise finds the dialect that serves a request. Where none does, it is
// the session's first one: somebody must speak of it.
func recognise(all []*dialect, method, path string) (*dialect, endpoint, bool) {
	for _, d := range all {
		if e, ok := d.route(method, path); ok {
			return d, e, true
		}
	}
	return all[0], endpoint{}, false
}

// APIs lists the APIs the gateway speaks.
func APIs() []string {
	return []string{runtimes.APIAnthropic, runtimes.APIOpenAI, runtimes.APIGemini}
}

// bearer takes the token out of Authorization headers.
func bearer(h http.Header) []string {
	var tokens []string
	for _, v := range h.Values("Authorization") {
		if scheme, token, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			v = token
		}
		tokens = append(tokens, v)
	}
	return tokens
}
