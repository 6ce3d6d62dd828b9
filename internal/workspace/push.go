package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// pushTime bounds a push.
const pushTime = 5 * time.Minute

// userInfo is what may stand before the host of a URL, a token above all.
var userInfo = regexp.MustCompile(`://[^/@\s]+@`)

// Push sends a branch of the project's repository to one of its remotes, as the
// person would: with their git configuration and credentials, but without hooks,
// which may be files that an agent could write, and without a question.
func (c *Clone) Push(ctx context.Context, branch, remote string) error {
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	p := c.store.project
	p.workTree = ""
	p.env = pushEnvironment()
	_, err := p.git(ctx, nil, "push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
		remote, "refs/heads/"+branch+":refs/heads/"+branch)
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no end after %s; try: git push %s %s", pushTime, remote, branch)
	}
	return fmt.Errorf("%s; try: git push %s %s", userInfo.ReplaceAllString(err.Error(), "://***@"), remote, branch)
}

// CanPush says why work of the project cannot be pushed to a remote; empty: none
// is asked for. The remote itself is not asked.
func CanPush(ctx context.Context, project, remote string) error {
	if remote == "" {
		return nil
	}
	project, err := filepath.EvalSymlinks(project)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	dir, err := gitDir(project)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	w := &Workspace{project: project}
	p := repository{dir: dir, persons: true, as: w.gitUser()}
	if _, err := p.git(ctx, nil, "remote", "get-url", "--push", remote); err != nil {
		return fmt.Errorf("the repository has no remote %q (`git remote -v` lists them)", remote)
	}
	return nil
}

// pushEnvironment is what git needs to reach a remote as the person does.
func pushEnvironment() []string {
	env := []string{"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "SSH_ASKPASS_REQUIRE=force", "SSH_ASKPASS=/bin/false", "GIT_ASKPASS=/bin/false"}
	for _, name := range []string{
		"SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
		"USER", "LOGNAME",
	} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
