package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/handoff"
)

const (
	answerTime  = 10 * time.Minute // until the server begins to answer
	maxResponse = 1 << 20          // bytes of its header
)

// newTransport makes one connection per request, so that each name is resolved
// and judged anew and bytes are counted where they belong.
func (s *Session) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c := callOf(ctx)
			conn, f := s.dial(ctx, c.target, c)
			if f != nil {
				return nil, f
			}
			return conn, nil
		},
		Protocols:              protocols,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		ResponseHeaderTimeout:  answerTime,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponse,
	}
}

// forward serves plain HTTP: requests in absolute form, and those within a
// tunnel to port 80. The Host that goes out is always the one that was judged.
func (s *Session) forward(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	c := s.begin(method(r.Method))
	t, f := requested(r)
	c.target = t
	if f == nil {
		f = s.judge(t, c)
	}
	if f != nil {
		answer(w, f)
		c.end(f)
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		r.Header.Del("Upgrade") // above all h2c, whose requests nobody would judge
	}
	host := t.host()
	if t.port != 80 {
		host = t.String()
	}
	var failed *failure
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", t.String(), host
		},
		Transport:     s.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(resp *http.Response) error {
			c.status = resp.StatusCode
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if !errors.As(err, &failed) {
				failed = &failure{reason: reasonInterrupted, message: "the exchange with " + t.String() + " broke off"}
			}
			answer(w, failed)
		},
	}
	defer func() { c.end(failed) }()
	proxy.ServeHTTP(w, r.WithContext(withCall(ctx, c)))
}

// requested reads where a plain request wants to go.
func requested(r *http.Request) (target, *failure) {
	inside, isInner := handoff.Conn(r.Context()).(*innerConn)
	if !isInner && !r.URL.IsAbs() {
		return target{}, badRequest("this is a proxy: ask for http://HOST/PATH, or CONNECT")
	}
	if r.URL.IsAbs() && r.URL.Scheme != "http" {
		return target{}, badRequest("%s is reached with CONNECT", quote(r.URL.Scheme))
	}
	t, err := parseTarget(r.Host, 80)
	if err != nil {
		return target{}, badRequest("%v", err)
	}
	if isInner && t != inside.target {
		return inside.target, &failure{reasonHost, "a request in a tunnel to " + inside.target.String() + " asks for " + t.String(), ""}
	}
	return t, nil
}

// method keeps what is journaled short.
func method(s string) string {
	if len(s) > 20 {
		return s[:20] + "…"
	}
	return s
}
