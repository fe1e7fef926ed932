package session

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

func textOf(why Refusal) string { return string(refusalText[why]) }

// expire lets d pass, looking in between as an engine does.
func (g *hoard) expire(d time.Duration, scarce bool) {
	for end := g.now.Add(d); g.now < end; {
		g.now = min(g.now.Add(50*ms), end)
		g.mem.Expire(g.now, scarce, g.out)
		g.settle()
		g.check()
	}
}

// wantError sends packet k of a request and wants an error with text, and no handler.
func (g *hoard) wantError(sv *Server, reqNum uint64, size, k int, text string) {
	g.tb.Helper()
	before := g.requests
	if n := g.packet(sv, reqNum, size, k); n != 1 || g.text != text || g.requests != before {
		g.tb.Errorf("%d answers, the last with text %q; %d requests", n, g.text, g.requests-before)
	}
	want := text == textOf(ResponseGone) || text == textOf(NotKept) || before > 0 && reqNum == 16
	if g.ran != want {
		g.tb.Errorf("%s: the handler ran: %v", text, g.ran)
	}
	if uint64(g.answer.ReqNum) != reqNum || int(g.answer.PktNum) != k {
		g.tb.Errorf("the answer is for packet %d of %d", g.answer.PktNum, g.answer.ReqNum)
	}
}

// TestStaleRequest: a request that stands still ends, without its handler, and stays ended. The
// client may go on with the next one.
func TestStaleRequest(t *testing.T) {
	for _, scarce := range []bool{false, true} {
		g := newHoard(t, 1, 1<<30, hoardParams)
		sv, span := g.svs[0], g.mem.patient
		if scarce {
			span = g.mem.hasty
		}
		const slack = 250 * ms // between two looks
		g.packet(sv, 8, 5000, 0)
		g.expire(span-ms, scarce)
		g.packet(sv, 8, 5000, 1) // just in time
		g.expire(span-ms, scarce)
		if sv.slots[0].req == nil || g.stats.StaleRequests != 0 {
			t.Fatal("the request ended too early")
		}
		g.expire(slack, scarce)
		if sv.slots[0].req != nil || g.stats.StaleRequests != 1 || g.acct.used != 0 {
			t.Fatal("the request is still there")
		}
		for k := range 4 {
			g.wantError(sv, 8, 5000, k, textOf(RequestStale))
		}
		g.all(sv, 16, 5000)
		if g.requests != 1 || !sv.Handling(0, 16) {
			t.Error("the next request is not taken")
		}
		g.expire(10*span, scarce) // a handler may take its time
		if !sv.Handling(0, 16) {
			t.Error("a request ended while its handler ran")
		}
		g.close()
	}
}

// TestStaleResponse: a large response that nobody asks for goes. Its request has an error for an
// answer then, and does not run again.
func TestStaleResponse(t *testing.T) {
	for _, scarce := range []bool{false, true} {
		g := newHoard(t, 1, 1<<30, hoardParams)
		sv, span := g.svs[0], g.mem.patient
		if scarce {
			span = g.mem.hasty
		}
		rfr := func(pkt uint32) int {
			h := wire.Header{Type: wire.TypeRFR, ReqNum: 8, PktNum: pkt}
			sv.OnRFR(&h, &Arrival{Now: g.now}, g.out)
			return g.settle()
		}
		g.all(sv, 8, 100)
		if err := g.respond(sv, 0, 5000); err != nil {
			t.Fatal(err)
		}
		g.expire(span-ms, scarce)
		if n := rfr(1); n != 1 || g.answer.PktNum != 1 {
			t.Fatalf("%d answers", n)
		}
		g.expire(span-ms, scarce)
		if n := g.packet(sv, 8, 100, 0); n != 1 || g.answer.MsgSize != 5000 {
			t.Fatalf("a repeat has %d answers", n)
		}
		g.expire(span-ms, scarce)
		if sv.slots[0].resp == nil || g.stats.StaleResponses != 0 {
			t.Fatal("the response went too early")
		}
		g.expire(250*ms, scarce)
		if sv.slots[0].resp != nil || g.stats.StaleResponses != 1 || g.acct.used != 0 {
			t.Fatal("the response is still there")
		}
		g.wantError(sv, 8, 100, 0, textOf(ResponseGone))
		g.now += ms
		if n := rfr(2); n != 1 || g.text != textOf(ResponseGone) || g.answer.PktNum != 2 {
			t.Errorf("an RFR has %d answers, text %q", n, g.text)
		}
		g.all(sv, 16, 100)
		if g.requests != 2 {
			t.Error("the next request is not taken")
		}
		g.close()
	}
}

// TestLateResponseStays: a large response that is repeated to a client that waits stays, and as
// long again once the client has its first packet, or asks for it.
func TestLateResponseStays(t *testing.T) {
	for _, acked := range []bool{false, true} {
		p := hoardParams
		p.Waiting = 8
		g := newHoard(t, 1, 1<<30, p)
		sv, span := g.svs[0], g.mem.patient
		g.all(sv, 8, 100)
		g.packet(sv, 8, 100, 0) // the client is told to wait
		if err := g.respond(sv, 0, 5000); err != nil || !sv.slots[0].late {
			t.Fatalf("%v, late: %v", err, sv.slots[0].late)
		}
		g.expire(2*span, true) // nothing is repeated in this test
		if acked {
			sv.OnAck(&wire.Header{Type: wire.TypeAck, ReqNum: 8}, &Arrival{Now: g.now})
		} else {
			sv.Repeat(g.now, g.out)
			g.settle()
		}
		if sv.slots[0].late || sv.slots[0].resp == nil {
			t.Fatal("the answer is still late, or it is gone")
		}
		g.expire(span-ms, false)
		if sv.slots[0].resp == nil {
			t.Error("the response went too early")
		}
		g.expire(250*ms, false)
		if sv.slots[0].resp != nil || g.stats.StaleResponses != 1 {
			t.Error("the response is still there")
		}
		g.close()
	}
}

// TestCancelledWhileUnfinished: what a client gives up is free at once, and in no list.
func TestCancelledWhileUnfinished(t *testing.T) {
	g := newHoard(t, 1, 1<<30, hoardParams)
	sv := g.svs[0]
	g.packet(sv, 8, 5000, 0)
	g.all(sv, 9, 100)
	if err := g.respond(sv, 1, 5000); err != nil {
		t.Fatal(err)
	}
	for num := range uint64(2) {
		h := wire.Header{Type: wire.TypeCancel, ReqNum: 8 + num}
		sv.OnCancel(&h, &Arrival{Now: g.now}, g.out)
		g.settle()
		g.check()
	}
	if g.acct.used != 0 || sv.watchedSlots() != 0 {
		t.Errorf("%d bytes, %d slots wait", g.acct.used, sv.watchedSlots())
	}
	g.close()
}

// watchedSlots returns how many slots' memory waits for the client.
func (s *Server) watchedSlots() (n int) {
	for i := range s.slots {
		if s.slots[i].watched() != nil {
			n++
		}
	}
	return n
}

// TestStartedOver: a request that starts over in smaller packets keeps to the bound.
func TestStartedOver(t *testing.T) {
	p := hoardParams
	p.PerPacket = 8928
	g := newHoard(t, 1, 1<<30, p)
	sv := g.svs[0]
	for k := range 40 {
		g.packet(sv, 8, 1<<20, k)
		g.check()
	}
	sl := &sv.slots[0]
	per := 0
	for cut := wire.Cut(1); per == 0 && cut < 4; cut++ {
		if per = sv.perCut(cut); per != 0 {
			for k := 0; k*per < 1<<20; k++ {
				h := wire.Header{
					Type: wire.TypeReq, ReqType: 1, MsgSize: 1 << 20, ReqNum: 8, PktNum: uint32(k),
					Flags: cut.Flags(),
				}
				n := min(per, 1<<20-k*per)
				g.sent += n
				sv.OnReq(&h, make([]byte, n), &Arrival{Now: g.now}, g.out)
				g.settle()
				g.check()
			}
		}
	}
	if per != 0 && (sl.state != stateHandling || g.requests != 1) {
		t.Errorf("state %d, %d requests", sl.state, g.requests)
	}
	if per == 0 {
		t.Error("the session has no smaller packets")
	}
	g.close()
}

// TestSmallResponseStays: a response of one packet is kept until the next request.
func TestSmallResponseStays(t *testing.T) {
	g := newHoard(t, 1, 1<<30, hoardParams)
	sv := g.svs[0]
	g.all(sv, 8, 100)
	if err := g.respond(sv, 0, 1448); err != nil {
		t.Fatal(err)
	}
	g.expire(10*g.mem.patient, true)
	if n := g.packet(sv, 8, 100, 0); n != 1 || g.answer.MsgSize != 1448 {
		t.Errorf("%d answers, of %d bytes", n, g.answer.MsgSize)
	}
	g.close()
}

// TestMemoryRefused: what the account or the quota refuses is answered with an error that says
// so, once and for all.
func TestMemoryRefused(t *testing.T) {
	for _, c := range []struct {
		why   Refusal
		quota int
		text  string
		resp  string
	}{
		{NoMemory, 1 << 30, textOf(NoMemory), textOf(NotKept)},
		{AddrQuotaUsed, 1 << 30, textOf(AddrQuotaUsed), textOf(AddrQuotaUsed)},
		{QuotaUsed, 100, textOf(QuotaUsed), textOf(QuotaUsed)},
	} {
		g := newHoard(t, 1, c.quota, hoardParams)
		sv := g.svs[0]
		if c.why != QuotaUsed {
			g.bank.left, g.bank.why = 0, c.why
		}
		g.wantError(sv, 8, 5000, 0, c.text)
		g.wantError(sv, 8, 5000, 1, c.text)
		g.all(sv, 16, 100)
		if err := g.respond(sv, 0, 2000); !errors.Is(err, ErrExhausted) || g.text != c.resp {
			t.Errorf("respond: %v, the client reads %q", err, g.text)
		}
		if sv.Running() != 0 {
			t.Error("the handler is still at work")
		}
		g.wantError(sv, 16, 100, 0, c.resp)
		if g.requests != 1 || g.stats.NoMemory != 2 {
			t.Errorf("%d requests, %d refusals", g.requests, g.stats.NoMemory)
		}
		g.all(sv, 24, 100)
		if err := g.respond(sv, 0, 100); err != nil { // small ones are not counted
			t.Errorf("a small response: %v", err)
		}
		if c.why != QuotaUsed {
			g.bank.left = testBankSize
		}
		g.close()
	}
}

// TestExpireIsBounded: one call looks at a bounded number of slots, and the next ones go on.
func TestExpireIsBounded(t *testing.T) {
	g := newHoard(t, 2*expireBatch/8, 1<<30, hoardParams)
	for _, sv := range g.svs {
		for slot := range uint64(8) {
			g.packet(sv, 8+slot, 5000, 0)
		}
	}
	for end := g.now.Add(g.mem.patient); g.now < end; {
		if g.now = g.now.Add(g.mem.hasty / 4); g.now < end {
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

// TestExpireAfterAbsence: an endpoint that was stopped holds nothing against its clients: what they
// asked for meanwhile may be unread, and they may have been stopped with it. They get the time to
// ask. Those that do not ask then have waited long enough.
func TestExpireAfterAbsence(t *testing.T) {
	for _, scarce := range []bool{false, true} {
		g := newHoard(t, 1, 1<<30, hoardParams)
		sv, span := g.svs[0], g.mem.patient
		if scarce {
			span = g.mem.hasty
		}
		g.all(sv, 8, 100)
		if err := g.respond(sv, 0, 5000); err != nil {
			t.Fatal(err)
		}
		g.packet(sv, 9, 5000, 0) // a request that is not complete
		for range 3 {            // absences
			g.now = g.now.Add(10 * g.mem.patient)
			g.mem.Expire(g.now, scarce, g.out)
			g.expire(g.mem.hasty-ms, scarce)
			if g.stats.StaleResponses+g.stats.StaleRequests != 0 {
				t.Fatalf("scarce %v: given up after an absence", scarce)
			}
			g.packet(sv, 8, 100, 0)
			g.packet(sv, 9, 5000, 1)
			g.expire(span-ms, scarce)
		}
		if g.stats.StaleResponses+g.stats.StaleRequests != 0 {
			t.Errorf("scarce %v: given up though the client asked", scarce)
		}
		g.expire(250*ms, scarce)
		if g.stats.StaleResponses != 1 || g.stats.StaleRequests != 1 {
			t.Errorf("scarce %v: %d responses, %d requests ended", scarce, g.stats.StaleResponses,
				g.stats.StaleRequests)
		}
		g.now = g.now.Add(ms)
		g.wantError(sv, 8, 100, 0, textOf(ResponseGone))
		g.close()
	}
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
	for end := g.now.Add(g.mem.patient + 4*g.mem.hasty); g.now < end; {
		g.now = g.now.Add(g.mem.hasty / 8)
		g.mem.Expire(g.now, false, g.out)
	}
	if want := uint64(8 * expireBatch); g.stats.StaleRequests != want {
		t.Errorf("%d requests ended of %d", g.stats.StaleRequests, want)
	}
	g.close()
}
