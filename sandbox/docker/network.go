package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	// sharedBridge is the network of all boxes with network "bridge" on a Docker
	// engine, which keeps the containers of a network apart where it is told to.
	sharedBridge = "herd-runner"
	optionICC    = "com.docker.network.bridge.enable_icc"
)

// hostsPath is the file that programs look names up in first.
const hostsPath = "/etc/hosts"

// hosts is what Docker gives a container without a network.
const hosts = `127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
ff00::0	ip6-mcastprefix
ff02::1	ip6-allnodes
ff02::2	ip6-allrouters
`

// giveHosts lays the file that a closed box has as /etc/hosts.
func (b *Backend) giveHosts() (err error) {
	if b.engine == EngineDocker && b.Local() {
		b.hosts, err = layFile(b.opts.StateDir, "hosts", "", []byte(hosts))
	}
	return err
}

// closesItself tells whether the engine is asked to leave a box's networking
// alone. The box has a network namespace of its own then too: runc makes it, with
// loopback. For what Docker would do it starts a second dockerd with every box,
// which takes as long as all the rest; but then it also lays /etc/hosts.
func closesItself(s sandbox.Spec, at place) bool {
	return s.Network.Closed() && at.hosts != "" && (s.OCIRuntime == "" || s.OCIRuntime == "runc") && len(s.HostConfig) == 0
}

// bridgeName is the network of a box. Podman keeps apart networks only, so
// there each box has its own; one that is kept has the same again.
func (b *Backend) bridgeName(s *session) string {
	switch {
	case b.engine != EnginePodman:
		return sharedBridge
	case s != nil:
		sum := sha256.Sum256([]byte(s.dir))
		return sharedBridge + "-" + hex.EncodeToString(sum[:8])
	}
	return sharedBridge + "-" + strings.ToLower(rand.Text()[:16])
}

// makeBridge makes the network of a box where there is none yet.
func (b *Backend) makeBridge(ctx context.Context, name string) error {
	switch name {
	case "":
		return nil
	case sharedBridge:
		return b.ensureShared(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// What an earlier box of the session has left.
	if err := b.api.NetworkRemove(ctx, name); err != nil && !errdefs.IsNotFound(err) {
		return fail(sandbox.KindEngine, "remove network", err)
	}
	_, err := b.api.NetworkCreate(ctx, name, network.CreateOptions{
		Driver: "bridge",
		Labels: map[string]string{labelOurs: "1", labelRole: "network", labelHost: b.lease.host, labelLease: b.lease.id},
	})
	if err != nil {
		return fail(sandbox.KindEngine, "create network", err)
	}
	return nil
}

// dropBridge removes the network of a box that is gone. What fails is removed by
// sweepNetworks.
func (b *Backend) dropBridge(name string) {
	if name == "" || name == sharedBridge {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_ = b.api.NetworkRemove(ctx, name)
}

// sweepNetworks removes the networks of boxes of this runner, and of dead ones,
// that no box has any more.
func (b *Backend) sweepNetworks(ctx context.Context) error {
	if b.engine != EnginePodman {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	list, err := b.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", labelRole+"=network"), filters.Arg("label", labelHost+"="+b.lease.host))})
	if err != nil {
		return fail(sandbox.KindEngine, "list networks", err)
	}
	var errs []error
	for _, n := range list {
		if lease := n.Labels[labelLease]; lease != b.lease.id && !b.lease.dead(lease) {
			continue
		}
		// One that a kept box has can not be removed.
		if err := b.api.NetworkRemove(ctx, n.Name); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			errs = append(errs, fail(sandbox.KindEngine, "remove network", err))
		}
	}
	return errors.Join(errs...)
}

// ensureShared makes the bridge of all boxes, on which they do not reach each
// other. It stays when the runner ends: other runners use it too.
func (b *Backend) ensureShared(ctx context.Context) error {
	b.networkOnce.Lock()
	defer b.networkOnce.Unlock()
	if b.networkOK {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.NetworkInspect(ctx, sharedBridge, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		_, err = b.api.NetworkCreate(ctx, sharedBridge, network.CreateOptions{
			Driver:  "bridge",
			Options: map[string]string{optionICC: "false"},
			Labels:  map[string]string{labelOurs: "1", labelRole: "network"},
		})
		if err != nil && !errdefs.IsConflict(err) { // another runner was faster
			return fail(sandbox.KindEngine, "create network", err)
		}
		got, err = b.api.NetworkInspect(ctx, sharedBridge, network.InspectOptions{})
	}
	if err != nil {
		return fail(sandbox.KindEngine, "inspect network", err)
	}
	if got.Labels[labelOurs] != "1" || got.Options[optionICC] != "false" || got.Driver != "bridge" {
		return &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "prepare network",
			Advice: fmt.Sprintf("remove it (docker network rm %s), it is made anew", sharedBridge),
			Err:    errors.New("the network \"" + sharedBridge + "\" is not one that herd-runner made, or lets boxes reach each other"),
		}
	}
	b.networkOK = true
	return nil
}
