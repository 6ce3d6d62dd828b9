package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// What MCP servers may take of the step's time and of the model's window. What
// they say is untrusted.
const (
	mcpStart = 30 * time.Second // to be there and name their tools, all at once
	mcpCall  = 5 * time.Minute  // one call
	mcpStop  = 3 * time.Second  // to end, all at once
	mcpEnd   = 5 * time.Second  // from a connection that broke to its program's end

	maxMCPTools        = 200      // of all servers
	maxMCPSchema       = 32 << 10 // bytes, of one tool
	maxMCPDescription  = 4 << 10  // bytes, of one tool
	maxMCPInstructions = 2 << 10  // bytes, of one server
	maxMCPMessage      = 16 << 20 // bytes
	maxToolName        = 64       // what all vendors take
)

// mcpServers are the servers of a step and their tools.
type mcpServers struct {
	running      []*mcpServer
	tools        []tool
	instructions []string // of the servers, for the model
	warnings     []string // for the person
}

type mcpServer struct {
	runtimes.MCPServer
	net     network
	process *mcpProcess // nil: it is reached by HTTP
	session *mcp.ClientSession
	end     context.CancelFunc // of the session's connections
	listed  []*mcp.Tool
}

// startMCP starts and connects to all servers of raw, side by side. One that is
// not there is an error: a step without its tools would only waste money.
func startMCP(ctx context.Context, raw json.RawMessage, w workspace, timeout time.Duration) (*mcpServers, error) {
	configured, err := runtimes.MCPServers(raw)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all := &mcpServers{}
	failures := make([]error, len(configured))
	var wait sync.WaitGroup
	for i, c := range configured {
		s := &mcpServer{MCPServer: c, net: w.net}
		all.running = append(all.running, s)
		wait.Go(func() {
			if err := s.start(limited, w); err != nil {
				failures[i] = s.failure(limited, err, timeout)
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		all.stop()
		return nil, ctx.Err()
	}
	for _, err := range failures {
		if err != nil {
			all.stop()
			return nil, err
		}
	}
	for _, s := range all.running {
		all.offer(s)
	}
	return all, nil
}

func (s *mcpServer) start(ctx context.Context, w workspace) error {
	var transport mcp.Transport
	switch {
	case s.Command != "":
		process, err := startProcess(s.MCPServer, w)
		if err != nil {
			return err
		}
		s.process = process
		transport = &mcp.IOTransport{Reader: process.stdout, Writer: process.stdin, MaxLineLength: maxMCPMessage}
	case s.SSE:
		transport = &mcp.SSEClientTransport{Endpoint: s.URL, HTTPClient: s.client(), MaxEventSize: maxMCPMessage}
	default:
		transport = &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.client(), MaxEventSize: maxMCPMessage,
			DisableStandaloneSSE: true, MaxRetries: 2}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "herd-runner", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	// The connections live as long as the context: ctx is of the start only.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	started := context.AfterFunc(ctx, end)
	defer started()
	session, err := client.Connect(alive, transport, nil)
	if err != nil {
		return err
	}
	s.session = session
	if caps := session.InitializeResult().Capabilities; caps != nil && caps.Tools == nil {
		return nil
	}
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list its tools: %w", err)
		}
		if s.listed = append(s.listed, t); len(s.listed) > maxMCPTools {
			return fmt.Errorf("it has more than %d tools", maxMCPTools)
		}
	}
	slices.SortFunc(s.listed, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// failure says what is wrong with a server that did not start.
func (s *mcpServer) failure(ctx context.Context, err error, timeout time.Duration) error {
	f := &failure{cause: event.CauseExitCode, hint: "correct mcp-servers in `runtime:`, or take the server out"}
	said, ended := "", false
	if s.process != nil {
		ended = s.process.ended(patience(ctx, err))
		said = s.process.said()
	}
	var kept *barred
	switch {
	case ended:
		f.message = "its program ended before it answered" + said
		f.hint = "run the program by hand in the image: what it needs must be in there, or in its args and env"
	case ctx.Err() != nil && s.process != nil:
		f.message = fmt.Sprintf("it did not answer within %s%s", timeout, said)
		f.hint = "see that the program speaks MCP on stdin and stdout, and needs no network that the step does not have"
	case s.Command != "":
		f.message = err.Error()
		if s.process == nil {
			f.hint = "put the program into the image, or correct `command`"
		}
	case ctx.Err() != nil:
		f.cause, f.message = event.CauseInfrastructure, fmt.Sprintf("%s did not answer within %s", s.address(), timeout)
	default:
		err = s.net.explain(err, s.URL)
		f.message = fmt.Sprintf("%s: %v", s.address(), err)
		f.hint = "check the address, its headers, and that docker.network lets the step reach it"
		if !errors.As(err, &kept) {
			f.cause = event.CauseInfrastructure
		}
	}
	f.message = fmt.Sprintf("mcp-servers: %s: %s", s.Name, clippedTo(f.message, maxSaid))
	return f
}

// address is the URL without what may be secret in it.
func (s *mcpServer) address() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "the server"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// client sends the configured headers, and those to the server's own host only.
func (s *mcpServer) client() *http.Client {
	base := s.net.transport()
	own, _ := url.Parse(s.URL) // the transport refuses what is none
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if own != nil && r.URL.Host == own.Host && r.URL.Scheme == own.Scheme {
			r = r.Clone(r.Context())
			for name, value := range s.Headers {
				r.Header.Set(name, value)
			}
		}
		answer, err := base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		switch {
		case answer.Header.Get("Proxy-Status") != "" && answer.StatusCode >= 400:
			defer answer.Body.Close()
			return nil, proxyRefusal(answer)
		case !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream"):
			answer.Body = bounded{io.LimitReader(answer.Body, maxMCPMessage), answer.Body}
		}
		return answer, nil
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type bounded struct {
	io.Reader
	io.Closer
}

// offer turns the server's tools into the loop's.
func (all *mcpServers) offer(s *mcpServer) {
	warn := func(format string, args ...any) {
		all.warnings = append(all.warnings, fmt.Sprintf("MCP server %s: ", s.Name)+fmt.Sprintf(format, args...))
	}
	for _, listed := range s.listed {
		name := toolName(s.Name, listed.Name)
		schema, err := json.Marshal(listed.InputSchema)
		var object map[string]any
		if err == nil {
			err = json.Unmarshal(schema, &object)
		}
		switch {
		case err != nil || object["type"] != "object":
			warn("its tool %q is left out: the schema of its input is of no object", listed.Name)
			continue
		case len(schema) > maxMCPSchema:
			warn("its tool %q is left out: the schema of its input has %d bytes, at most %d are taken", listed.Name, len(schema), maxMCPSchema)
			continue
		case slices.ContainsFunc(all.tools, func(t tool) bool { return strings.EqualFold(t.name, name) }):
			warn("its tool %q is left out: there is one of that name", listed.Name)
			continue
		case len(all.tools) >= maxMCPTools:
			warn("its tools from %q on are left out: there are %d already", listed.Name, maxMCPTools)
			return
		}
		all.tools = append(all.tools, tool{
			name:        name,
			description: clippedTo(strings.ToValidUTF8(listed.Description, "\uFFFD"), maxMCPDescription),
			schema:      string(schema),
			readOnly:    listed.Annotations != nil && listed.Annotations.ReadOnlyHint,
			timeout:     mcpCall,
			run: func(ctx context.Context, input json.RawMessage) (string, error) {
				return s.call(ctx, listed.Name, input)
			},
		})
	}
	if text := strings.TrimSpace(s.session.InitializeResult().Instructions); text != "" {
		all.instructions = append(all.instructions, fmt.Sprintf("The MCP server %s says of its tools (mcp__%s__…):\n\n%s",
			s.Name, s.Name, clippedTo(strings.ToValidUTF8(text, "\uFFFD"), maxMCPInstructions)))
	}
}

// toolName is the tool's name for the model, of letters that every vendor takes.
func toolName(server, name string) string {
	full := sdk.MCPPrefix + server + "__" + name
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, full)
	if len(plain) > maxToolName {
		h := fnv.New32a()
		_, _ = h.Write([]byte(full)) // a hash takes everything
		plain = fmt.Sprintf("%s_%08x", plain[:maxToolName-9], h.Sum32())
	}
	return plain
}

// call asks the server. Its errors are for the model.
func (s *mcpServer) call(ctx context.Context, name string, input json.RawMessage) (string, error) {
	if err := s.gone(0); err != nil {
		return "", err
	}
	var arguments map[string]any
	if err := decode(input, &arguments); err != nil {
		return "", err
	}
	result, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		if gone := s.gone(patience(ctx, err)); gone != nil {
			return "", gone
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if s.process == nil {
			err = s.net.explain(err, s.URL)
		}
		return "", fmt.Errorf("the MCP server %s: %s", s.Name, clippedTo(err.Error(), maxSaid))
	}
	text := contents(result)
	if result.IsError {
		if text == "" {
			text = "the tool failed and does not say why"
		}
		return "", errors.New(text)
	}
	return text, nil
}

// patience is how long after err a server's program may still end: not at all
// where it answered, or was too slow to.
func patience(ctx context.Context, err error) time.Duration {
	var answered *jsonrpc.Error
	if ctx.Err() != nil || errors.As(err, &answered) {
		return 0
	}
	return mcpEnd
}

// gone is the error of a server whose program has ended, within wait.
func (s *mcpServer) gone(wait time.Duration) error {
	if s.process == nil || !s.process.ended(wait) {
		return nil
	}
	return fmt.Errorf("the MCP server %s has ended%s; its tools can not be used any more", s.Name, s.process.said())
}

// contents are the result's texts; of what is none, that it is there.
func contents(result *mcp.CallToolResult) string {
	var parts []string
	for _, c := range result.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			parts = append(parts, fmt.Sprintf("[an image, %s, %d bytes: not shown]", c.MIMEType, len(c.Data)))
		case *mcp.AudioContent:
			parts = append(parts, fmt.Sprintf("[a sound, %s, %d bytes: not played]", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			parts = append(parts, fmt.Sprintf("[a link to %s]", c.URI))
		case *mcp.EmbeddedResource:
			switch {
			case c.Resource == nil:
			case c.Resource.Text != "":
				parts = append(parts, c.Resource.Text)
			default:
				parts = append(parts, fmt.Sprintf("[%s, %s, %d bytes: not shown]", c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob)))
			}
		}
	}
	if len(parts) == 0 && result.StructuredContent != nil {
		if data, err := json.Marshal(result.StructuredContent); err == nil {
			parts = append(parts, string(data))
		}
	}
	return clipped(strings.Join(parts, "\n"))
}

// stop ends all sessions and programs, within mcpStop and a little.
func (all *mcpServers) stop() {
	if all == nil {
		return
	}
	var wait sync.WaitGroup
	for _, s := range all.running {
		wait.Go(func() {
			if s.process != nil {
				s.process.stop(mcpStop)
			}
			if s.end != nil {
				defer s.end()
			}
			if s.session == nil {
				return
			}
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				_ = s.session.Close() // it is over either way
			}()
			select {
			case <-closed:
			case <-time.After(mcpStop):
			}
		})
	}
	wait.Wait()
}
