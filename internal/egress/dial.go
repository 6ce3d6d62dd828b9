package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// maxAddresses of a name are tried.
const maxAddresses = 8

// judge finds the entry of the list that allows t.
func (s *Session) judge(t target, c *call) *failure {
	entry, ok := s.list.match(t)
	if !ok {
		return notListed(t)
	}
	c.entry = entry
	return nil
}

// dial resolves t, judges what it finds, and connects to exactly that.
func (s *Session) dial(ctx context.Context, t target, c *call) (net.Conn, *failure) {
	addrs := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		var err error
		if addrs, err = s.opts.Lookup(ctx, t.name); err != nil || len(addrs) == 0 {
			return nil, &failure{reason: reasonUnresolved, message: t.name + " has no address"}
		}
	}
	usable, f := s.usable(t, addrs)
	if f != nil {
		return nil, f
	}
	for _, addr := range usable {
		attempt, cancel := context.WithTimeout(ctx, dialTime)
		conn, err := s.opts.Dial(attempt, netip.AddrPortFrom(addr, uint16(t.port)))
		cancel()
		if err == nil {
			dialled := addr.String()
			c.address.Store(&dialled)
			c.connected()
			return &counted{Conn: conn, call: c}, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, &failure{reason: reasonUnreachable, message: t.String() + " does not answer"}
}

// usable are the addresses that may be dialled, those of the internet first.
func (s *Session) usable(t target, addrs []netip.Addr) ([]netip.Addr, *failure) {
	var public, private []netip.Addr
	for _, addr := range addrs[:min(len(addrs), maxAddresses)] {
		if addr = addr.Unmap(); Public(addr) {
			public = append(public, addr)
		} else if addr.Zone() == "" {
			private = append(private, addr)
		}
	}
	if len(private) > 0 {
		words, ok := s.opts.Private(t.host())
		if ok {
			public = append(public, private...)
		} else if len(public) == 0 {
			return nil, &failure{reasonPrivate, fmt.Sprintf("%s is at %s, which is no address of the internet", t.name, private[0]), words}
		}
	}
	if len(public) == 0 {
		return nil, &failure{reason: reasonUnresolved, message: t.name + " has no address"}
	}
	return public, nil
}
