package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/herd-runner/herd-runner/sandbox"
)

const optionICC = "com.docker.network.bridge.enable_icc"

// ensureNetwork makes the bridge of all boxes, on which they do not reach each
// other. It stays when the runner ends: other runners use it too.
func (b *Backend) ensureNetwork(ctx context.Context) error {
	b.networkOnce.Lock()
	defer b.networkOnce.Unlock()
	if b.networkOK {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.NetworkInspect(ctx, networkName, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		_, err = b.api.NetworkCreate(ctx, networkName, network.CreateOptions{
			Driver:  "bridge",
			Options: map[string]string{optionICC: "false"},
			Labels:  map[string]string{labelOurs: "1", labelRole: "network"},
		})
		if err != nil && !errdefs.IsConflict(err) { // another runner was faster
			return fail(sandbox.KindEngine, "create network", err)
		}
		got, err = b.api.NetworkInspect(ctx, networkName, network.InspectOptions{})
	}
	if err != nil {
		return fail(sandbox.KindEngine, "inspect network", err)
	}
	if got.Labels[labelOurs] != "1" || got.Options[optionICC] != "false" || got.Driver != "bridge" {
		return &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "prepare network",
			Advice: fmt.Sprintf("remove it (docker network rm %s), it is made anew", networkName),
			Err:    errors.New("the network \"" + networkName + "\" is not one that herd-runner made, or lets boxes reach each other"),
		}
	}
	b.networkOK = true
	return nil
}
