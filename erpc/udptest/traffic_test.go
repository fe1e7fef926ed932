package udptest

import (
	"bytes"
	"net"
	"os"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// calls is n in a full run and less under -short.
func calls(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// bulk is the size n of a large message, or less in the lab, whose processors are emulated.
func bulk(n int) int {
	if os.Getenv("RDMA_LAB") != "" {
		return n / 16
	}
	return n
}

func TestTwoProcesses(t *testing.T) {
	s := server(t, role{})
	c := client(t, role{}, s)
	c.run(job{Op: "calls", Calls: calls(20_000), Workers: 32, Size: 4000, Type: typeInline})
	c.run(job{Op: "calls", Calls: calls(20_000), Workers: 32, Size: 4000, Type: typeEcho})
	c.quit()
	s.quit()
}

// TestEightProcesses has four clients call four servers, all to all.
func TestEightProcesses(t *testing.T) {
	const n = 4
	var servers, clients [n]*proc
	for i := range servers {
		servers[i] = server(t, role{ID: i})
	}
	for i := range clients {
		clients[i] = client(t, role{ID: i}, servers[:]...)
	}
	each := calls(8000)
	for _, c := range clients {
		c.begin(job{Op: "calls", Calls: each, Workers: 16, Size: 10_000, Type: typeOnce})
	}
	for _, c := range clients {
		if r := c.done(); r.OK != each || len(r.Errors) != 0 {
			t.Errorf("%s: %d calls of %d succeeded, errors %v", c.name, r.OK, each, r.Errors)
		}
		c.quit()
	}
	var sum report
	for _, s := range servers {
		r := s.report()
		sum.Distinct += r.Distinct
		sum.Repeated += r.Repeated
		if r.Distinct != each {
			t.Errorf("%s ran %d requests, want %d", s.name, r.Distinct, each)
		}
		s.quit()
	}
	if sum != (report{Distinct: n * each}) {
		t.Errorf("servers ran %+v, want %d distinct requests", sum, n*each)
	}
}

// TestLoss loses one packet in twenty in each direction.
func TestLoss(t *testing.T) {
	s := server(t, role{Loss: 0.05, ID: 100, Slots: 64, Credits: 256})
	c := client(t, role{Loss: 0.05, Slots: 64, Credits: 256}, s)
	r := c.run(job{Op: "calls", Calls: calls(100_000), Workers: 64, Size: 3000, Type: typeOnce})
	t.Logf("%d calls in %v", r.OK, r.Took)
	if got := s.report(); got != (report{Distinct: r.OK}) {
		t.Errorf("the server ran %+v, want %d distinct requests", got, r.OK)
	}
	c.quit()
	s.quit()
}

func TestLargeMessages(t *testing.T) {
	s := server(t, role{})
	c := client(t, role{}, s)
	for _, typ := range []uint8{typeInline, typeEcho} {
		r := c.run(job{Op: "calls", Calls: 20, Workers: 2, Size: bulk(8 << 20), Exact: true, Type: typ})
		t.Logf("type %d: 20 times 8 MiB both ways in %v", typ, r.Took)
	}
	c.quit()
	s.quit()
}

func TestIPv6(t *testing.T) {
	probe, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6 loopback: ", err)
	}
	_ = probe.Close()
	s := server(t, role{Bind: "[::1]:0"})
	c := client(t, role{Bind: "[::1]:0"}, s)
	c.run(job{Op: "calls", Calls: calls(5000), Workers: 16, Size: 20_000, Type: typeEcho})
	c.quit()
	s.quit()
}

// TestChain starts each of 1,000 RPCs in the continuation of the one before.
func TestChain(t *testing.T) {
	const length = 1000
	s := server(t, role{})
	n, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.NewRpc(conn)
	if err != nil {
		t.Fatal(err)
	}
	sess, err := r.CreateSession(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{t: t, sess: sess, length: length}
	if c.req, err = r.Alloc(100); err != nil {
		t.Fatal(err)
	}
	if c.resp, err = r.Alloc(100); err != nil {
		t.Fatal(err)
	}
	c.next(r)
	if err := r.Run(func() bool { return c.done == length || t.Failed() }); err != nil {
		t.Fatal(err)
	}
	c.req.Free()
	c.resp.Free()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	s.quit()
}

// chain is a row of RPCs that share their buffers.
type chain struct {
	t            *testing.T
	sess         *erpc.Session
	req, resp    *erpc.MsgBuffer
	done, length int
}

func (c *chain) next(r *erpc.Rpc) {
	copy(c.req.Data(), content(0, uint64(c.done), 100))
	if _, err := r.EnqueueRequest(c.sess, erpc.Request{Type: typeInline, Req: c.req, Resp: c.resp,
		Done: c.ended, Timeout: hang}); err != nil {
		c.t.Errorf("RPC %d: %v", c.done, err)
	}
}

func (c *chain) ended(k erpc.Completion) {
	if k.Err != nil || !bytes.Equal(k.Resp.Data(), content(0, uint64(c.done), 100)) {
		c.t.Errorf("RPC %d: error %v, or foreign contents", c.done, k.Err)
		return
	}
	if c.done++; c.done < c.length {
		c.next(k.Rpc)
	}
}
