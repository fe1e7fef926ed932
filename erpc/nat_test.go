package erpc_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// nat is a translator of addresses: it leads what comes from a port to the server that it knew when
// the first packet came from there, however long packets go on to come.
type nat struct {
	in    *net.UDPConn
	mu    sync.Mutex
	to    netip.AddrPort // for new ports
	flows map[netip.AddrPort]*net.UDPConn
	dead  map[netip.AddrPort]bool // servers that are gone
	all   sync.WaitGroup
}

func newNAT(t *testing.T, to string) *nat {
	in, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	is(t, "listen", err, nil)
	n := &nat{in: in, flows: map[netip.AddrPort]*net.UDPConn{}, dead: map[netip.AddrPort]bool{}}
	n.lead(to)
	n.all.Go(n.forward)
	t.Cleanup(func() {
		in.Close()
		n.mu.Lock()
		for _, c := range n.flows {
			c.Close()
		}
		n.mu.Unlock()
		n.all.Wait()
	})
	return n
}

// lead has new ports lead to a server, and what leads to the one before go nowhere.
func (n *nat) lead(to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.to.IsValid() {
		n.dead[n.to] = true
	}
	n.to = netip.MustParseAddrPort(to)
}

// ports returns how many ports of clients have been seen.
func (n *nat) ports() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.flows)
}

func (n *nat) forward() {
	buf := make([]byte, 1<<16)
	for {
		k, from, err := n.in.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		n.mu.Lock()
		flow := n.flows[from]
		if flow == nil {
			if flow, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(n.to)); err != nil {
				n.mu.Unlock()
				return
			}
			n.flows[from] = flow
			n.all.Go(func() { n.back(flow, from) })
		}
		dead := n.dead[flow.RemoteAddr().(*net.UDPAddr).AddrPort()]
		n.mu.Unlock()
		if !dead {
			_, _ = flow.Write(buf[:k])
		}
	}
}

// back carries what a server answers.
func (n *nat) back(flow *net.UDPConn, to netip.AddrPort) {
	buf := make([]byte, 1<<16)
	for {
		k, err := flow.Read(buf)
		if err != nil {
			return
		}
		n.mu.Lock()
		dead := n.dead[flow.RemoteAddr().(*net.UDPAddr).AddrPort()]
		n.mu.Unlock()
		if !dead {
			_, _ = n.in.WriteToUDPAddrPort(buf[:k], to)
		}
	}
}

// TestServerBehindTranslatorReplaced: a translator goes on to lead the port of a Loop to a server
// that is gone. The Client reaches the next one from another port, in the clear, with keys, and as
// a server of a Pool; twice. Another Client of the Loop keeps its session and its port.
func TestServerBehindTranslatorReplaced(t *testing.T) {
	for name, cfg := range map[string]erpc.Config{
		"clear": {}, "sealed": {PSK: [][]byte{make([]byte, 32)}},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			first, second, third := newRig(t, cfg), newRig(t, cfg), newRig(t, cfg)
			still := newRig(t, cfg)
			n := newNAT(t, first.serve(t, "127.0.0.1:0"))
			other := newNAT(t, still.serve(t, "127.0.0.1:0"))
			cfg.Timing = erpc.Timing{
				Heartbeat: 20 * time.Millisecond, FailureTimeout: 500 * time.Millisecond,
				ConnectTimeout: time.Hour,
			}
			loop, err := erpc.NewLoop(listen(t, "127.0.0.1:0"), cfg)
			is(t, "loop", err, nil)
			defer loop.Close()
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			defer cancel()
			c, err := loop.Dial(ctx, n.in.LocalAddr().String())
			is(t, "dial", err, nil)
			o, err := loop.Dial(ctx, other.in.LocalAddr().String())
			is(t, "dial another", err, nil)
			p, err := erpc.NewPool(erpc.PoolConfig{Servers: []string{n.in.LocalAddr().String()}}, loop)
			is(t, "pool", err, nil)
			defer p.Close()
			is(t, "pool", p.Ready(ctx), nil)
			wait := erpc.CallOptions{WaitForReady: true}
			for _, next := range []*rig{second, third} {
				n.lead(next.serve(t, "127.0.0.1:0"))
				for served(next) == 0 { // calls fail until the Client has noticed
					if _, err := c.Call(ctx, typeEcho, []byte("x")); ctx.Err() != nil {
						t.Fatal(err)
					}
				}
				for before := served(next); served(next) == before; {
					_, err := p.CallWith(ctx, wait, nil, typeEcho, []byte("x"))
					if ctx.Err() != nil {
						t.Fatal(err)
					}
				}
				for {
					if _, err := o.Call(ctx, typeEcho, []byte("x")); err == nil {
						break
					} else if ctx.Err() != nil {
						t.Fatal("another Client: ", err)
					}
				}
			}
			if k := other.ports(); k != 1 {
				t.Errorf("the other Client has used %d ports", k)
			}
		})
	}
}
