package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	clientSession, clientToken = 7, 0xC0FFEE01
	serverSession, serverToken = 9, 0x5EAF00D5
	ms                         = int64(time.Millisecond)
)

// dgram is one packet on its way, in memory of its own.
type dgram struct {
	raw []byte
}

func (p dgram) header() (h wire.Header) {
	if err := h.Parse(p.raw); err != nil {
		panic(fmt.Sprintf("a session made a packet that does not parse: %v", err))
	}
	return h
}

// rig joins a Client and a Server without a network. Its user moves the packets and the time.
type rig struct {
	tb         testing.TB
	cl         *Client
	sv         *Server
	pool       *msgbuf.Pool
	params     Params
	refuse     [256]wire.Code
	cst, sst   Stats
	cout, sout *Out
	now        int64
	c2s, s2c   []dgram
	badToken   int
	done       []Done // taken from cout
	flushC     bool   // what the last client call wanted
	flushS     bool
	flushes    int     // client calls that wanted one
	ended      []Event // by packets, in pump
	onTx       func(fromClient bool, p dgram, at int)
}

var rigParams = Params{Slots: 8, Credits: 32, PerPacket: 1000, MaxMessage: 1 << 20}

func newRig(tb testing.TB, p Params, t Timing, maxQueue int, cfg msgbuf.Config) *rig {
	tb.Helper()
	return newPacedRig(tb, p, t, maxQueue, cfg, nil)
}

// newPacedRig is newRig with congestion control.
func newPacedRig(tb testing.TB, p Params, t Timing, maxQueue int, cfg msgbuf.Config, pacing *Pacing) *rig {
	tb.Helper()
	t, err := t.Fill()
	if err != nil {
		tb.Fatal(err)
	}
	pool, err := msgbuf.NewPool(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{tb: tb, pool: pool, params: p, cout: NewOut(64, nil), sout: NewOut(64, nil)}
	r.cl = NewClient(t, maxQueue, pool, pacing, &r.cst)
	r.sv = NewServer(p, packet.Addr{Port: 1}, clientSession, clientToken, pool, &r.refuse, &r.sst)
	return r
}

func (r *rig) open(rtt int64) {
	r.cl.Open(r.params, packet.Addr{Port: 2}, serverSession, serverToken, rtt, r.now, r.cout)
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

// giveBack frees both buffers of op, as an application does when it is done.
func giveBack(op Op) {
	for _, b := range []*msgbuf.Buffer{op.Req, op.Resp} {
		b.Return()
		b.Free()
	}
}

func flatten(t Tx) dgram { return dgram{append(append([]byte(nil), t.Head...), t.Data...)} }

// creditsOf returns how many credits a client's packet takes.
func creditsOf(p dgram) int {
	if h := p.header(); h.Type == wire.TypeRFR {
		return 1 + int(h.MsgSize)
	}
	return 1
}

func (r *rig) takeClient() {
	later := 0 // credits that the packets behind this one took
	for _, t := range r.cout.Tx {
		later += creditsOf(flatten(t))
	}
	for _, t := range r.cout.Tx {
		p := flatten(t)
		r.c2s = append(r.c2s, p)
		if later -= creditsOf(p); r.onTx != nil {
			r.onTx(true, p, later)
		}
	}
	r.flushC = r.cout.Flush
	if r.flushC {
		r.flushes++
	}
	r.done = append(r.done, r.cout.Done...)
	r.cout.Done = r.cout.Done[:0]
	r.cout.Reset()
	if r.cl.open {
		r.checkCredits()
	}
}

func (r *rig) takeServer() {
	for i, t := range r.sout.Tx {
		p := flatten(t)
		r.s2c = append(r.s2c, p)
		if r.onTx != nil {
			r.onTx(false, p, len(r.sout.Tx)-1-i)
		}
	}
	r.flushS = r.sout.Flush
	r.sout.Reset()
}

// checkCredits holds the client to its book-keeping: each credit is free or stands
// for one packet that is outstanding.
func (r *rig) checkCredits() {
	r.tb.Helper()
	sum, busy := r.cl.credits, 0
	for i := range r.cl.slots {
		if s := &r.cl.slots[i]; s.busy {
			sum += int(s.numTx - s.numRx)
			busy++
		}
	}
	if r.cl.credits < 0 || sum != r.params.Credits || busy != r.cl.busy || busy+len(r.cl.free) != r.params.Slots {
		r.tb.Fatalf("books do not balance: %d credits free, %d with the outstanding ones, want %d; %d of %d slots busy, %d free",
			r.cl.credits, sum, r.params.Credits, busy, r.cl.busy, len(r.cl.free))
	}
}

// toServer delivers a packet as the owner of a server session does. It copies the
// request out at once, as for a handler that runs elsewhere.
func (r *rig) toServer(p dgram) (ev Event) {
	var h wire.Header
	if h.Parse(p.raw) != nil || !r.tokenOK(p, h.Session, serverSession, serverToken) {
		return Event{}
	}
	switch h.Type {
	case wire.TypeReq:
		ev = r.sv.OnReq(&h, p.raw[wire.HeaderSize:], false, r.now, r.sout)
	case wire.TypeRFR:
		r.sv.OnRFR(&h, false, r.now, r.sout)
	}
	if ev.Kind == EventRequest {
		if err := r.sv.Unborrow(ev.Slot); err != nil {
			r.tb.Fatal(err)
		}
	}
	r.takeServer()
	return ev
}

// toClient delivers a packet as the owner of a client session does.
func (r *rig) toClient(p dgram) (ev Event) {
	var h wire.Header
	if h.Parse(p.raw) != nil || !r.tokenOK(p, h.Session, clientSession, clientToken) {
		return Event{}
	}
	switch h.Type {
	case wire.TypeCR:
		ev = r.cl.OnCR(&h, r.now, r.cout)
	case wire.TypeResp:
		ev = r.cl.OnResp(&h, p.raw[wire.HeaderSize:], r.now, r.cout)
	}
	r.takeClient()
	return ev
}

func (r *rig) tokenOK(p dgram, session, wantSession, want uint32) bool {
	token := wire.Token(p.raw)
	if r.params.Checksum {
		token ^= wire.Checksum(p.raw, nil)
	}
	if token != want || session != wantSession {
		r.badToken++
		return false
	}
	return true
}

// respond answers the request in slot with n bytes of the pattern of its number.
func (r *rig) respond(slot uint8, n int) error {
	_, num, _ := r.sv.Request(slot)
	buf := r.sv.Prealloc(slot, n)
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

// inUse returns how many buffers are not in the pool.
func (r *rig) inUse() int { return r.pool.Stats().InUse }

// noLeak closes the server half and wants every buffer back.
func (r *rig) noLeak() {
	r.tb.Helper()
	r.sv.Close()
	r.sout.Reset()
	st := r.pool.Stats()
	if st.InUse != 0 || st.Misuses != 0 || st.DoubleFrees != 0 {
		r.tb.Errorf("at the end: %d buffers in use, %d misuses, %d double frees", st.InUse, st.Misuses, st.DoubleFrees)
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
			if ev := r.toClient(p); ev.Kind == EventDone || ev.Kind == EventError {
				r.ended = append(r.ended, ev)
			}
		}
	}
}
