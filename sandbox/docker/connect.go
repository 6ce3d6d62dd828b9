package docker

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/sandbox"
)

// connect makes the client of an engine, which is not asked anything yet, and
// gives its address. host is as in DOCKER_HOST; empty: what that variable says.
// DOCKER_TLS_VERIFY and DOCKER_CERT_PATH are for tcp addresses.
func connect(host string) (api *client.Client, address string, err error) {
	if host == "" {
		host = os.Getenv(client.EnvOverrideHost)
	}
	opts := []client.Opt{client.WithAPIVersionNegotiation()}
	if strings.HasPrefix(host, "ssh://") {
		dial, err := sshDialer(host)
		if err != nil {
			// It may have a password in it.
			return nil, "", &sandbox.Error{
				Kind: sandbox.KindEngine, Op: "reach the container engine", Advice: "set DOCKER_HOST to ssh://[user@]host[:port][/path/of/the/socket]",
				Err: fmt.Errorf("the ssh address of the engine: %w", err),
			}
		}
		// The name is only for the Host header.
		opts = append(opts, client.WithVersionFromEnv(), client.WithHost("http://engine"), client.WithDialContext(dial))
	} else {
		opts = append(opts, client.FromEnv)
		if host != "" {
			opts = append(opts, client.WithHost(host))
		}
	}
	if api, err = client.NewClientWithOpts(opts...); err != nil {
		return nil, host, err
	}
	if host == "" {
		host = api.DaemonHost()
	}
	return api, host, nil
}

// inTheClear tells whether an engine is talked to over a network without
// encryption.
func inTheClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "tcp" && u.Scheme != "http" || os.Getenv(client.EnvOverrideCertPath) != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Local tells whether the engine runs on this machine, so that its mounts are
// our files. Of an engine behind a network that is never known beforehand.
func (b *Backend) Local() bool {
	return strings.HasPrefix(b.address, "unix://") && runtime.GOOS == "linux" // elsewhere it is a virtual machine's
}

// place is where a box is made: what it needs to know beside its spec.
func (b *Backend) place() place {
	p := place{runner: b.opts.Runner, hosts: b.hosts, bridge: sharedBridge}
	b.remote.mu.Lock()
	p.guest = b.remote.guest
	b.remote.mu.Unlock()
	if c := b.carrier.at(); c != nil {
		p.copies = c.dir
	}
	if b.lease != nil {
		p.host, p.lease = b.lease.host, b.lease.id
	}
	return p
}

func notEncrypted(address string) string {
	return fmt.Sprintf("%s is not encrypted, and who reaches it is root there: use TLS (DOCKER_TLS_VERIFY, DOCKER_CERT_PATH) or ssh://", address)
}
