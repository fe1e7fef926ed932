package echo

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestConnect: connections to many servers at once answer, each from its own server, and end. Those
// of this library share one event loop.
func TestConnect(t *testing.T) {
	z := Sizes{Request: 8, Response: 8}
	for _, p := range fit() {
		if p.Streams {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			var addrs []string
			for range 3 {
				srv, err := p.Listen(z)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- srv.Serve() }()
				t.Cleanup(func() { _ = srv.Close(); <-ended })
				addrs = append(addrs, srv.Addr())
			}
			conns, err := p.Connect(t.Context(), addrs, z)
			if err != nil || len(conns) != len(addrs) {
				t.Fatalf("%d connections, %v", len(conns), err)
			}
			loops := map[*erpc.Loop]bool{}
			for i, c := range conns {
				request := Payload(8)
				Stamp(request, uint64(i))
				response, err := c.NewCall()(t.Context(), request)
				if err == nil {
					err = Check(request, nil, response, true)
				}
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
				if l, ok := c.(*loopConn); ok {
					loops[l.loop] = true
				}
			}
			if p.Name == erpcPeer.Name && len(loops) != 1 {
				t.Errorf("%d event loops", len(loops))
			}
			if err := CloseAll(conns); err != nil {
				t.Error(err)
			}
			for l := range loops {
				if _, err := l.Dial(t.Context(), addrs[0]); !errors.Is(err, erpc.ErrClosed) {
					t.Error("the loop goes on without connections")
				}
			}
		})
	}
}

// TestConnectFails: if one connection cannot be made there is none.
func TestConnectFails(t *testing.T) {
	boom, open := errors.New("boom"), 0
	p := Peer{Dial: func(_ context.Context, addr string, _ Sizes) (Conn, error) {
		if addr == "bad" {
			return nil, boom
		}
		open++
		return countedConn{&open}, nil
	}}
	list, err := p.Connect(t.Context(), []string{"a", "b", "bad", "c"}, Sizes{})
	if !errors.Is(err, boom) || list != nil || open != 0 {
		t.Errorf("%v, %d listed, %d left open", err, len(list), open)
	}
	_, err = erpcPeer.Connect(t.Context(), []string{"nonsense"}, Sizes{})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Error(err)
	}
}

// countedConn counts those that are open.
type countedConn struct{ open *int }

func (c countedConn) NewCall() Call { return nil }
func (c countedConn) Close() error  { *c.open--; return nil }
