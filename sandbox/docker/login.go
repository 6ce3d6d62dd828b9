package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/credentials"
	helperclient "github.com/docker/docker-credential-helpers/client"
	helper "github.com/docker/docker-credential-helpers/credentials"
	"github.com/docker/docker/api/types/registry"
)

const (
	// helperTime bounds one run of a credential helper; some ask a keychain, and
	// that a person.
	helperTime   = 30 * time.Second
	maxLoginFile = 4 << 20 // bytes
)

// hub is what Docker Hub is called where logins are kept.
const hub = "https://index.docker.io/v1/"

// login is what the engine shows to a registry.
type login struct {
	registry string // host, with port
	user     string // empty: nobody; "a token" for an identity token
	origin   string // where it comes from
	header   string // X-Registry-Auth; holds the secret
	// err is why there is none although config.json speaks of the registry.
	err error
}

// login finds what config.json has for the registry of an image, as the docker
// command does. That there is none, or that it can not be had, is no failure:
// most images need none.
func (b *Backend) login(ctx context.Context, ref string) login {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return login{}
	}
	l := login{registry: reference.Domain(named)}
	if b.opts.LoginDir == "" {
		return l
	}
	file := filepath.Join(b.opts.LoginDir, "config.json")
	key := l.registry
	if key == "docker.io" {
		key = hub
	}
	auth, origin, err := findLogin(ctx, file, key)
	switch {
	case err != nil:
		l.err = err
		b.opts.Notice(fmt.Sprintf("%v; %s is asked without a login", err, l.registry))
		return l
	case auth == registry.AuthConfig{}:
		return l
	}
	if l.header, err = registry.EncodeAuthConfig(auth); err != nil {
		l.err = err
		return l
	}
	l.origin = origin
	if l.user = fmt.Sprintf("%q", auth.Username); auth.Username == "" {
		l.user = "a token"
	}
	return l
}

// findLogin looks a registry up in config.json: at its own helper, then at the
// general one, then in the file itself.
func findLogin(ctx context.Context, file, key string) (auth registry.AuthConfig, origin string, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return auth, "", nil
	}
	if err != nil {
		return auth, "", err
	}
	defer f.Close()
	config := configfile.New(file)
	if err := config.LoadFromReader(io.LimitReader(f, maxLoginFile)); err != nil {
		return auth, "", fmt.Errorf("%s can not be read: %w", file, err)
	}
	name := config.CredentialsStore
	if own, ok := config.CredentialHelpers[key]; ok {
		name = own
	}
	if name != "" {
		program := "docker-credential-" + name
		auth, err = askHelper(ctx, program, key)
		return auth, program, err
	}
	found, err := credentials.NewFileStore(config).Get(key)
	if err != nil {
		return auth, "", fmt.Errorf("%s: %w", file, err)
	}
	return registry.AuthConfig{
		Username: found.Username, Password: found.Password, ServerAddress: found.ServerAddress,
		IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
	}, file, nil
}

// tokenUser is who a helper says it is when its secret is an identity token.
const tokenUser = "<token>"

func askHelper(ctx context.Context, program, key string) (registry.AuthConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	got, err := helperclient.Get(func(args ...string) helperclient.Program {
		return &helperProcess{ctx: ctx, name: program, args: args}
	}, key)
	switch {
	case helper.IsErrCredentialsNotFound(err):
		return registry.AuthConfig{}, nil
	case ctx.Err() != nil:
		return registry.AuthConfig{}, fmt.Errorf("the credential helper %s did not answer within %s", program, helperTime)
	case err != nil:
		return registry.AuthConfig{}, fmt.Errorf("the credential helper %s: %w", program, err)
	case got.Username == tokenUser:
		return registry.AuthConfig{IdentityToken: got.Secret, ServerAddress: key}, nil
	}
	return registry.AuthConfig{Username: got.Username, Password: got.Secret, ServerAddress: key}, nil
}

// helperProcess runs a credential helper for its client.
type helperProcess struct {
	ctx   context.Context // of the one call that it is made for
	name  string
	args  []string
	input io.Reader
}

// Input is what the helper reads.
func (h *helperProcess) Input(in io.Reader) { h.input = in }

// Output is what the helper says: of one that failed, its reason and never what
// may be a secret.
func (h *helperProcess) Output() ([]byte, error) {
	cmd := exec.CommandContext(h.ctx, h.name, h.args...)
	cmd.Stdin = h.input
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil && (bytes.ContainsAny(out, "{\n\x1b") || len(out) > 200) && !helper.IsErrCredentialsNotFoundMessage(strings.TrimSpace(string(out))) {
		out = nil
	}
	return out, err
}
