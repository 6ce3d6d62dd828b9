package github

import (
	"net/url"
	"regexp"
	"strings"
)

var scpURL = regexp.MustCompile(`^(?:[^@/:]+@)?([A-Za-z0-9.-]+):([^/].*)$`)

// splitRemote gives the host and the "owner/name" of a remote's URL, without
// credentials; both are empty for a local path.
func splitRemote(remote string) (host, repo string) {
	path := ""
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		host, path = u.Hostname(), u.Path
		if u.Port() != "" && (u.Scheme == "http" || u.Scheme == "https") {
			host = u.Host
		}
	} else if m := scpURL.FindStringSubmatch(remote); m != nil {
		host, path = m[1], m[2]
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if host == "" || !strings.Contains(path, "/") {
		return "", ""
	}
	return strings.ToLower(host), path
}

// apiURLs gives the addresses of a GitHub server's APIs.
func apiURLs(server string) (api, graphql string) {
	if server == "https://github.com" {
		return "https://api.github.com", "https://api.github.com/graphql"
	}
	return server + "/api/v3", server + "/api/graphql"
}
