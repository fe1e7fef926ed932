package echo

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// leastPeer is the least program that calls over UDP from goroutines: a socket of package net for
// each call, which blocks. It has no sessions and no handlers that may block. A request whose
// answer is long overdue is sent again. It shows what waking up the processes of a call costs.
var leastPeer = Peer{
	Name: "net-udp", Transport: "udp", Listen: listenNetUDP, Dial: dialNetUDP, ConnPerCall: true,
	MaxSize: maxUDP,
}

// maxUDP is the most that a datagram carries over IPv4.
const maxUDP = 65507

// A call of leastPeer sends its request as often as this, each time after so long without an
// answer.
const (
	netUDPTries = 10
	netUDPWait  = 500 * time.Millisecond
)

type netUDPServer struct {
	conn   *net.UDPConn
	answer replier
}

func listenNetUDP(z Sizes) (Server, error) {
	at := net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))
	conn, err := net.ListenUDP("udp4", at)
	if err != nil {
		return nil, err
	}
	return &netUDPServer{conn, newReplier(z)}, nil
}

func (s *netUDPServer) Addr() string { return s.conn.LocalAddr().String() }
func (s *netUDPServer) Close() error { return s.conn.Close() }

func (s *netUDPServer) Serve() error {
	buf := make([]byte, maxUDP)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		if _, err := s.conn.WriteToUDPAddrPort(s.answer.reply(buf[:n]), from); err != nil {
			return err
		}
	}
}

type netUDPConn struct {
	net.Conn
	fixed bool // responses are no echoes
}

func dialNetUDP(ctx context.Context, addr string, z Sizes) (Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "udp4", addr)
	if err != nil {
		return nil, err
	}
	return netUDPConn{c, z.Request != z.Response}, nil
}

func (c netUDPConn) NewCall() Call {
	buf := make([]byte, maxUDP)
	return func(ctx context.Context, request []byte) (response []byte, err error) {
		for range netUDPTries {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if response, err = c.once(request, buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
		}
		return response, err
	}
}

// once sends a request and waits for its answer. Late answers to requests before are passed over:
// an echo has the number of its request.
func (c netUDPConn) once(request, buf []byte) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(netUDPWait)); err != nil {
		return nil, err
	}
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		if c.fixed || n < seqBytes || len(request) < seqBytes ||
			bytes.Equal(buf[:seqBytes], request[:seqBytes]) {
			return buf[:n], nil
		}
	}
}
