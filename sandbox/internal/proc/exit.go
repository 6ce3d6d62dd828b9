package proc

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/herd-runner/herd-runner/sandbox"
)

type stage struct {
	signal syscall.Signal
	grace  time.Duration
}

func stopStages(in []sandbox.StopStage) ([]stage, error) {
	out := make([]stage, 0, len(in))
	for _, s := range in {
		sig := unix.SignalNum("SIG" + strings.TrimPrefix(s.Signal, "SIG"))
		if sig == 0 {
			return nil, fmt.Errorf("stop signal %q is not known: expected one such as INT, TERM or KILL", s.Signal)
		}
		out = append(out, stage{sig, max(s.Grace, 0)})
	}
	return out, nil
}

func exitOf(state *os.ProcessState) sandbox.Exit {
	if state == nil {
		return sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "KILL"}
	}
	exit := sandbox.Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Code = 128 + int(ws.Signal())
		exit.Signal = signalName(ws.Signal())
	}
	if ru, ok := state.SysUsage().(*syscall.Rusage); ok {
		exit.PeakMemory = int64(ru.Maxrss)
		if runtime.GOOS != "darwin" { // there it is in bytes already
			exit.PeakMemory *= 1024
		}
	}
	return exit
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprint(int(s))
}
