package erpc_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// types of batchPair, beside the others.
const (
	bEcho  = 100 // in batches
	bOther = 101 // in batches, too
	bOne   = 102 // alone; answers at once, or does what onOne says
)

// batchPair has several sessions between two endpoints, and a handler of batches at the server.
type batchPair struct {
	*memPair
	sessions []*erpc.Session // the client's ends
	served   []*erpc.Session // the server's ends
	sizes    []int           // of the batches that ran
	ran      []uint32        // their requests, in order
	calls    []*batchCall
	onBatch  func(reqs []erpc.ReqHandle) // in place of an echo, if not nil
	onOne    func(h erpc.ReqHandle)
}

// batchCall is a request of a batchPair, which has its number in all of its bytes.
type batchCall struct {
	id   erpc.RequestID
	size int
	ends int
	err  error
	good bool // the response is the request
}

func newBatchPair(t *testing.T, net *memNet, cfg erpc.Config, sessions int) *batchPair {
	t.Helper()
	p := &batchPair{}
	cfg.OnSession = func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if ev == erpc.SessionConnected && !s.IsClient() {
			p.served = append(p.served, s)
		}
	}
	p.memPair = newMemPairOn(t, net, cfg, func(n *erpc.Nexus) {
		is(t, "register", n.RegisterBatch(bEcho, p.serve), nil)
		is(t, "register", n.RegisterBatch(bOther, p.serve), nil)
		is(t, "register", n.Register(bOne, erpc.Dispatch, func(h erpc.ReqHandle) {
			if p.onOne != nil {
				p.onOne(h)
			}
			_ = h.RespondBytes(h.Data())
		}), nil)
	})
	p.sessions = append(p.sessions, p.sess)
	for range sessions - 1 {
		p.connect()
		p.sessions = append(p.sessions, p.sess)
	}
	return p
}

// number says which call data is the request of, and fails the test if it is not all of one.
func (p *batchPair) number(data []byte) uint32 {
	p.tb.Helper()
	if len(data) < 4 {
		p.tb.Errorf("%d bytes of data", len(data))
		return 0
	}
	n := binary.LittleEndian.Uint32(data)
	if int(n) >= len(p.calls) || !bytes.Equal(data, p.request(n)) {
		p.tb.Errorf("a request of %d bytes is damaged: % x", len(data), data[:4])
		return 0
	}
	return n
}

// request returns what call n sends.
func (p *batchPair) request(n uint32) []byte {
	b := make([]byte, p.calls[n].size)
	for i := 0; i < len(b); i += 4 {
		copy(b[i:], binary.LittleEndian.AppendUint32(nil, n))
	}
	return b
}

func (p *batchPair) serve(reqs []erpc.ReqHandle) {
	p.sizes = append(p.sizes, len(reqs))
	for _, h := range reqs {
		p.ran = append(p.ran, p.number(h.Data()))
	}
	if p.onBatch != nil {
		p.onBatch(reqs)
		return
	}
	p.echo(reqs)
}

// echo answers requests.
func (p *batchPair) echo(reqs []erpc.ReqHandle) {
	p.tb.Helper()
	for _, h := range reqs {
		is(p.tb, "respond", h.RespondBytes(h.Data()), nil)
		is(p.tb, "respond again", h.RespondBytes(nil), erpc.ErrResponded)
		if h.Data() != nil {
			p.tb.Error("an answered request has data")
		}
	}
}

// start enqueues a request of a type and size on one of the sessions.
func (p *batchPair) start(typ uint8, session, size int) *batchCall {
	p.tb.Helper()
	n := uint32(len(p.calls))
	c := &batchCall{size: size}
	p.calls = append(p.calls, c)
	req, err := p.client.Alloc(size)
	is(p.tb, "alloc", err, nil)
	copy(req.Data(), p.request(n))
	c.id, err = p.client.EnqueueRequest(p.sessions[session], erpc.Request{
		Type: typ, Req: req, Done: func(d erpc.Completion) {
			c.ends++
			c.err = d.Err
			spoil(d.Req)
			if d.Resp != nil {
				c.good = bytes.Equal(d.Resp.Data(), p.request(n))
				spoil(d.Resp)
			}
		},
	})
	is(p.tb, "enqueue", err, nil)
	return c
}

// burst lets the client send all, and the server take it in one burst.
func (p *batchPair) burst() {
	p.run(p.client)
	p.sizes, p.ran = nil, nil
	p.run(p.server)
}

// finish runs until all calls have ended once, those in failed with an error.
func (p *batchPair) finish(failed ...*batchCall) {
	p.tb.Helper()
	p.until(func() bool {
		return !slices.ContainsFunc(p.calls, func(c *batchCall) bool { return c.ends == 0 })
	})
	p.pass(20)
	for i, c := range p.calls {
		if bad := slices.Contains(failed, c); c.ends != 1 || (c.err != nil) != bad || c.good == bad {
			p.tb.Errorf("call %d ended %d times: %v, an echo: %v", i, c.ends, c.err, c.good)
		}
	}
	p.close()
}

// pass makes n steps.
func (p *batchPair) pass(n int) {
	for range n {
		p.step()
	}
}

// wantSizes compares the sizes of the batches that have run.
func (p *batchPair) wantSizes(want ...int) {
	p.tb.Helper()
	if !slices.Equal(p.sizes, want) {
		p.tb.Errorf("batches of %v, want %v", p.sizes, want)
	}
}

// overwrite fills all that the server has received with something else.
func (p *batchPair) overwrite() {
	for i := range p.send.slots {
		clear(p.send.slots[i].buf[:])
	}
}

// TestBatch: a handler gets the requests of a burst together, of one and of many sessions, alone in
// their packets or in bundles, of one and of several packets, each with its own data.
func TestBatch(t *testing.T) {
	for _, alone := range []bool{true, false} {
		for _, copied := range []bool{false, true} {
			for _, size := range []int{4, 40, 1000, 4000} {
				t.Run(fmt.Sprintf("%v-%v-%d", alone, copied, size), func(t *testing.T) {
					cfg := erpc.Config{Credits: 64, NoBundles: alone}
					cfg.Experiment.NoZeroCopy = copied
					p := newBatchPair(t, newMemNet(), cfg, 5)
					for i := range 40 {
						p.start(bEcho, i%5, size)
					}
					if p.burst(); size < memMTU {
						p.wantSizes(40)
					}
					p.finish()
				})
			}
		}
	}
}

// TestBatchOrder: a batch is in the order in which its requests came; two types have two batches,
// and what is served alone does not wait for them.
func TestBatchOrder(t *testing.T) {
	p := newBatchPair(t, newMemNet(), erpc.Config{Credits: 16}, 2)
	var alone []int
	p.onOne = func(erpc.ReqHandle) { alone = append(alone, len(p.ran)) }
	for i, typ := range []uint8{bOther, bEcho, bEcho, bOne, bOther, bEcho, bOther, bOne} {
		p.start(typ, i%2, 8)
	}
	p.burst()
	p.wantSizes(3, 3)
	// The client sends what it enqueued in order.
	if want := []uint32{0, 4, 6, 1, 2, 5}; !slices.Equal(p.ran, want) {
		t.Errorf("ran %v, want %v", p.ran, want)
	}
	if !slices.Equal(alone, []int{0, 0}) {
		t.Errorf("requests served alone came behind %v others", alone)
	}
	p.start(bEcho, 0, 8)
	p.burst()
	p.wantSizes(1)
	p.finish()
}

// TestBatchEndsAtMost: no batch has more than MaxBatch requests.
func TestBatchEndsAtMost(t *testing.T) {
	cfg := erpc.Config{Slots: 128, Credits: 128}
	p := newBatchPair(t, newMemNet(), cfg, 2)
	for i := range 130 {
		p.start(bEcho, i%2, 8)
	}
	p.start(bOther, 0, 8)
	p.burst()
	p.wantSizes(erpc.MaxBatch, erpc.MaxBatch, 2, 1)
	for i := range erpc.MaxBatch {
		p.start(bEcho, i%2, 8)
	}
	p.burst()
	p.wantSizes(erpc.MaxBatch)
	p.finish()
}

// TestBatchLeavesInTheMiddle: a batch ends where packets leave in the middle of a burst, and counts
// as the packets that it becomes. Requests that it leaves for later send nothing.
func TestBatchLeavesInTheMiddle(t *testing.T) {
	for _, alone := range []bool{true, false} {
		for _, c := range []struct {
			name   string
			types  []uint8 // in turn, of 20 requests
			now    int     // of each batch, that its handler answers before it returns
			sizes  []int
			bursts [4]int // packets or, in bundles, datagrams; the last ones first
		}{
			{"batch", []uint8{bEcho}, 8, []int{8, 8, 4}, [4]int{4, 8, 8}},
			{"two types", []uint8{bEcho, bOther}, 8, []int{4, 4, 4, 4, 2, 2}, [4]int{4, 8, 8}},
			{"and others", []uint8{bOne, bEcho}, 8, []int{4, 4, 2}, [4]int{4, 8, 8}},
			{"kept", []uint8{bEcho}, 0, []int{8, 8, 4}, [4]int{}},
			{"most kept", []uint8{bEcho}, 1, []int{8, 7, 5}, [4]int{3}},
		} {
			t.Run(fmt.Sprintf("%s-%v", c.name, alone), func(t *testing.T) {
				net := newMemNet()
				net.batch = 8
				p := newBatchPair(t, net, erpc.Config{Slots: 32, Credits: 32, NoBundles: alone}, 1)
				p.pass(3)
				var kept []erpc.ReqHandle
				p.onBatch = func(reqs []erpc.ReqHandle) {
					n := min(c.now, len(reqs))
					p.echo(reqs[:n])
					kept = append(kept, reqs[n:]...)
				}
				for i := range 20 {
					p.start(c.types[i%len(c.types)], 0, 16)
				}
				p.send.bursts = [4]int{}
				p.burst()
				p.wantSizes(c.sizes...)
				want := c.bursts
				for i := range want {
					if !alone {
						want[i] = min(want[i], 1) // each burst is one bundle
					}
				}
				if p.send.bursts != want {
					t.Errorf("bursts of %v, want %v", p.send.bursts, want)
				}
				p.echo(kept)
				p.finish()
			})
		}
	}
}

// TestBatchKept: requests that are not answered when the handler returns are copied out of the
// receive ring, also if the handler spoils the slice that it gets. They are answered in any order.
func TestBatchKept(t *testing.T) {
	for _, size := range []int{4, 1000, 4000} {
		p := newBatchPair(t, newMemNet(), erpc.Config{Credits: 64}, 3)
		var kept []erpc.ReqHandle
		p.onBatch = func(reqs []erpc.ReqHandle) {
			slices.Reverse(reqs)
			p.echo(reqs[:len(reqs)/3])
			kept = append(kept, reqs[len(reqs)/3:]...)
			clear(reqs)
		}
		for i := range 15 {
			p.start(bEcho, i%3, size)
		}
		for len(p.calls) < 15 || len(kept) < 10 {
			p.burst()
			p.overwrite()
		}
		seen := map[uint32]bool{}
		for _, h := range kept {
			seen[p.number(h.Data())] = true
		}
		if len(seen) != len(kept) {
			t.Errorf("%d handles are of %d requests", len(kept), len(seen))
		}
		p.onBatch = nil
		p.start(bEcho, 0, size)
		p.burst()
		slices.Reverse(kept)
		p.echo(kept)
		p.finish()
	}
}

// TestBatchShared: where a sender can change packets that have been received, a batch handler sees
// copies.
func TestBatchShared(t *testing.T) {
	for _, size := range []int{4, 232, 236, 1000, 4000} {
		p := newBatchPair(t, &memNet{now: 1e9, shared: true}, erpc.Config{Credits: 64}, 3)
		p.onBatch = func(reqs []erpc.ReqHandle) {
			for i := range p.send.slots {
				if s := &p.send.slots[i]; s.n > 256 {
					clear(s.buf[24:])
				}
			}
			for _, h := range reqs {
				p.number(h.Data())
			}
			p.echo(reqs)
		}
		for i := range 12 {
			p.start(bEcho, i%3, size)
		}
		p.burst()
		p.finish()
	}
}

// TestBatchPoison: builds with assertions write over requests in the receive ring when their
// handler returns.
func TestBatchPoison(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("this build has no assertions")
	}
	p := newBatchPair(t, newMemNet(), erpc.Config{Credits: 64}, 2)
	var stolen [][]byte
	p.onBatch = func(reqs []erpc.ReqHandle) {
		for _, h := range reqs {
			stolen = append(stolen, h.Data())
		}
		p.echo(reqs[1:])
	}
	for i := range 6 {
		p.start(bEcho, i%2, 100)
	}
	p.burst()
	for i, b := range stolen {
		if len(b) != 100 || len(bytes.Trim(b, "\xDB")) != 0 {
			t.Errorf("request %d can be read after its handler returned: % x", i, b)
		}
	}
	_ = p.server.Close() // without an answer to the first one
	p.run(p.client)
	if c := p.calls[0]; c.ends != 1 || c.err == nil {
		t.Errorf("the request without an answer ended %d times: %v", c.ends, c.err)
	}
	is(t, "close", p.client.Close(), nil)
}

// TestBatchRepeats: a request that comes twice in a burst runs once.
func TestBatchRepeats(t *testing.T) {
	p := newBatchPair(t, newMemNet(), erpc.Config{NoBundles: true, Credits: 16}, 2)
	for i := range 6 {
		p.start(bEcho, i%2, 8)
	}
	p.run(p.client)
	for i, end := p.send.head, p.send.tail; i < end; i++ {
		pkt := p.send.slots[i%memRing]
		p.send.put(pkt.buf[:pkt.n], nil, &pkt.from)
	}
	p.run(p.server)
	p.wantSizes(6)
	p.finish()
}
