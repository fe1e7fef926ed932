package echo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
)

// udpMuxPeer is mux over UDP: the same goroutines and switches, and in place of a stream datagrams
// of the size of this library's packets, each with as many calls as there are and fit. It has no
// sessions, timers or recovery: the calls of a datagram that is lost never end. It shows what many
// callers of any library over UDP can have.
var udpMuxPeer = Peer{
	Name: "udp-mux", Transport: "udp", Dial: dialUDPMux, Listen: listenUDPMux,
	MaxSize: udpDatagram - leanHeader,
}

// udpMuxBuffer is the size in bytes that a socket's receive buffer is to have. The system may give
// less.
const udpMuxBuffer = 4 << 20

type udpMuxServer struct {
	conn   *net.UDPConn
	answer replier
}

func listenUDPMux(z Sizes) (Server, error) {
	at := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(anyPort))
	conn, err := net.ListenUDP("udp4", at)
	if err != nil {
		return nil, err
	}
	if err := conn.SetReadBuffer(udpMuxBuffer); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &udpMuxServer{conn, newReplier(z)}, nil
}

func (s *udpMuxServer) Addr() string { return s.conn.LocalAddr().String() }
func (s *udpMuxServer) Close() error { return s.conn.Close() }

// Serve implements Server.
func (s *udpMuxServer) Serve() error {
	in, out := make([]byte, maxUDP), make([]byte, 0, maxUDP)
	var body bytes.Reader
	frames := bufio.NewReaderSize(&body, maxUDP)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(in)
		if err != nil {
			return err
		}
		body.Reset(in[:n])
		frames.Reset(&body)
		for out = out[:0]; ; {
			slot, request, err := readLean(frames)
			if err != nil {
				break // the end of the datagram
			}
			out = leanFrame(out, slot, s.answer.reply(request))
		}
		err = inDatagrams(out, func(b []byte) error {
			_, err := s.conn.WriteToUDPAddrPort(b, from)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// inDatagrams sends frames, as many in each datagram as fit.
func inDatagrams(frames []byte, send func([]byte) error) error {
	for end := 0; len(frames) > 0; frames, end = frames[end:], 0 {
		for end < len(frames) {
			n := leanHeader + int(binary.LittleEndian.Uint32(frames[end:]))
			if end > 0 && end+n > udpDatagram {
				break
			}
			end += n
		}
		if err := send(frames[:end]); err != nil {
			return err
		}
	}
	return nil
}

// udpFrames is a connected socket to which frames are written, many at once.
type udpFrames struct{ net.Conn }

func (c udpFrames) Write(frames []byte) (int, error) {
	return len(frames), inDatagrams(frames, func(b []byte) error {
		_, err := c.Conn.Write(b)
		return err
	})
}

func dialUDPMux(ctx context.Context, addr string, _ Sizes) (Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "udp4", addr)
	if err != nil {
		return nil, err
	}
	if err := nc.(*net.UDPConn).SetReadBuffer(udpMuxBuffer); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return newLeanMux(udpFrames{nc}), nil
}
