package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

const (
	dialTimeout = 15 * time.Second
	// maxRefusal bounds what is read of a proxy's refusal in bytes.
	maxRefusal = 2 << 10
)

// network is how the loop reaches the world beyond the gateway: by the proxy
// that its environment names, or not at all.
type network struct {
	proxy *httpproxy.Config
	// sealed says that there is nothing but loopback; a variable of the box's
	// addresses, so that tests need no box.
	sealed func() bool
}

func newNetwork(env environment) network {
	value := func(names ...string) string {
		for _, name := range names {
			if v := env.values[name]; v != "" {
				return v
			}
		}
		return ""
	}
	n := network{proxy: &httpproxy.Config{
		HTTPProxy:  value("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"),
		HTTPSProxy: value("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
		NoProxy:    value("NO_PROXY", "no_proxy"),
	}}
	n.sealed = func() bool { return n.proxy.HTTPProxy == "" && n.proxy.HTTPSProxy == "" && onlyLoopback() }
	return n
}

func onlyLoopback() bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() {
			return false
		}
	}
	return true
}

// transport carries requests. What a proxy says when it refuses becomes the
// error.
func (n network) transport() *http.Transport {
	proxyFor := n.proxy.ProxyFunc()
	return &http.Transport{
		Proxy:                 func(r *http.Request) (*url.URL, error) { return proxyFor(r.URL) },
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			return proxyRefusal(answer)
		},
	}
}

// barred is that the step may not reach an address.
type barred struct{ why string }

func (b *barred) Error() string { return b.why }

// proxyRefusal is what the box's proxy answered in place of a server.
func proxyRefusal(answer *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal)) // what came is what is said
	text := strings.TrimSpace(strings.ToValidUTF8(string(said), "\uFFFD"))
	if text == "" {
		text = "the proxy answered " + answer.Status
	}
	if answer.StatusCode == http.StatusForbidden {
		return &barred{text}
	}
	return errors.New(text)
}

// explain says what stands behind an error of the network, for address.
func (n network) explain(err error, address string) error {
	if u, parseErr := url.Parse(address); n.sealed() && parseErr == nil && !loopback(u.Hostname()) {
		return &barred{"this step has no network (docker.network: none); a person can allow hosts with docker.network.allow"}
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // without the address, which may hold a secret
	}
	return err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
