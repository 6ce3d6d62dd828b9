// Package agent is the agent loop of the SDK runtime. It runs inside the box,
// as the verb `agent` of cmd/herd-guest: it reads one sdk.Request from stdin,
// talks to the model through the gateway, runs the model's tool calls in the
// workspace, and prints sdk.Records. It enforces nothing: the box does.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/schema"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// Exit codes of Main.
const (
	exitOK        = 0   // the result record says success
	exitFailed    = 1   // the result record says why not
	exitUsage     = 2   // stdin was no request
	exitCancelled = 143 // ctx was cancelled: as after TERM, there is no result record
)

// maxRequest is the largest request in bytes.
const maxRequest = 64 << 20

// Main is the whole program: work, which an interrupt or SIGTERM cancels.
func Main(stdin io.Reader, stdout io.Writer, environ []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return work(ctx, stdin, stdout, environ)
}

// work runs one agent to its end and returns the exit code. environ is the
// process's environment as KEY=VALUE. Cancelling ctx kills the running tool
// and ends the loop.
func work(ctx context.Context, stdin io.Reader, stdout io.Writer, environ []string) int {
	out := newEmitter(stdout)
	req, err := readRequest(stdin)
	if err != nil {
		out.emit(sdk.Record{Type: event.MessageResult, Cause: event.CauseExitCode, Message: err.Error()})
		return exitUsage
	}
	env := newEnvironment(environ, req.Engine)
	l, err := newLoop(req, env, out)
	if err != nil {
		result := failed(err)
		result.Type, result.SessionID = event.MessageResult, req.SessionID
		out.emit(result)
		return exitFailed
	}
	result, err := l.run(ctx)
	switch {
	case ctx.Err() != nil:
		return exitCancelled
	case err != nil:
		result = failed(err)
	}
	result.Type = event.MessageResult
	result.Turns = l.turns
	result.SessionID = l.sessionID
	out.emit(result)
	if out.err != nil || result.Cause != "" {
		return exitFailed
	}
	return exitOK
}

func readRequest(stdin io.Reader) (sdk.Request, error) {
	var req sdk.Request
	data, err := io.ReadAll(io.LimitReader(stdin, maxRequest+1))
	if err != nil {
		return req, fmt.Errorf("read the request from stdin: %w", err)
	}
	if len(data) > maxRequest {
		return req, fmt.Errorf("the request on stdin is larger than %d MiB", maxRequest>>20)
	}
	if err := json.Unmarshal(data, &req); err != nil {
		return req, fmt.Errorf("`agent` is started by herd-runner inside a box and expects its request as JSON on stdin: %w", err)
	}
	if req.Version != sdk.ProtocolVersion {
		return req, fmt.Errorf("the request is of version %d, this herd-runner speaks %d: runner and box must use the same build", req.Version, sdk.ProtocolVersion)
	}
	if strings.TrimSpace(req.Prompt) == "" {
		return req, errors.New("the prompt is empty")
	}
	if req.OutputSchema != nil {
		if _, err := schema.Compile(req.OutputSchema); err != nil {
			return req, fmt.Errorf("output-schema: %w", err)
		}
	}
	return req, nil
}

// failed turns an error of the loop into the result record.
func failed(err error) sdk.Record {
	var f *failure
	if errors.As(err, &f) {
		return sdk.Record{Cause: f.cause, Message: f.message, Hint: f.hint}
	}
	return sdk.Record{Cause: event.CauseExitCode, Message: err.Error()}
}

// failure is an end of the run that has a cause.
type failure struct {
	cause         event.Cause
	message, hint string
}

func (f *failure) Error() string { return f.message }

// environment is the process's environment, in two views.
type environment struct {
	values map[string]string
	tools  []string // what tools see: no credential
}

func newEnvironment(environ []string, engine string) environment {
	hidden := sdk.Credentials(engine)
	e := environment{values: map[string]string{}}
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		e.values[name] = value
		if !slices.Contains(hidden, name) {
			e.tools = append(e.tools, kv)
		}
	}
	return e
}
