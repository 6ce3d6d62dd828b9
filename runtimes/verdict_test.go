package runtimes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

func TestGatewayVerdict(t *testing.T) {
	retry := time.Unix(2e9, 0)
	tests := []struct {
		name string
		view runtimes.GatewayView
		want event.Cause
	}{
		{"no exchange", runtimes.GatewayView{}, ""},
		{"well", runtimes.GatewayView{LastStatus: 200, LastStop: "end_turn"}, ""},
		{"hung up on", runtimes.GatewayView{LastReason: "client_gone"}, ""},
		{"broken off", runtimes.GatewayView{LastStatus: 200, LastReason: "upstream"}, event.CauseInfrastructure},
		{"went quiet", runtimes.GatewayView{LastStatus: 200, LastReason: "upstream_idle"}, event.CauseInfrastructure},
		{"error in the stream", runtimes.GatewayView{LastStatus: 200, LastReason: "stream_error"}, event.CauseInfrastructure},
		{"no upstream", runtimes.GatewayView{LastStatus: 502, LastReason: "upstream"}, event.CauseInfrastructure},
		{"over budget", runtimes.GatewayView{LastStatus: 402, LastReason: "budget_exhausted"}, event.CauseBudget},
		{"model not allowed", runtimes.GatewayView{LastStatus: 403, LastReason: "model"}, event.CausePolicyDenied},
		{"another host", runtimes.GatewayView{LastStatus: 403, LastReason: "host"}, event.CausePolicyDenied},
		{"not in the cassette", runtimes.GatewayView{LastStatus: 400, LastReason: "replay_miss"}, event.CauseInfrastructure},
		{"no credential", runtimes.GatewayView{LastStatus: 401, LastReason: "auth"}, event.CauseAuth},
		{"unknown path", runtimes.GatewayView{LastStatus: 404, LastReason: "path"}, event.CauseExitCode},
		{"400", runtimes.GatewayView{LastStatus: 400}, event.CauseExitCode},
		{"400 no credit", runtimes.GatewayView{LastStatus: 400, Error: "Your credit balance is too low to access the API"}, event.CauseBudget},
		{"401", runtimes.GatewayView{LastStatus: 401}, event.CauseAuth},
		{"429 no credit", runtimes.GatewayView{LastStatus: 429, LastReason: "no_credit"}, event.CauseBudget},
		{"400 bad key", runtimes.GatewayView{LastStatus: 400, LastReason: "auth"}, event.CauseAuth},
		{"402", runtimes.GatewayView{LastStatus: 402}, event.CauseBudget},
		{"403", runtimes.GatewayView{LastStatus: 403}, event.CauseAuth},
		{"429", runtimes.GatewayView{LastStatus: 429, RetryAt: retry}, event.CauseRateLimited},
		{"529", runtimes.GatewayView{LastStatus: 529, RetryAt: retry}, event.CauseRateLimited},
		{"500", runtimes.GatewayView{LastStatus: 500}, event.CauseInfrastructure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := runtimes.GatewayVerdict(runtimes.Task{}, tt.view)
			if got.Cause != tt.want || ok != (tt.want != "") {
				t.Errorf("%+v, %v", got, ok)
			}
			if ok && (got.Message == "" || got.Hint == "") {
				t.Errorf("a failure needs words and a hint: %+v", got)
			}
			if tt.want == event.CauseRateLimited && !got.RetryAt.Equal(retry) {
				t.Errorf("RetryAt %v", got.RetryAt)
			}
		})
	}
}

func TestTheHintFollowsTheCredential(t *testing.T) {
	for _, tt := range []struct{ api, kind, want string }{
		{"anthropic", "oauth", "claude setup-token"}, {"anthropic", "api-key", "ANTHROPIC_API_KEY"},
		{"openai", "oauth", "codex login"}, {"openai", "api-key", "OPENAI_API_KEY"}, {"gemini", "api-key", "GEMINI_API_KEY"},
	} {
		got, _ := runtimes.GatewayVerdict(runtimes.Task{Credential: runtimes.Credential{Kind: tt.kind}}, runtimes.GatewayView{API: tt.api, LastStatus: 401})
		if !strings.Contains(got.Hint, tt.want) {
			t.Errorf("%+v: %q", tt, got.Hint)
		}
	}
}

func TestExitVerdict(t *testing.T) {
	tests := []struct {
		name string
		end  runtimes.End
		want event.Cause
		says string
	}{
		{"clean", runtimes.End{}, "", ""},
		{"stopped by the runner", runtimes.End{Exit: sandbox.Exit{Code: 143, Signal: "TERM", Stopped: true}}, "", ""},
		{"oom", runtimes.End{Exit: sandbox.Exit{Code: 137, Signal: "KILL", OOMKilled: true}}, event.CauseOOM, "memory"},
		{"signal", runtimes.End{Exit: sandbox.Exit{Code: 139, Signal: "SEGV"}}, event.CauseExitCode, "signal SEGV"},
		{"signal after a tool's oom", runtimes.End{Exit: sandbox.Exit{Code: 134, Signal: "ABRT", ToolOOM: true}}, event.CauseExitCode, "raise `memory:`"},
		{"not found", runtimes.End{Exit: sandbox.Exit{Code: 127}}, event.CauseExitCode, "herd-runner image build"},
		{"code and words", runtimes.End{Exit: sandbox.Exit{Code: 1}, Stderr: []byte("noise\nerror: unknown option '--x'\n\n")}, event.CauseExitCode, "exit code 1: error: unknown option"},
		{"code and garbage", runtimes.End{Exit: sandbox.Exit{Code: 1}, Stderr: []byte(strings.Repeat("\xff\x00é", 1000))}, event.CauseExitCode, "…"},
	}
	for _, tt := range tests {
		got, ok := runtimes.ExitVerdict(tt.end)
		if got.Cause != tt.want || ok != (tt.want != "") || !strings.Contains(got.Message+" "+got.Hint, tt.says) {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
	}
}
