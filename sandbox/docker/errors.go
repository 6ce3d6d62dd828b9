package docker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/herd-runner/herd-runner/sandbox"
)

func fail(kind sandbox.Kind, op string, err error) *sandbox.Error {
	var serr *sandbox.Error
	if errors.As(err, &serr) {
		return serr
	}
	return &sandbox.Error{Kind: kind, Op: op, Err: err}
}

// unreachable says what to do about an engine that does not answer.
func unreachable(host string, err error) error {
	hint := "is it installed and started? On Debian or Ubuntu: apt-get install docker.io && systemctl start docker; another engine is named by DOCKER_HOST"
	if errors.Is(err, fs.ErrPermission) || errdefs.IsPermissionDenied(err) {
		hint = "add your user to the group that owns the socket (usermod -aG docker USER, then log in anew), or use a rootless engine through DOCKER_HOST"
	}
	var unknown *tls.CertificateVerificationError
	var told *net.OpError
	switch {
	case errors.As(err, &unknown):
		hint = "the engine's certificate must be signed by ca.pem of DOCKER_CERT_PATH and be for the name in DOCKER_HOST"
	case errors.As(err, &told) && told.Op == "remote error":
		hint = "the engine wants another client certificate: cert.pem and key.pem of DOCKER_CERT_PATH must be signed by its certificate authority"
	case strings.HasPrefix(host, "ssh://"):
		hint = "try \"ssh -o BatchMode=yes\" with that host and \"docker version\": it must work without asking, and docker must be installed there"
	case strings.HasPrefix(host, "tcp://"):
		hint = "does the engine listen there, and with TLS? Then set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH to the directory with ca.pem, cert.pem and key.pem"
	}
	return &sandbox.Error{
		Kind: sandbox.KindEngine, Op: "reach the container engine", Advice: hint,
		Err: fmt.Errorf("no answer at %s: %w", host, err),
	}
}

// isGone: the container is not there, or somebody is removing it right now.
func isGone(err error) bool {
	return errdefs.IsNotFound(err) || (errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress"))
}

// createError and startError sort what the engine refuses.
func createError(err error) error {
	switch {
	case errdefs.IsNotFound(err):
		return fail(sandbox.KindImage, "create container", err)
	case errdefs.IsInvalidArgument(err), errdefs.IsConflict(err):
		return fail(sandbox.KindConfig, "create container", err)
	}
	return fail(sandbox.KindStart, "create container", err)
}

func startError(err error) error {
	if errdefs.IsInvalidArgument(err) {
		return fail(sandbox.KindConfig, "start container", err)
	}
	return fail(sandbox.KindStart, "start container", err)
}
