package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

func fetched(t *testing.T, w workspace, url string) toolOutput {
	t.Helper()
	input, err := json.Marshal(map[string]any{"url": url})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return runCall(ctx, ownTools(w), call{name: "fetch", input: input})
}

func TestFetch(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "another host") }))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	answer := func(path, kind, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body)
		})
	}
	answer("/page", "text/html; charset=utf-8", `<html><head><title>T</title><script>evil()</script></head><body><h1>Hello</h1><p>a <b>bold</b> <a href="/x">link</a></p></body></html>`)
	answer("/deep", "text/html", strings.Repeat("<div><table>", 100000)+"deep")
	answer("/data", "application/json", `{"a":1}`)
	answer("/plain", "text/plain", "as <b>it</b> is")
	answer("/guess", "", "<!DOCTYPE html><p>guessed")
	answer("/file", "application/octet-stream", "\x00\x01")
	answer("/big", "text/plain", strings.Repeat("x", maxFetch+10))
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/plain", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/x", http.StatusFound)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	w := workspace{net: newNetwork(newEnvironment(nil, sdk.Anthropic)), background: &background{}}
	tests := []struct {
		url     string
		isError bool
		want    string
		not     string
	}{
		{"/page", false, "# Hello\n\na **bold** [link](" + site.URL + "/x)", "evil"},
		{"/deep", false, "", "\x00"},
		{"/data", false, `{"a":1}`, ""},
		{"/plain", false, "as <b>it</b> is", ""},
		{"/guess", false, "guessed", "<p>"},
		{"/file", false, "[application/octet-stream, 2 bytes: not text]", ""},
		{"/big", false, "longer than 2 MiB", ""},
		{"/moved", false, "as <b>it</b> is", ""},
		{"/loop", true, "moved to /loop", ""},
		{"/away", true, "moved to http://localhost:", "another host"},
		{"/nothing", true, "HTTP 404 Not Found\n404 page", ""},
		{"/\x00", true, "no address of the web", ""},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			t.Parallel()
			out := fetched(t, w, site.URL+tt.url)
			if out.isError != tt.isError || !strings.Contains(out.text, tt.want) || tt.not != "" && strings.Contains(out.text, tt.not) {
				t.Errorf("%v %.500q, want %q and not %q", out.isError, out.text, tt.want, tt.not)
			}
			if len(out.text) > maxOutputBytes+200 {
				t.Errorf("%d bytes", len(out.text))
			}
		})
	}
	for _, url := range []string{"", "file:///etc/passwd", "ftp://x/", "/relative", "http://"} {
		if out := fetched(t, w, url); !out.isError || !strings.Contains(out.text, "no address of the web") {
			t.Errorf("%q: %+v", url, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.runFetch(ctx, json.RawMessage(`{"url":"`+site.URL+`/slow"}`)); err != context.DeadlineExceeded {
		t.Errorf("slow: %v", err)
	}
}

// A model is told why it reaches nothing, and by whom.
func TestFetchWhereItMayNot(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Host == "allowed.example" {
			fmt.Fprint(w, "through the proxy")
			return
		}
		w.Header().Set("Proxy-Status", "herd-runner; error=http_request_denied")
		http.Error(w, "herd-runner: "+r.Host+" is not in the list of this step", http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	env := newEnvironment([]string{"HTTPS_PROXY=" + proxy.URL, "HTTP_PROXY=" + proxy.URL}, sdk.Anthropic)
	w := workspace{net: newNetwork(env), background: &background{}}
	for url, want := range map[string]string{
		"http://allowed.example/":  "through the proxy",
		"http://refused.example/":  "refused.example is not in the list of this step",
		"https://refused.example/": "refused.example:443 is not in the list of this step",
	} {
		if out := fetched(t, w, url); !strings.Contains(out.text, want) {
			t.Errorf("%s: %+v", url, out)
		}
	}
	sealed := workspace{net: newNetwork(newEnvironment(nil, sdk.Anthropic)), background: &background{}}
	sealed.net.sealed = func() bool { return true }
	if out := fetched(t, sealed, "http://no-such-host.invalid/"); !out.isError || !strings.Contains(out.text, "this step has no network (docker.network: none)") {
		t.Errorf("%+v", out)
	}
}
