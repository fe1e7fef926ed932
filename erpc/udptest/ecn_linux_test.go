package udptest

import (
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// marker forwards datagrams between a client and a server, and plays a switch on the
// way there: it can mark what it forwards "congestion experienced" (RFC 3168).
type marker struct {
	t        *testing.T
	near     *net.UDPConn // the client's side
	far      *net.UDPConn // connected to the server
	marking  atomic.Bool
	forwards atomic.Int64
}

func newMarker(t *testing.T, server string) *marker {
	to, err := net.ResolveUDPAddr("udp4", server)
	if err != nil {
		t.Fatal(err)
	}
	near, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		t.Fatal(err)
	}
	m := &marker{t: t, near: near, far: far}
	client := make(chan *net.UDPAddr, 1)
	ended := make(chan struct{}, 2)
	go func() {
		defer func() { ended <- struct{}{} }()
		buf := make([]byte, 1<<16)
		known, marked := false, false
		for {
			n, from, err := near.ReadFromUDP(buf)
			if err != nil {
				return
			}
			if !known {
				known = true
				client <- from
			}
			if on := m.marking.Load(); on != marked {
				marked = on
				m.mark(on)
			}
			m.forwards.Add(1)
			_, _ = far.Write(buf[:n])
		}
	}()
	go func() {
		defer func() { ended <- struct{}{} }()
		buf := make([]byte, 1<<16)
		var to *net.UDPAddr
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			if to == nil {
				to = <-client
			}
			_, _ = near.WriteToUDP(buf[:n], to)
		}
	}()
	t.Cleanup(func() {
		near.Close()
		far.Close()
		<-ended
		<-ended
	})
	return m
}

// mark sets the ECN field of what leaves for the server: CE, or ECT(0).
func (m *marker) mark(on bool) {
	tos := 2
	if on {
		tos = 3
	}
	raw, err := m.far.SyscallConn()
	if err == nil {
		err2 := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TOS, tos)
		})
		if err == nil {
			err = err2
		}
	}
	if err != nil {
		m.t.Error(err)
	}
}

// TestDCQCNOnKernelMarks: marks in the TOS byte of received datagrams slow a session
// down, and it recovers when they end.
func TestDCQCNOnKernelMarks(t *testing.T) {
	cfg := erpc.Config{Congestion: erpc.Congestion{Algorithm: erpc.CCDCQCN, LinkRate: 1e9}}
	open := func() *erpc.Rpc {
		n, err := erpc.NewNexus(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) {
			if err := h.RespondBytes(h.Data()); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := udp.Listen("127.0.0.1:0", udp.Config{ECN: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := n.NewRpc(conn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
		return r
	}
	server, client := open(), open()
	m := newMarker(t, server.LocalAddr().String())
	s, err := client.CreateSession(m.near.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	step := func() {
		for _, r := range []*erpc.Rpc{client, server} {
			if _, err := r.RunOnce(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// call makes RPCs one after the other until enough, and fails after very many.
	call := func(what string, enough func(calls int, limited bool) bool) {
		for calls := 0; ; calls++ {
			_, limited := s.Rate()
			if enough(calls, limited) {
				return
			}
			if calls == 500_000 {
				rate, _ := s.Rate()
				t.Fatalf("%s: not after %d calls, rate %.3g bit/s", what, calls, rate)
			}
			req, err := client.Alloc(5000)
			if err != nil {
				t.Fatal(err)
			}
			over := false
			_, err = client.EnqueueRequest(s, erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
				over = true
				if c.Err != nil {
					t.Fatal(c.Err)
				}
				c.Req.Free()
				c.Resp.Free()
			}})
			if err != nil {
				t.Fatal(err)
			}
			for !over {
				step()
			}
		}
	}
	call("idle", func(calls int, limited bool) bool {
		if limited {
			t.Fatal("limited without marks")
		}
		return calls == 200
	})
	m.marking.Store(true)
	call("slower", func(_ int, limited bool) bool { return limited })
	m.marking.Store(false)
	call("recovered", func(_ int, limited bool) bool { return !limited })
}
