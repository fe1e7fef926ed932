package echo

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"

	"github.com/quic-go/quic-go"
)

// quicPeer is quic-go with its default configuration: one connection, and a stream for each call.
// QUIC is always encrypted.
var quicPeer = Peer{
	Name: "quic", Module: "github.com/quic-go/quic-go", Transport: "udp",
	Listen: func(z Sizes) (Server, error) { return listenQUIC(anyPort, z) }, ListenAt: listenQUIC,
	Dial: dialQUIC,
}

const quicProtocol = "labs-peers-echo"

type quicServer struct {
	*quic.Listener
	limit  int
	answer replier
}

func listenQUIC(addr string, z Sizes) (Server, error) {
	cfg := TLSConfig()
	cfg.NextProtos, cfg.ClientAuth = []string{quicProtocol}, tls.NoClientCert
	l, err := quic.ListenAddr(addr, cfg, nil)
	if err != nil {
		return nil, err
	}
	return &quicServer{l, z.limit(), newReplier(z)}, nil
}

func (s *quicServer) Addr() string { return s.Listener.Addr().String() }

// Serve implements Server.
func (s *quicServer) Serve() error {
	for {
		c, err := s.Accept(context.Background())
		if err != nil {
			return err
		}
		go s.serve(c)
	}
}

// serve answers each stream of a connection in a goroutine.
func (s *quicServer) serve(c *quic.Conn) {
	for {
		stream, err := c.AcceptStream(context.Background())
		if err != nil {
			return // the connection ended
		}
		go func() {
			request, err := readAll(stream, s.limit)
			if err != nil {
				stream.CancelWrite(1)
				stream.CancelRead(1)
				return
			}
			if _, err := stream.Write(s.answer.reply(request)); err == nil {
				_ = stream.Close()
			}
		}()
	}
}

// readAll reads a stream up to its end.
func readAll(from *quic.Stream, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("quic: message of more than %d bytes", limit)
	}
	return b, err
}

type quicConn struct {
	*quic.Conn
	limit int
}

func dialQUIC(ctx context.Context, addr string, z Sizes) (Conn, error) {
	cfg := TLSConfig()
	cfg.NextProtos, cfg.ServerName = []string{quicProtocol}, net.IPv4(127, 0, 0, 1).String()
	c, err := quic.DialAddr(ctx, addr, cfg, nil)
	if err != nil {
		return nil, err
	}
	return quicConn{c, z.limit()}, nil
}

func (c quicConn) NewCall() Call {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		stream, err := c.OpenStreamSync(ctx)
		if err != nil {
			return nil, err
		}
		defer context.AfterFunc(ctx, func() { stream.CancelWrite(1); stream.CancelRead(1) })()
		if _, err := stream.Write(request); err != nil {
			return nil, err
		}
		if err := stream.Close(); err != nil {
			return nil, err
		}
		return readAll(stream, c.limit)
	}
}

func (c quicConn) Close() error { return c.CloseWithError(0, "") }
