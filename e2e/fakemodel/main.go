// Command fakemodel serves the project's scripted model server on an address,
// to record cassettes against and to probe agent CLIs by hand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/herd-runner/herd-runner/internal/fakemodel"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8787", "listen `address`; port 0 picks one")
	logPath := flag.String("log", "", "append every request to this `file`, one JSON object a line")
	script := flag.String("script", "", "scenario `file` (YAML or JSON) for requests without a /s/<script>/<run> prefix")
	flag.Parse()
	if err := serve(*addr, *logPath, *script, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fakemodel:", err)
		os.Exit(1)
	}
}

// serve runs until SIGINT or SIGTERM and prints its URL to out once it listens.
func serve(addr, logPath, script string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opts := fakemodel.Options{}
	if script != "" {
		scenarios, err := fakemodel.ReadScenarios(script)
		if err != nil {
			return err
		}
		opts.Scenarios = scenarios
	}
	if logPath != "" {
		f, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("open log: %w", err)
		}
		defer f.Close()
		opts.Log = f
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	srv := &http.Server{Handler: fakemodel.Handler(opts), ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
