package policy

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// simpleRules are the rules without a parameter.
func simpleRules() []string {
	return []string{"host", "root", "network-host", "privileged", "host-config", "agent-secrets", "server-tools", "auth:env", "auth:mount"}
}

// UnknownRuleError says that a word is no rule of the policy.
type UnknownRuleError struct {
	Word    string
	Problem string // empty: there is no such rule
}

func (e *UnknownRuleError) Error() string {
	if e.Problem != "" {
		return fmt.Sprintf("rule %q: %s", e.Word, e.Problem)
	}
	text := fmt.Sprintf("there is no rule %q", e.Word)
	for _, rule := range simpleRules() {
		if near(strings.ToLower(e.Word), rule) {
			return text + fmt.Sprintf(", did you mean %q?", rule)
		}
	}
	return text
}

// Hint lists the rules there are.
func (e *UnknownRuleError) Hint() string {
	return "the rules are: " + strings.Join(simpleRules(), ", ") + ", volume:/PATH:ro, volume:/PATH:rw, network-private:HOST, base-url:URL, env:NAME, push:REMOTE"
}

// privatePrefix begins the rule that lets boxes with an allow-list reach a host
// at an address that is not of the internet.
const privatePrefix = "network-private:"

const maxHost = 255 // characters of a name in DNS, with "*."

var hostPattern = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$|^\[[0-9a-fA-F:.]+\]$`)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseRule gives the one form in which a rule is compared.
func parseRule(word string) (string, error) {
	for _, rule := range simpleRules() {
		if word == rule {
			return rule, nil
		}
	}
	if spec, ok := strings.CutPrefix(word, "volume:"); ok {
		path, mode := spec, "rw"
		for _, m := range []string{"ro", "rw"} {
			if p, ok := strings.CutSuffix(spec, ":"+m); ok {
				path, mode = p, m
			}
		}
		if !filepath.IsAbs(path) {
			return "", &UnknownRuleError{word, "the path must be absolute, as in volume:/data:ro"}
		}
		return volumeRule(path, mode == "ro"), nil
	}
	if host, ok := strings.CutPrefix(word, privatePrefix); ok {
		if len(host) > maxHost || !hostPattern.MatchString(host) {
			return "", &UnknownRuleError{word, "expected a host without a port, as in network-private:registry.corp.example, network-private:*.corp.example or network-private:10.0.0.5"}
		}
		return strings.ToLower(word), nil
	}
	if name, ok := strings.CutPrefix(word, "env:"); ok {
		if !envName.MatchString(name) {
			return "", &UnknownRuleError{word, "expected the name of an environment variable, as in env:GOPROXY"}
		}
		return word, nil
	}
	if remote, ok := strings.CutPrefix(word, "push:"); ok {
		if remote == "" || strings.ContainsAny(remote, ": \t\n") {
			return "", &UnknownRuleError{word, "expected the name of a remote, as in push:origin"}
		}
		return word, nil
	}
	if base, ok := strings.CutPrefix(word, "base-url:"); ok {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return "", &UnknownRuleError{word, "expected a URL without user and query, as in base-url:https://models.example/v1"}
		}
		u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
		return "base-url:" + strings.TrimRight(u.String(), "/"), nil
	}
	return "", &UnknownRuleError{Word: word}
}

func volumeRule(path string, readOnly bool) string {
	mode := "rw"
	if readOnly {
		mode = "ro"
	}
	return "volume:" + filepath.Clean(path) + ":" + mode
}

// near says whether a is b but for two letters or a swap of neighbours.
func near(a, b string) bool {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)] <= 2 && row[len(b)] < len(b)/2+1
}
