package fakemodel

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Script is one behaviour, chosen by the base URL http://HOST/s/<script>/<run>,
// or, so that the steps of one workflow may meet different ones, by the words
// play/<script>/<run> in the request. <script> is comma-separated key=value:
//
//	do=bash                first reply: a Bash tool call, then a final text
//	do=text | write | loop | sleep | structured | mcp | tool | task | thinking | two | unknowntool | badinput
//	steps=n                tool calls before the final text (1)
//	fail=529,n=2           first n model requests of the run answer that status (n omitted: all)
//	fail=hang | hangstream | malformed | truncated | sseerror | reset | html | empty | garbagejson | credit | toolong | spend
//	ra=3                   retry-after header on failures
//	sr=false               x-should-retry header on failures
//	rl=<status>            unified rate-limit headers on answers
//	delay=500              ms before each model reply
//	in=N,out=N             usage numbers reported
//	cached=N,thought=N     of them from the cache, and thought out (OpenAI, Gemini)
//	stop=<reason>          the stop reason reported
//	cmd=<base64url>        the shell command to call
//	path=<base64url>       the file to write
//	tool=<name>,input=<base64url JSON>   the tool to call (steps=2 where the CLI has it found first)
//	noso=1                 no structured output, only text
//	text=<base64url>       final text; text= is none
//	xkey=<value>           demand this x-api-key / bearer / x-goog-api-key, else 401
//
// <run> separates the counters of n.
type Script map[string]string

// ParseScript reads a script; a bare word means do=word, none means do=bash.
func ParseScript(s string) Script {
	m := Script{}
	for _, kv := range strings.Split(s, ",") {
		k, v, ok := strings.Cut(kv, "=")
		switch {
		case ok:
			m[k] = v
		case kv != "":
			m["do"] = kv
		}
	}
	if m["do"] == "" {
		m["do"] = "bash"
	}
	return m
}

// playWords are those that choose a script in a request.
var playWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bplay(/[A-Za-z0-9=,_.-]+/[A-Za-z0-9_-]+)`)
})

// splitPrefix takes /s/<script>/<run>/rest apart.
func splitPrefix(path string) (script, run, rest string) {
	parts := strings.SplitN(strings.TrimPrefix(path, "/s/"), "/", 3)
	script, rest = parts[0], "/"
	if len(parts) > 1 {
		run = parts[1]
	}
	if len(parts) > 2 {
		rest += parts[2]
	}
	return script, run, rest
}

func (s Script) num(k string, d int) int {
	if n, err := strconv.Atoi(s[k]); err == nil {
		return n
	}
	return d
}

func (s Script) b64(k, d string) string {
	if v, ok := s[k]; ok {
		if b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(v, "=")); err == nil {
			return string(b)
		}
	}
	return d
}

// shell is the command a script wants run.
func (s Script) shell() string {
	if s["do"] == "sleep" {
		return s.b64("cmd", "sleep 60")
	}
	return s.b64("cmd", "echo hi > f.txt")
}

func (s Script) final() string { return s.b64("text", "All done: f.txt written.") }
