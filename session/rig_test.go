package session

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	clientSession, clientToken = 7, 0xC0FFEE01
	serverSession, serverToken = 9, 0x5EAF00D5
	ms                         = 1_000_000 // of a Time or a Duration
)

var clientHost, serverHost = packet.Addr{Port: 1}, packet.Addr{Port: 2}

// rig joins a Client and a Server without a network. Its user moves the packets and the time.
// It does what the owner of sessions must do, and plays the transport; see net_test.go.
type rig struct {
	tb         testing.TB
	cl         *Client
	sv         *Server
	pool       *msgbuf.Pool
	params     Params
	refuse     [256]wire.Code
	cst, sst   Stats
	cout, sout *Out
	cnet, snet sender
	now        monotime.Time
	in         Arrival       // how packets arrive, but for the time
	late       time.Duration // what the rest of the server's batch takes
	c2s, s2c   []dgram
	badToken   int
	failed     []Event // EventFailed that no packet caused
	flushC     bool    // what the last client call wanted
	flushS     bool
	broken     error   // of EventBroken
	asked      bool    // an owner's own flush is under way
	paced      bool    // the client wants a call of Release
	flushes    int     // client calls that wanted one
	ended      []Event // by packets, in pump
	links      [2]Link // the client's and the server's; see bundles
	onTx       func(fromClient bool, p dgram, at int)
	onEvent    func(Event) // of the client, before the outcomes behind it
}

var rigParams = Params{Slots: 8, Credits: 32, PerPacket: 1000, MaxMessage: 1 << 20, Waiting: 6}

// fault is an error as a handler gives it.
func fault(code wire.Code, text string) *wire.Error {
	return &wire.Error{Status: code.Status(), Code: code, Ran: true, Text: []byte(text)}
}

func newRig(tb testing.TB, p Params, t Timing, maxQueue int, cfg msgbuf.Config) *rig {
	tb.Helper()
	return newPacedRig(tb, p, t, maxQueue, cfg, nil)
}

// newPacedRig is newRig with congestion control.
func newPacedRig(
	tb testing.TB, p Params, t Timing, maxQueue int, cfg msgbuf.Config, pacing *Pacing,
) *rig {
	tb.Helper()
	t, err := t.Fill()
	if err != nil {
		tb.Fatal(err)
	}
	pool, err := msgbuf.NewPool(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{tb: tb, pool: pool, params: p}
	r.copies()
	r.cl = NewClient(serverHost, clientSession, clientToken, t, maxQueue, pool, pacing, &r.cst)
	end := End{
		Peer: clientHost, Local: serverSession, LocalToken: serverToken,
		Remote: clientSession, RemoteToken: clientToken, Params: p,
	}
	r.sv = NewServer(end, t, pool, &r.refuse, &r.sst)
	r.sv.repeatSpan = 0 // no limit
	return r
}

// copies makes the transport one that copies; it comes before anything is sent.
func (r *rig) copies() { r.transport(false) }

// lends makes the transport one that lends; it comes before anything is sent.
func (r *rig) lends() { r.transport(true) }

func (r *rig) transport(lends bool) {
	r.cout, r.sout = NewOut(64, lends), NewOut(64, lends)
	r.cnet, r.snet = sender{to: serverHost, lends: lends}, sender{to: clientHost, lends: lends}
}

// bundles makes small packets travel in bundles of up to limit bytes. It comes before anything is
// sent.
func (r *rig) bundles(limit int) {
	r.links = [2]Link{NewLink(limit), NewLink(limit)}
	r.cl.SetLink(&r.links[0])
	r.sv.SetLink(&r.links[1])
	r.cnet.sums, r.snet.sums = r.params.Checksum, r.params.Checksum
}

// accompany makes all packets leave with some of another session, so that bundles are open for
// them. It comes after bundles.
func (r *rig) accompany() {
	for i, n := range []*sender{&r.cnet, &r.snet} {
		n.company = &End{Peer: n.to, Remote: stranger, RemoteToken: 7}
		n.company.Checksum, n.company.Version = r.params.Checksum, wire.Version
		n.company.SetLink(&r.links[i])
		n.accompany([]*Out{r.cout, r.sout}[i])
	}
}

// partly makes the transport take only some packets at a time.
func (r *rig) partly(rnd *rand.Rand) { r.cnet.rnd, r.snet.rnd = rnd, rnd }

func (r *rig) open(rtt time.Duration) {
	r.cl.Open(r.params, serverSession, serverToken, rtt, r.now, r.cout)
	r.takeClient()
}

// start begins a request that must not fail.
func (r *rig) start(op Op) {
	r.tb.Helper()
	if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
		r.tb.Fatal(err)
	}
	r.takeClient()
}

// buffer returns a buffer of the pool that holds n bytes of the pattern of seed.
func (r *rig) buffer(n int, seed byte) *msgbuf.Buffer {
	b, err := r.pool.Alloc(n)
	if err != nil {
		r.tb.Fatal(err)
	}
	fill(b.Data(), seed)
	return b
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)*31
	}
}

func checkFill(b []byte, seed byte) error {
	for i := range b {
		if want := seed + byte(i) + byte(i>>8)*31; b[i] != want {
			return fmt.Errorf("byte %d of %d is %#x, want %#x", i, len(b), b[i], want)
		}
	}
	return nil
}

// op returns a request of n bytes with a response buffer for resp bytes, both lent.
func (r *rig) op(ref uint32, n, resp int) Op {
	op := Op{Req: r.buffer(n, byte(ref)), Resp: r.buffer(resp, 0), Ref: ref, ReqType: 1}
	if op.Req.Lend() != nil || op.Resp.Lend() != nil {
		r.tb.Fatal("fresh buffer is lent")
	}
	return op
}

// giveBack frees both buffers of op, as an application does when it is done. It writes over
// them, so that a queue that still refers to them is seen.
func giveBack(op Op) {
	for _, b := range []*msgbuf.Buffer{op.Req, op.Resp} {
		b.Return()
		spoil(b)
	}
}

// spoil writes over a buffer of the application and frees it.
func spoil(b *msgbuf.Buffer) {
	d := b.Data()
	for i := range d {
		d[i] = 0xA5
	}
	b.Free()
}

// creditsOf returns how many credits a client's packet takes.
func creditsOf(p dgram) int {
	if h := p.header(); h.Type == wire.TypeRFR {
		return 1 + int(h.MsgSize)
	}
	return 1
}

// takeClient acts on the client's outcomes, sends its packets, and returns the last outcome of
// a request.
func (r *rig) takeClient() (last Event) {
	r.cout.Feed(r.now)
	r.flushC = false
	for ev := r.cout.Next(); ev != nil; ev = r.cout.Next() {
		if ev.Kind == EventFlush {
			r.cout.Finish(0)
			r.sendClient(len(r.cout.Tx))
			r.cnet.flush(r.tb)
			r.cout.Flushed()
			r.cnet.accompany(r.cout)
			r.flushC, r.asked = !r.asked, false
			continue
		}
		switch ev.Kind {
		case EventPace:
			if ev.Session != clientSession {
				r.tb.Fatalf("pace session %d", ev.Session)
			}
			r.paced = true
		case EventBroken:
			r.broken = ev.Err
		case EventFailed:
			r.failed = append(r.failed, *ev)
			last = *ev
		case EventProgress, EventDone, EventError:
			last = *ev
		}
		if r.onEvent != nil {
			r.onEvent(*ev)
		}
	}
	r.cout.Settled()
	if r.flushC {
		r.flushes++
	}
	r.cout.Finish(0)
	n := r.cnet.share(r.cout)
	r.sendClient(n)
	r.cnet.sent(r.cout, n)
	if r.paced != r.cl.pace.waiting {
		r.tb.Fatalf("asked for Release: %v, waiting for it: %v", r.paced, r.cl.pace.waiting)
	}
	if r.cl.open {
		r.checkCredits()
	}
	return last
}

// sendClient gives the first n packets of the client to the transport.
func (r *rig) sendClient(n int) {
	from, later := len(r.c2s), 0 // credits that the packets behind this one took
	r.c2s = append(r.c2s, r.cnet.take(r.tb, r.cout, n)...)
	for _, p := range r.c2s[from:] {
		later += creditsOf(p)
	}
	for _, p := range r.c2s[from:] {
		if later -= creditsOf(p); r.onTx != nil {
			r.onTx(true, p, later)
		}
	}
}

// takeServer is takeClient for the server. It copies a request out at once, as for a handler
// that runs elsewhere.
func (r *rig) takeServer() (last Event) {
	r.flushS = false
	for ev := r.sout.Next(); ev != nil; ev = r.sout.Next() {
		if ev.Kind == EventFlush {
			r.sout.Finish(0)
			r.sendServer(len(r.sout.Tx))
			r.snet.flush(r.tb)
			r.sout.Flushed()
			r.snet.accompany(r.sout)
			r.flushS, r.asked = !r.asked, false
			continue
		}
		if ev.Kind == EventClosed && ev.Session != serverSession {
			r.tb.Fatalf("session %d was closed", ev.Session)
		}
		if last = *ev; ev.Kind == EventRequest {
			r.snet.spoilFree(r.pool)
			if err := r.sv.Unborrow(ev.Slot); err != nil {
				r.tb.Fatal(err)
			}
		}
	}
	r.sout.Settled()
	r.sout.Finish(r.late)
	n := r.snet.share(r.sout)
	r.sendServer(n)
	r.snet.sent(r.sout, n)
	return last
}

func (r *rig) sendServer(n int) {
	from := len(r.s2c)
	r.s2c = append(r.s2c, r.snet.take(r.tb, r.sout, n)...)
	for i, p := range r.s2c[from:] {
		if r.onTx != nil {
			r.onTx(false, p, len(r.s2c)-1-from-i)
		}
	}
}

// checkCredits holds the client to its book-keeping: each credit of the window is free or stands
// for one packet that is outstanding. Only a window that follows the path may have less than none.
func (r *rig) checkCredits() {
	r.tb.Helper()
	sum, busy, rest := r.cl.credits, 0, 0
	for i := range r.cl.slots {
		if s := &r.cl.slots[i]; s.busy {
			sum += int32(s.numTx - s.numRx)
			busy++
		} else if s.held() {
			rest++
		}
	}
	free := len(r.cl.free)
	if r.cl.credits < 0 && r.cl.path == nil || int(sum) != r.cl.Window() {
		r.tb.Fatalf("books do not balance: %d credits free, %d with the outstanding ones, want %d",
			r.cl.credits, sum, r.cl.Window())
	}
	if busy != int(r.cl.busy) || busy+rest+free != r.params.Slots {
		r.tb.Fatalf("books do not balance: %d slots are busy, %d are counted, %d rest, %d are free",
			busy, r.cl.busy, rest, free)
	}
}

// arrival describes a packet that comes now.
func (r *rig) arrival() *Arrival {
	in := r.in
	in.Now = r.now
	return &in
}

// toServer delivers a packet as the owner of a server session does. It returns the last
// outcome.
func (r *rig) toServer(p dgram) Event {
	p.read(r.tb)
	var h wire.Header
	if h.Parse(p.raw) != nil || !r.verified(p, &h, &r.sv.End) {
		return Event{}
	}
	switch h.Type {
	case wire.TypeReq:
		r.sv.OnReq(&h, p.raw[wire.HeaderSize:], r.arrival(), r.sout)
	case wire.TypeRFR:
		r.sv.OnRFR(&h, r.arrival(), r.sout)
	case wire.TypeCancel:
		r.sv.OnCancel(&h, r.arrival(), r.sout)
	case wire.TypeAck:
		r.sv.OnAck(&h, r.arrival(), r.sout)
	}
	return r.takeServer()
}

// toClient delivers a packet as the owner of a client session does. It returns the last outcome
// of a request.
func (r *rig) toClient(p dgram) Event {
	p.read(r.tb)
	var h wire.Header
	if h.Parse(p.raw) != nil || !r.verified(p, &h, &r.cl.End) {
		return Event{}
	}
	r.fromServer(p)
	ev := r.takeClient()
	if ev.Kind == EventFailed {
		r.failed = r.failed[:len(r.failed)-1] // the caller knows of this one
	}
	return ev
}

// fromServer gives the client half a packet that is for it.
func (r *rig) fromServer(p dgram) {
	h := p.header()
	switch h.Type {
	case wire.TypeCR:
		r.cl.OnCR(&h, p.raw[wire.HeaderSize:], r.arrival(), r.cout)
	case wire.TypeResp:
		r.cl.OnResp(&h, p.raw[wire.HeaderSize:], r.arrival(), r.cout)
	case wire.TypeErr:
		r.cl.OnErr(&h, p.raw[wire.HeaderSize:], r.arrival(), r.cout)
	case wire.TypeWait:
		r.cl.OnWait(&h, r.arrival(), r.cout)
	case wire.TypePast:
		r.cl.OnPast(&h, r.arrival(), r.cout)
	}
}

func (r *rig) verified(p dgram, h *wire.Header, e *End) bool {
	if h.Session != e.Local || !e.Names(e.TokenIn(p.raw), &e.Peer, 0) {
		r.badToken++
		return false
	}
	return true
}

// respond answers the request in slot with n bytes of the pattern of its number.
func (r *rig) respond(slot uint8, n int) error {
	_, num, _ := r.sv.Request(slot)
	buf := r.sv.Prealloc(slot, n, r.sout)
	if buf == nil {
		buf = r.buffer(n, 0)
	}
	fill(buf.Data(), byte(num))
	err := r.sv.Respond(slot, buf, r.now, r.sout)
	if err != nil && buf != r.sv.slots[slot].pre {
		buf.Free()
	}
	r.takeServer()
	return err
}

// cancel ends a request as the owner does, which flushes first.
func (r *rig) cancel(ref uint32, err error) bool {
	r.asked = true
	r.cout.Flush()
	ok := r.cl.Cancel(ref, err, r.now, r.cout)
	r.takeClient()
	return ok
}

// closeClient ends the client half as the owner does, which flushes first. EventClosed must be
// the last outcome.
func (r *rig) closeClient(err error) {
	r.tb.Helper()
	r.asked = true
	r.cout.Flush()
	r.cl.Close(err, r.cout)
	last := &r.cout.first
	if n := len(r.cout.more); n > 0 {
		last = &r.cout.more[n-1]
	}
	if last.Kind != EventClosed {
		r.tb.Error("EventClosed is not the last outcome")
	}
	r.takeClient()
}

// release sends what is due, as the owner does that EventPace has asked.
func (r *rig) release() {
	r.tb.Helper()
	r.paced = false
	r.cl.Release(r.now, r.cout)
	r.takeClient()
}

// inUse returns how many buffers are not in the pool.
func (r *rig) inUse() int { return r.pool.Stats().InUse }

// noLeak closes the server half and wants every buffer back.
func (r *rig) noLeak() {
	r.tb.Helper()
	r.asked = true
	r.sout.Flush()
	r.sv.Close(r.sout)
	if ev := r.takeServer(); ev.Kind != EventClosed {
		r.tb.Errorf("the last outcome is %d", ev.Kind)
	}
	r.cnet.flush(r.tb)
	st := r.pool.Stats()
	if st.InUse != 0 || st.Misuses != 0 || st.DoubleFrees != 0 {
		r.tb.Errorf("at the end: %d buffers in use, %d misuses, %d double frees", st.InUse, st.Misuses,
			st.DoubleFrees)
	}
	if err := r.pool.Close(); err != nil {
		r.tb.Error(err)
	}
}

// pump delivers everything in both directions, in order, until nothing moves, and
// answers each request with size(slot) bytes at once.
func (r *rig) pump(size func(slot uint8) int) {
	for len(r.c2s)+len(r.s2c) > 0 {
		in := r.c2s
		r.c2s = nil
		for _, p := range in {
			if ev := r.toServer(p); ev.Kind == EventRequest {
				if err := r.respond(ev.Slot, size(ev.Slot)); err != nil {
					r.tb.Fatal(err)
				}
			}
		}
		in = r.s2c
		r.s2c = nil
		for _, p := range in {
			if ev := r.toClient(p); ended(ev.Kind) {
				r.ended = append(r.ended, ev)
			}
		}
	}
}

// events takes the outcomes of out and acts on none.
func events(out *Out) (evs []Event) {
	for ev := out.Next(); ev != nil; ev = out.Next() {
		evs = append(evs, *ev)
	}
	return evs
}

// kinds takes the outcomes of out and returns what they are.
func kinds(out *Out) (ks []EventKind) {
	for _, ev := range events(out) {
		ks = append(ks, ev.Kind)
	}
	return ks
}

// ended reports whether an event of this kind is the end of a request.
func ended(k EventKind) bool { return k == EventDone || k == EventError || k == EventFailed }
