package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options configure a Gateway. Mode is required, Dir for Record and Replay,
// Credentials for Live and Record; the rest has defaults.
type Options struct {
	Mode Mode
	// Dir is the cassette directory. Replay reads it once, in New.
	Dir string
	// Upstreams are the base URLs of the model APIs, by API, with any path
	// prefix; what is missing or empty is at its vendor's.
	Upstreams   map[string]string
	Credentials CredentialSource
	Prices      Prices // zero: DefaultPrices
	// Day is the operator's budget of a day; nil: there is none. Replay spends
	// nothing of it. The gateway closes it.
	Day *Day
	// LimitsDir is where the runners of one user tell each other of rate limits,
	// without the credentials; it is made. Empty, or of no use: they do not.
	LimitsDir string
	// Model gives the model that a name stands for: the operator's aliases; nil:
	// each for itself.
	Model func(name string) string
	// Permit is the operator's word on a model; nil: any is allowed.
	Permit func(model string) error
	// Transport reaches the upstream; nil: a transport with Timeouts that
	// honours the proxy variables of the runner's own environment.
	Transport http.RoundTripper
	Timeouts  Timeouts
	// ServerTools lets requests have the vendor run tools: web search, code
	// execution, remote MCP servers.
	ServerTools bool
	// Redact removes secrets from what is recorded and shown; nil: nothing
	// beyond the gateway's own credential and tokens, which it always removes.
	Redact func(string) string
	Clock  func() time.Time // nil: time.Now
}

// Timeouts bound the waits on the upstream. Zero fields take the defaults.
type Timeouts struct {
	Connect time.Duration // 15 s, TCP and TLS each
	Headers time.Duration // 10 min: an unstreamed answer is thought out before its headers come
	Idle    time.Duration // 5 min between two reads of an answer; the API pings more often
	Hold    time.Duration // 4 min that a request is kept waiting for a rate limit or a budget; negative: none
}

func (t Timeouts) orDefaults() Timeouts {
	if t.Connect <= 0 {
		t.Connect = 15 * time.Second
	}
	if t.Headers <= 0 {
		t.Headers = 10 * time.Minute
	}
	if t.Idle <= 0 {
		t.Idle = 5 * time.Minute
	}
	if t.Hold == 0 {
		t.Hold = maxHold
	}
	return t
}

// Gateway is the runner's only way to the model APIs. Safe for concurrent use.
type Gateway struct {
	mode        Mode
	dir         string
	upstreams   map[string]*url.URL
	credentials CredentialSource
	prices      Prices
	transport   http.RoundTripper
	timeouts    Timeouts
	redact      func(string) string
	serverTools bool
	clock       func() time.Time
	cassette    *cassette // Replay and ReplayOrRecord only; read-only
	day         *Day
	model       func(name string) string
	permit      func(model string) error
	accounts    *accounts
	limiters    limiters
	sessions    sessionSet
}

// New checks the options and, for Replay, reads the cassettes. It opens no
// connection.
func New(o Options) (*Gateway, error) {
	g := &Gateway{mode: o.Mode, dir: o.Dir, credentials: o.Credentials, prices: o.Prices, transport: o.Transport,
		timeouts: o.Timeouts.orDefaults(), redact: o.Redact, serverTools: o.ServerTools, clock: o.Clock, day: o.Day, model: o.Model, permit: o.Permit, accounts: newAccounts()}
	if err := g.parseUpstreams(o.Upstreams); err != nil {
		return nil, err
	}
	if g.prices.empty() {
		prices, err := DefaultPrices()
		if err != nil {
			return nil, err
		}
		g.prices = prices
	}
	if g.transport == nil {
		g.transport = newTransport(g.timeouts)
	}
	if g.redact == nil {
		g.redact = func(s string) string { return s }
	}
	if g.model == nil {
		g.model = func(name string) string { return name }
	}
	if g.clock == nil {
		g.clock = time.Now
	}
	if o.LimitsDir != "" && o.Mode != Replay {
		if b, err := openBoard(o.LimitsDir, g.clock()); err == nil {
			g.limiters.board = b
		}
	}
	switch {
	case !slices.Contains([]Mode{Live, Record, Replay, ReplayOrRecord}, g.mode):
		return nil, fmt.Errorf("gateway mode %q: expected live, record, replay or replay-or-record", g.mode)
	case g.mode != Replay && g.credentials == nil:
		return nil, errors.New("gateway: no source of credentials")
	case g.mode != Live && g.dir == "":
		return nil, fmt.Errorf("gateway: mode %s needs a cassette directory", g.mode)
	case g.mode == ReplayOrRecord && !exists(g.dir):
		g.cassette = &cassette{dir: g.dir}
	case g.mode == ReplayOrRecord, g.mode == Replay:
		c, err := readCassette(g.dir)
		if err != nil {
			return nil, err
		}
		g.cassette = c
	}
	return g, nil
}

func (g *Gateway) parseUpstreams(bases map[string]string) error {
	g.upstreams = map[string]*url.URL{}
	for _, api := range APIs() {
		v := vendorOf(api)
		u, err := parseBase(cmp.Or(bases[api], v.upstream))
		if err != nil {
			return fmt.Errorf("model API base URL %w; correct %s", err, v.baseVar)
		}
		g.upstreams[api] = u
	}
	return nil
}

func parseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q: expected http(s)://host[/path] without user, query or fragment", base)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// newTransport never follows redirects (transports do not) and never asks for
// compression: what passes by must be readable for counting.
func newTransport(t Timeouts) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: t.Connect, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: t.Connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		WriteBufferSize:     64 << 10, // requests carry whole conversations
	}
}

// Preflight finds what would make steps fail: no usable credential for one of
// the APIs, a cassette directory that cannot be written, a lane that was never
// recorded. The APIs and lanes are those the caller knows will be used; none is
// fine. All missing credentials are in one error.
func (g *Gateway) Preflight(ctx context.Context, apis []string, lanes ...Lane) error {
	switch g.mode {
	case Replay:
		for _, l := range lanes {
			if _, err := g.cassette.lane(l); err != nil {
				return err
			}
		}
		return nil
	case ReplayOrRecord:
		missing := func(l Lane) bool { return g.cassette.lanes[l] == nil }
		if !slices.ContainsFunc(lanes, missing) {
			return nil // what else is needed shows when a step starts
		}
		fallthrough
	case Record:
		if err := writable(g.dir); err != nil {
			return fmt.Errorf("cassette directory %s cannot be written: %w", g.dir, err)
		}
	}
	var errs []error
	for _, api := range apis {
		_, err := g.credentials(ctx, api)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// writable says why files can not be made in dir, which need not be there yet; it
// makes nothing.
func writable(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
		return writable(filepath.Dir(dir))
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	return unix.Access(dir, unix.W_OK|unix.X_OK)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Close ends all sessions and idle upstream connections.
func (g *Gateway) Close() error {
	var errs []error
	for _, s := range g.sessions.all() {
		errs = append(errs, s.Close())
	}
	if g.day != nil {
		errs = append(errs, g.day.Close())
	}
	if t, ok := g.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
