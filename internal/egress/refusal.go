package egress

import (
	"fmt"
	"net/http"
)

// Why a request did not get through. All but unresolved and unreachable are
// refusals.
const (
	reasonNotListed   = "not_listed"  // the host, or the port, is not in the list
	reasonPrivate     = "private"     // its address is not of the internet
	reasonServerName  = "server_name" // TLS asks for another server
	reasonHost        = "host"        // HTTP asks for another server
	reasonProtocol    = "protocol"    // neither TLS nor HTTP, where one must be
	reasonBad         = "bad_request" // not understood
	reasonUnresolved  = "unresolved"  // the name has no address
	reasonUnreachable = "unreachable" // nobody answers there
	reasonInterrupted = "interrupted" // the connection broke
)

// failure is why a request did not get through.
type failure struct {
	reason  string
	message string
	hint    string // what would allow it
}

func (f *failure) Error() string { return f.message }

func (f *failure) refused() bool {
	return f.reason != reasonUnresolved && f.reason != reasonUnreachable && f.reason != reasonInterrupted
}

func (f *failure) status() int {
	switch {
	case f.reason == reasonBad:
		return http.StatusBadRequest
	case f.refused():
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

func notListed(t target) *failure {
	return &failure{reasonNotListed, t.String() + " is not in the list of this step",
		fmt.Sprintf("add %q to docker.network.allow", t.entry())}
}

func badRequest(format string, args ...any) *failure {
	return &failure{reason: reasonBad, message: fmt.Sprintf(format, args...)}
}

// answer tells the box. Proxy-Status is RFC 9209.
func answer(w http.ResponseWriter, f *failure) {
	kind := "http_request_denied"
	switch f.reason {
	case reasonUnresolved:
		kind = "dns_error"
	case reasonUnreachable, reasonInterrupted:
		kind = "destination_unavailable"
	}
	w.Header().Set("Proxy-Status", "herd-runner; error="+kind)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(f.status())
	text := "herd-runner: " + f.message
	if f.hint != "" {
		text += "; to allow it, " + f.hint
	}
	_, _ = fmt.Fprintln(w, text)
}
