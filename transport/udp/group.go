package udp

import (
	"fmt"

	"github.com/userspace-rpc/erpc/transport"
)

// MaxGroup is the largest number of sockets in a group.
const MaxGroup = 127

// GroupError says why sockets cannot share an address.
type GroupError struct {
	Sockets int // how many were asked for
	Reason  string
	Err     error // of the system, or transport.ErrUnsupported; or nil
}

// Error implements error.
func (e *GroupError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("udp: %d sockets on one address: %s: %v", e.Sockets, e.Reason, e.Err)
	}
	return fmt.Sprintf("udp: %d sockets on one address: %s", e.Sockets, e.Reason)
}

// Unwrap returns e.Err.
func (e *GroupError) Unwrap() error { return e.Err }

// ListenGroup opens n sockets on one address, for the n loops of a server. Packets say their loop
// in byte 11, as package wire has it. Loop i is that of the i-th socket, from 1 on, and the kernel
// gives it the packets for that loop. Packets that name no open loop go to any socket, by a hash of
// both addresses. It needs no privilege.
//
// A Conn of the group is closed like any other. The packets for its loop go to any of the others
// then. No socket can be added, and nobody but the group has the address: Listen and ListenGroup
// fail on it. Sockets of the same user that ask for Config.ReusePort are the exception; they take
// packets that are not theirs.
//
// A packet may come to another loop than its own all the same. The kernel chooses by the first
// packet of a train, and between the closing of a socket and the new filter by the old one. The
// receiver hands it over. Errors of the network, see [Conn.Hints], come to any of the sockets.
//
// One socket is that of Listen. Errors are those of Listen, and a *GroupError if there can be no
// group: it matches transport.ErrUnsupported on systems other than Linux and with Config.Portable.
func ListenGroup(addr string, n int, cfg Config) ([]*Conn, error) {
	switch {
	case n < 1 || n > MaxGroup:
		return nil, &GroupError{n, fmt.Sprintf("must be 1 to %d", MaxGroup), nil}
	case n == 1:
		c, err := Listen(addr, cfg)
		if err != nil {
			return nil, err
		}
		return []*Conn{c}, nil
	case cfg.ReusePort:
		return nil, &ConfigError{"ReusePort", 1, "a group does not share its address: leave it off", nil}
	case cfg.Portable || !haveKernel:
		return nil, &GroupError{n, "only the kernel of Linux steers packets to them",
			transport.ErrUnsupported}
	}
	local, err := parseListen(addr)
	if err != nil {
		return nil, err
	}
	cfg, err = cfg.complete(!local.any && isIPv4(local.ap.Addr()))
	if err != nil {
		return nil, err
	}
	impls, err := listenKernelGroup(local, n, cfg)
	if err != nil {
		return nil, err
	}
	conns := make([]*Conn, n)
	for i, impl := range impls {
		conns[i] = &Conn{impl: impl}
	}
	return conns, nil
}

// loopAt is the place of the byte that says the loop of a packet, in its low bits.
const loopAt = 11

// loopByte returns the byte that says the loop of an item. Packets of a train have the same one, so
// that the train goes where each of them should.
func loopByte(it *transport.TxItem) byte {
	if len(it.Head) > loopAt {
		return it.Head[loopAt]
	}
	return 0
}
