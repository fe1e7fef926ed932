package session

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// lean is the allowance of a testBank for unfinished requests of a peer.
const lean = 2 << 20

// testBank is a bank with so much.
type testBank struct {
	left, leant int64
	why         Refusal
	shut        bool // gives nothing
}

func (b *testBank) Take(n int64) Refusal {
	if n > b.left || b.shut {
		return b.why
	}
	b.left -= n
	return Granted
}

func (b *testBank) Give(n int64) { b.left += n }

func (b *testBank) Lean(n int64) bool {
	if b.leant+n > lean {
		return false
	}
	b.leant += n
	return true
}

const testBankSize = 1 << 40

// hoard is the server's side of some sessions of one peer.
type hoard struct {
	tb       rapid.TB
	pool     *msgbuf.Pool
	mem      *Memory
	bank     *testBank
	acct     Account
	svs      []*Server
	out      *Out
	stats    Stats
	refuse   [256]wire.Code
	now      monotime.Time
	sent     int // payload bytes
	requests int // EventRequest
}

var hoardTiming, _ = Timing{}.Fill()

func newHoard(tb rapid.TB, sessions, quota int, p Params) *hoard {
	tb.Helper()
	pool, err := msgbuf.NewPool(msgbuf.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	g := &hoard{tb: tb, pool: pool, out: NewOut(64, false), now: 1e9}
	g.bank = &testBank{left: testBankSize, why: NoMemory}
	g.acct = NewAccount(g.bank)
	g.mem = NewMemory(quota, hoardTiming)
	for range sessions {
		end := End{Peer: clientHost, Local: serverSession, Remote: clientSession, Params: p}
		sv := NewServer(end, hoardTiming, pool, &g.refuse, &g.stats)
		sv.SetMemory(g.mem, &g.acct)
		g.svs = append(g.svs, sv)
	}
	return g
}

// hoardParams are those of sessions with large messages.
var hoardParams = Params{Slots: 8, Credits: 32, PerPacket: 1448, MaxMessage: 8 << 20}

// settle takes what the sessions have left. All errors are refusals for memory.
func (g *hoard) settle() {
	for ev := g.out.Next(); ev != nil; ev = g.out.Next() {
		switch ev.Kind {
		case EventRequest:
			g.requests++
		case EventFlush:
			g.out.Flushed()
		}
	}
	for _, p := range g.out.Tx {
		var h wire.Header
		_ = h.Parse(p.Head)
		if h.Type == wire.TypeErr {
			body := append(append([]byte(nil), p.Head[wire.HeaderSize:]...), p.Data...)
			e, err := wire.ParseError(body)
			if err != nil || e.Code != wire.CodeExhausted || len(body) != int(h.MsgSize) {
				g.tb.Fatalf("error %+v (%v), %d bytes of %d", e, err, len(body), h.MsgSize)
			}
		}
	}
	g.out.Reset()
}

// packet sends packet k of a request of size bytes.
func (g *hoard) packet(sv *Server, reqNum uint64, size, k int) {
	n := max(0, min(sv.PerPacket, size-k*sv.PerPacket))
	h := wire.Header{
		Type: wire.TypeReq, ReqType: 1, MsgSize: uint32(size), Session: serverSession,
		ReqNum: reqNum, PktNum: uint32(k),
	}
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(reqNum) + byte(k)
	}
	g.sent += n
	sv.OnReq(&h, payload, &Arrival{Now: g.now}, g.out)
	g.settle()
}

// all sends a whole request.
func (g *hoard) all(sv *Server, reqNum uint64, size int) {
	for k := range max(1, (size+sv.PerPacket-1)/sv.PerPacket) {
		g.packet(sv, reqNum, size, k)
	}
}

// respond answers the request in a slot with n bytes.
func (g *hoard) respond(sv *Server, slot uint8, n int) error {
	b := sv.Prealloc(slot, n, g.out)
	if b == nil {
		var err error
		if b, err = g.pool.Alloc(n); err != nil {
			g.tb.Fatal(err)
		}
	}
	err := sv.Respond(slot, b, g.now, g.out)
	if err != nil {
		b.Free()
	}
	g.settle()
	return err
}

// make makes a buffer for the response to the request in a slot, nil if it is refused.
func (g *hoard) make(sv *Server, slot uint8, n int) *msgbuf.Buffer {
	if b := sv.Prealloc(slot, n, g.out); b != nil {
		return b
	}
	if sv.Make(slot, g.pool.Footprint(n)) != Granted {
		return nil
	}
	b, err := g.pool.Alloc(n)
	if err != nil {
		g.tb.Fatal(err)
	}
	return b
}

// check compares the account with the buffers, and these with what has come.
func (g *hoard) check() {
	g.tb.Helper()
	unfinished, counted := 0, 0
	note := func(b *msgbuf.Buffer) {
		if b != nil && b.Footprint() > smallBuffer {
			counted += b.Footprint()
		}
	}
	for _, sv := range g.svs {
		before := counted
		for i := range sv.slots {
			sl := &sv.slots[i]
			note(sl.req)
			note(sl.resp)
			note(sl.pre)
			if sl.rare != nil {
				counted += sl.rare.made
				if sl.state != stateHandling && sl.rare.made != 0 {
					g.tb.Fatalf("slot %d is answered, and its handler has %d bytes", i, sl.rare.made)
				}
			}
			if sl.state == stateReceiving && sl.req != nil {
				unfinished += sl.req.Footprint()
			}
			waits := sl.state == stateReceiving && sl.req != nil ||
				sl.state == stateResponded && !sl.isError && sl.numResp > 1
			if waits != (sl.watched() != nil) {
				g.tb.Fatalf("slot %d waits for its client: %v, and is in the list: %v", i, waits, !waits)
			}
		}
		if sv.kept != counted-before {
			g.tb.Fatalf("the session has %d bytes, %d are counted", counted-before, sv.kept)
		}
		if sv.kept > g.mem.quota {
			g.tb.Fatalf("the session has %d bytes, its quota is %d", sv.kept, g.mem.quota)
		}
	}
	if g.acct.used != int64(counted) {
		g.tb.Fatalf("the sessions have %d bytes, %d are counted", counted, g.acct.used)
	}
	if g.bank.left+g.acct.used+g.acct.spare != testBankSize || g.acct.spare > 2*accountStep {
		g.tb.Fatalf("the account has %d bytes to spare, %d are gone", g.acct.spare,
			testBankSize-g.bank.left)
	}
	if unfinished > 2*g.sent+lean {
		g.tb.Fatalf("%d bytes for unfinished requests after %d", unfinished, g.sent)
	}
	if g.bank.leant != g.acct.leant || g.bank.leant < 0 {
		g.tb.Fatalf("the peer leans by %d, the bank says %d", g.acct.leant, g.bank.leant)
	}
}

// close ends all sessions. Nothing is left.
func (g *hoard) close() {
	g.tb.Helper()
	for _, sv := range g.svs {
		sv.Close(g.out)
		g.settle()
	}
	g.out.Flushed()
	g.check()
	if g.acct.used != 0 || g.acct.ahead != 0 || g.acct.leant != 0 || g.mem.Next() != monotime.Never {
		g.tb.Errorf("after the end: %+v", g.acct)
	}
	if g.acct.Close(); g.bank.left != testBankSize || g.bank.leant != 0 {
		g.tb.Errorf("not all came back: %+v", g.bank)
	}
	if err := g.pool.Close(); err != nil {
		g.tb.Error(err)
	}
}

// TestMemoryBound: whatever a peer sends, in whatever order and over however many sessions, its
// unfinished requests have at most twice the bytes that came of it and 2 MiB, and all that its
// slots keep is in the account.
func TestMemoryBound(t *testing.T) {
	type flow struct{ size, next int }
	rapid.Check(t, func(t *rapid.T) {
		p := hoardParams
		p.PerPacket = rapid.SampledFrom([]int{1000, 1025, 1448, 2049, 8928, 65000}).Draw(t, "per packet")
		quota := rapid.SampledFrom([]int{1 << 20, 30 << 20, 1 << 30}).Draw(t, "quota")
		g := newHoard(t, 3, quota, p)
		flows := map[[2]uint64]*flow{}
		nums := map[[2]uint64]uint64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at := [2]uint64{rapid.Uint64Range(0, 2).Draw(t, "session"),
				rapid.Uint64Range(0, 7).Draw(t, "slot")}
			sv, f := g.svs[at[0]], flows[at]
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op == 0:
				g.now = g.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * ms)
				g.mem.Expire(g.now, rapid.Bool().Draw(t, "scarce"), g.out)
				g.settle()
			case op == 1:
				g.bank.shut = !g.bank.shut
			case f == nil || op == 2:
				nums[at]++
				f = &flow{size: rapid.SampledFrom([]int{
					0, 100, 1448, 3000, 10_000, 100_000, 1<<20 + 1, 3 << 20, 8 << 20,
				}).Draw(t, "size")}
				flows[at] = f
				fallthrough
			default:
				for range rapid.SampledFrom([]int{1, 2, 10, 500, 1 << 20}).Draw(t, "packets") {
					if f.next*p.PerPacket >= max(f.size, 1) {
						break
					}
					g.packet(sv, nums[at]*8+at[1], f.size, f.next)
					f.next++
					g.check()
				}
				slot := uint8(at[1])
				if sv.slots[slot].state != stateHandling {
					break
				}
				if op > 7 && sv.Unborrow(slot) == nil {
					buf, _ := sv.Take(slot)
					g.acct.Release(buf.Footprint())
					buf.Free()
				}
				if op == 5 || op == 6 { // made, and not used
					n := rapid.SampledFrom([]int{100, 900, 5000, 1 << 20}).Draw(t, "made")
					if b := g.make(sv, slot, n); b != nil {
						g.check()
						b.Free()
					}
					if n = g.pool.Footprint(n); sv.Make(slot, n) == Granted {
						sv.Unmake(slot, n)
					}
				}
				if op%2 == 0 {
					n := rapid.SampledFrom([]int{0, 600, 900, 5000, 2 << 20}).Draw(t, "response")
					if b := g.make(sv, slot, n); b == nil || sv.Respond(slot, b, g.now, g.out) != nil {
						if b != nil {
							b.Free()
						}
						_ = g.respond(sv, slot, n)
					}
				} else {
					e := codeError(wire.CodeExhausted)
					e.Text = []byte(strings.Repeat("x", 600))
					_ = sv.RespondError(slot, e, g.now, g.out)
				}
			}
			g.settle()
			g.check()
		}
		g.close()
	})
}

// TestGrowingKeepsData: what had come stays when the buffer grows.
func TestGrowingKeepsData(t *testing.T) {
	g := newHoard(t, 1, 1<<30, hoardParams)
	sv, size := g.svs[0], 8<<20
	g.all(sv, 8, size)
	_, _, data := sv.Request(0)
	if g.requests != 1 || len(data) != size {
		t.Fatalf("%d requests, %d bytes", g.requests, len(data))
	}
	for i, b := range data {
		if b != 8+byte(i/sv.PerPacket) {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
	g.check()
	g.close()
}

// TestWholeAtOnce: a peer that has sent as much before gets the whole buffer with the first packet,
// but not for more requests than its credit has room for.
func TestWholeAtOnce(t *testing.T) {
	g := newHoard(t, 2, 1<<30, hoardParams)
	sv, size := g.svs[0], 8<<20
	g.packet(sv, 8, size, 0)
	if n := sv.slots[0].req.Footprint(); n > 3*sv.PerPacket {
		t.Errorf("the first request has %d bytes", n)
	}
	for range 10 { // more than counts
		g.all(sv, sv.slots[0].reqNum+8, size)
		if err := g.respond(sv, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if g.acct.credit != maxCredit {
		t.Errorf("credit %d", g.acct.credit)
	}
	whole := 0
	for i := range 16 {
		sl := g.svs[i/8].slots
		g.packet(g.svs[i/8], 8000+uint64(i%8), size, 0)
		if sl[i%8].req.Footprint() > size {
			whole++
		}
		g.check()
	}
	if want := (2*maxCredit + lean) / g.pool.Footprint(size); whole != want {
		t.Errorf("%d requests have their whole buffers, want %d", whole, want)
	}
	g.close()
}

// TestExpireIsBounded: one call looks at a bounded number of slots, and the next ones go on.
func TestExpireIsBounded(t *testing.T) {
	g := newHoard(t, 2*expireBatch/8, 1<<30, hoardParams)
	for _, sv := range g.svs {
		for slot := range uint64(8) {
			g.packet(sv, 8+slot, 5000, 0)
		}
	}
	for end := g.now.Add(hoardTiming.FailureTimeout); g.now < end; {
		if g.now = g.now.Add(hoardTiming.RTOMax); g.now < end {
			g.mem.Expire(g.now, false, g.out)
			g.mem.Expire(g.now, false, g.out)
		}
	}
	for i := range 3 {
		g.mem.Expire(g.now, false, g.out)
		if want := min(uint64(i+1), 2) * expireBatch; g.stats.StaleRequests != want {
			t.Errorf("call %d: %d requests ended, want %d", i, g.stats.StaleRequests, want)
		}
	}
	g.close()
}

// TestExpireBehind: an endpoint that has more to look at than it looks at is not taken for one that
// was away, and gives up what nobody asks for.
func TestExpireBehind(t *testing.T) {
	g := newHoard(t, 8*expireBatch/8, 1<<30, hoardParams)
	for _, sv := range g.svs {
		for slot := range uint64(8) {
			g.packet(sv, 8+slot, 5000, 0)
		}
	}
	for end := g.now.Add(hoardTiming.FailureTimeout + 16*hoardTiming.RTOMax); g.now < end; {
		g.now = g.now.Add(hoardTiming.RTOMax / 2)
		g.mem.Expire(g.now, false, g.out)
	}
	if want := uint64(8 * expireBatch); g.stats.StaleRequests != want {
		t.Errorf("%d requests ended of %d", g.stats.StaleRequests, want)
	}
	g.close()
}

// TestSlowClientKeepsMemory: scarce memory takes nothing from a client on the slowest path that
// asks at its timeouts, the longest there are, and one of whose repeats is lost. It takes what
// nobody asks for in that time.
func TestSlowClientKeepsMemory(t *testing.T) {
	g := newHoard(t, 1, 1<<30, hoardParams)
	rto := newRTOEstimator(&hoardTiming)
	rto.sample(time.Second)
	first, timeout := g.now, rto.timeout(3)
	g.packet(g.svs[0], 8, 5000, 0)
	for g.now = g.now.Add(1); g.now.Sub(first) < 2*timeout; g.now = g.now.Add(hoardTiming.RTOMax / 2) {
		g.mem.Expire(g.now, true, g.out)
	}
	if timeout != slowFactor*hoardTiming.RTOMax || g.stats.StaleRequests != 0 {
		t.Errorf("given up within two timeouts of %v", timeout)
	}
	end := 2*timeout + 2*hoardTiming.RTOMax
	for ; g.now.Sub(first) < end; g.now = g.now.Add(hoardTiming.RTOMax / 2) {
		g.mem.Expire(g.now, true, g.out)
	}
	if g.stats.StaleRequests != 1 {
		t.Error("kept for nobody")
	}
	g.close()
}

// TestLargeAnswerIsNotKept: the server keeps an answer for its client, which may ask again, until
// the slot's next request; a large one only until the client has it.
func TestLargeAnswerIsNotKept(t *testing.T) {
	p := rigParams
	p.MaxMessage = 2 << 20
	for size, kept := range map[int]bool{ackSize - 1: true, ackSize: false} {
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, 100, size)
		if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		r.pump(func(uint8) int { return size })
		if got := r.sv.slots[0].resp != nil; len(r.ended) != 1 || got != kept {
			t.Fatalf("%d bytes: %d requests ended, the answer is kept: %v", size, len(r.ended), got)
		}
		giveBack(op)
		r.noLeak()
	}
}

// TestAckOfPart: only the word that the last packet has come gives an answer up, and only once it
// is there. After it who asks again gets an error that says that the handler ran.
func TestAckOfPart(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	op := r.op(1, 100, 5000)
	if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	ev := r.toServer(r.c2s[0])
	ack := func(pkt uint32) {
		h := wire.Header{Type: wire.TypeAck, ReqType: 1, ReqNum: 8, PktNum: pkt}
		r.sv.OnAck(&h, r.arrival(), r.sout)
		r.takeServer()
	}
	ack(0) // the handler is at work
	ack(4)
	if err := r.respond(ev.Slot, 5000); err != nil {
		t.Fatal(err)
	}
	if ack(4); r.sv.slots[0].resp == nil {
		t.Fatal("the word that a packet has come that was never asked for gave the answer up")
	}
	rfr := wire.Header{Type: wire.TypeRFR, ReqType: 1, ReqNum: 8, PktNum: 1, MsgSize: 3}
	r.sv.OnRFR(&rfr, r.arrival(), r.sout)
	r.takeServer()
	for _, pkt := range []uint32{0, 3, 5, wire.MaxPackets} {
		if ack(pkt); r.sv.slots[0].resp == nil {
			t.Fatalf("the word that packet %d has come gave the answer up", pkt)
		}
	}
	ack(4)
	ack(4)
	if sl := &r.sv.slots[0]; sl.resp != nil {
		t.Error("the answer is kept")
	}
	r.s2c = nil
	h := wire.Header{Type: wire.TypeRFR, ReqType: 1, ReqNum: 8, PktNum: 3}
	r.sv.OnRFR(&h, r.arrival(), r.sout)
	r.takeServer()
	if len(r.s2c) != 1 || r.s2c[0].header().Type != wire.TypeErr || !r.sv.slots[0].ran {
		t.Errorf("who asks again gets %d packets", len(r.s2c))
	}
}

// TestRequestAsResponse: a request that becomes its response counts once, before and after.
func TestRequestAsResponse(t *testing.T) {
	g := newHoard(t, 1, 1<<30, hoardParams)
	sv, size := g.svs[0], 1<<20
	for num := uint64(8); num < 80; num += 8 {
		g.all(sv, num, size)
		used := g.acct.Used()
		if err := sv.RespondRequest(0, size-1000, g.now, g.out); err != nil {
			t.Fatal(err)
		}
		g.settle()
		if got := g.acct.Used(); got != used {
			t.Errorf("%d bytes count, and %d did before the response", got, used)
		}
		if err := sv.RespondRequest(0, 10, g.now, g.out); err != ErrNotHandling {
			t.Errorf("a second response: %v", err)
		}
		g.check()
	}
	g.all(sv, 80, size)
	if err := sv.RespondRequest(0, size+1, g.now, g.out); err != ErrNotHandling {
		t.Errorf("a response that is longer than the request: %v", err)
	}
	g.close()
}
