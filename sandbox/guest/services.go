package guest

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/herd-runner/herd-runner/sandbox/internal/wire"
)

// Where processes in the box find the gateway and the egress proxy on
// 127.0.0.1, unless the port is taken.
const (
	GatewayPort = 8377
	EgressPort  = 8378
)

// maxConns bounds the connections of one box to one service at the same time.
const maxConns = 128

// service is something on the runner's side that the box reaches here.
type service struct {
	kind     byte // of its streams
	listener net.Listener
	slots    chan struct{}
}

// listen opens what the runner asks for.
func (s *server) listen(asked wire.Hello, mine *wire.Hello) error {
	var errs []error
	for _, x := range []struct {
		asked bool
		kind  byte
		port  int
		addr  *string
	}{
		{asked.Gateway, wire.StreamGateway, GatewayPort, &mine.GatewayAddr},
		{asked.Egress, wire.StreamEgress, EgressPort, &mine.EgressAddr},
	} {
		if !x.asked {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(x.port))
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*x.addr = l.Addr().String()
		s.services = append(s.services, &service{x.kind, l, make(chan struct{}, maxConns)})
	}
	return errors.Join(errs...)
}

func (s *server) offer(v *service, wg *sync.WaitGroup) {
	for {
		select {
		case v.slots <- struct{}{}:
		case <-s.session.CloseChan():
			return
		}
		conn, err := v.listener.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			s.carry(v.kind, conn)
			<-v.slots
		})
	}
}

// carry copies both ways, keeping half-closed connections half open.
func (s *server) carry(kind byte, conn net.Conn) {
	defer conn.Close()
	stream, err := s.session.OpenStream()
	if err != nil {
		return
	}
	defer stream.Close()
	if _, err := stream.Write([]byte{kind}); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.Copy(stream, conn)
		if err != nil {
			_ = conn.Close()
		}
		_ = stream.Close()
	}()
	_, _ = io.Copy(conn, stream)
	_ = conn.Close() // the other side has answered to the end
	<-done
}
