package gateway

import (
	"mime"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// Headers that belong to one hop, in addition to those Connection names.
func hopHeaders() []string {
	return []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization", "Expect"}
}

// requestHeaders is what of the box's headers goes upstream: all but those of
// the hop, of credentials, and those about who asks and who pays. They bear no
// credential yet.
func requestHeaders(in http.Header) http.Header {
	h := in.Clone()
	stripHop(h)
	for _, k := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Host",
		"Chatgpt-Account-Id", "Openai-Organization", "Openai-Project", "X-Goog-User-Project", "Forwarded", "Via", "X-Real-Ip", "Content-Length", "Accept-Encoding"} {
		h.Del(k)
	}
	for k := range h {
		if strings.HasPrefix(k, "X-Forwarded-") || strings.HasPrefix(k, "Proxy-") {
			h.Del(k)
		}
	}
	// Counting needs readable answers.
	h.Set("Accept-Encoding", "identity")
	return h
}

// requestQuery is the box's query without credentials, else untouched.
func requestQuery(raw string) string {
	var kept []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != "key" && name != "access_token" && name != "$key" {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// responseHeaders is what of the upstream's headers reaches the box.
func responseHeaders(in http.Header) http.Header {
	h := in.Clone()
	stripHop(h)
	for _, k := range []string{"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Www-Authenticate", "Server", "Via"} {
		h.Del(k)
	}
	return h
}

func stripHop(h http.Header) {
	for _, v := range h.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	for _, k := range hopHeaders() {
		h.Del(k)
	}
}

func hasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.TrimSpace(t) == token {
				return true
			}
		}
	}
	return false
}

func isEventStream(contentType string) bool {
	t, _, _ := mime.ParseMediaType(contentType)
	return t == "text/event-stream"
}

// isLoopback tells whether a Host header means the gateway itself.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.Trim(name, "[]")
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
