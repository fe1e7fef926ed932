package grpcerpc

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"google.golang.org/grpc/credentials"
)

// isLocal reports whether credentials are those of grpc's package credentials/local. Sessions can
// have them: they encrypt nothing, and refuse peers of other machines.
func isLocal(c credentials.TransportCredentials) bool {
	return c != nil && c.Info().SecurityProtocol == "local"
}

// localConn shows local credentials whom they are asked about.
type localConn struct {
	net.Conn // nil: they ask for the address alone
	peer     net.Addr
}

func (c localConn) RemoteAddr() net.Addr { return c.peer }

// ofPeer is the connection with a peer. One over shared memory is as private as a socket of
// the file system.
func ofPeer(a Addr) localConn {
	if a.Shared {
		return localConn{peer: &net.UnixAddr{Name: a.String(), Net: "unix"}}
	}
	a.AddrPort = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	return localConn{peer: a}
}

// localServer asks local credentials of a client about the server that an address names. It returns
// nil for others.
func (l *link) localServer(addr string) (credentials.AuthInfo, error) {
	if !isLocal(l.creds.creds) {
		return nil, nil
	}
	to, err := l.loop.transport.Resolve(addr)
	if err != nil {
		return nil, fmt.Errorf("grpcerpc: %w", err)
	}
	_, info, err := l.creds.creds.ClientHandshake(context.Background(), "", ofPeer(addrOf(to)))
	if err != nil {
		return nil, fmt.Errorf("transport: authentication handshake failed: %w", err)
	}
	return info, nil
}

// localClient asks local credentials of a server about a client. It returns nil for others.
func (o *serverOptions) localClient(a Addr) (credentials.AuthInfo, error) {
	if !isLocal(o.creds) {
		return nil, nil
	}
	_, info, err := o.creds.ServerHandshake(ofPeer(a))
	return info, err
}
