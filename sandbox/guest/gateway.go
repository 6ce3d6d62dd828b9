package guest

import (
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/herd-runner/herd-runner/sandbox/internal/wire"
)

const (
	// Port is where processes in the box find the gateway on 127.0.0.1,
	// unless it is taken.
	Port = 8377
	// maxGatewayConns bounds the connections of one box at the same time.
	maxGatewayConns = 128
)

func (s *server) listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(Port))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	s.listener = l
	return err
}

func (s *server) serveGateway(wg *sync.WaitGroup) {
	for {
		select {
		case s.gatewaySlots <- struct{}{}:
		case <-s.session.CloseChan():
			return
		}
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			s.carry(conn)
			<-s.gatewaySlots
		})
	}
}

// carry copies both ways, keeping half-closed connections half open.
func (s *server) carry(conn net.Conn) {
	defer conn.Close()
	stream, err := s.session.OpenStream()
	if err != nil {
		return
	}
	defer stream.Close()
	if _, err := stream.Write([]byte{wire.StreamGateway}); err != nil {
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
	_ = conn.Close() // the gateway has answered to the end
	<-done
}
