package session

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// model runs random requests over a channel that loses, copies, reorders and damages.
type model struct {
	*rig
	rnd      *rand.Rand
	fault    float64 // probability of each kind of fault
	ops      map[uint32]Op
	want     map[uint32]int // size of the response
	handled  map[uint64]bool
	gaveUp   int  // requests
	odd      bool // requests are given up, and wait
	narrows  bool // the packets become smaller on the way
	bundled  bool // small packets travel in bundles, and get lost with them
	handling []Event
	total    uint32
	started  uint32
	ended    int
	came     dgram // at the client, last
}

func newModel(t *testing.T, seed uint64) *model {
	rnd := rand.New(rand.NewPCG(seed, 1))
	p := Params{Slots: 1 << rnd.IntN(5), Credits: 1 + rnd.IntN(64), PerPacket: 1000 + rnd.IntN(1000),
		MaxMessage: 1 << 17, Checksum: true, Waiting: rnd.IntN(4)}
	m := &model{rig: newRig(t, p, Timing{}, 1000, msgbuf.Config{}), rnd: rnd, ops: map[uint32]Op{},
		want: map[uint32]int{}, handled: map[uint64]bool{}}
	m.transport(seed&1 != 0)
	if seed&2 != 0 {
		m.partly(rand.New(rand.NewPCG(seed, 2)))
	}
	m.onEvent = m.onEnd
	m.total = uint32(5 + rnd.IntN(30))
	if rnd.IntN(4) > 0 {
		m.fault = rnd.Float64() * 0.1
	}
	m.odd, m.narrows = rnd.IntN(4) > 0, rnd.IntN(2) == 0
	if m.bundled = seed&4 != 0; m.bundled {
		m.bundles(p.PerPacket + wire.HeaderSize)
		if seed&8 != 0 {
			m.accompany()
		}
	}
	if rnd.IntN(2) == 0 {
		m.open(0)
	}
	return m
}

// size returns a message size of 0 to 64 packets, small ones more often.
func (m *model) size() int {
	if m.rnd.IntN(2) == 0 {
		return m.rnd.IntN(100)
	}
	n := m.params.PerPacket * m.rnd.IntN(65)
	return max(0, min(n+m.rnd.IntN(3)-1, 64*m.params.PerPacket))
}

func (m *model) start() {
	m.started++
	ref := m.started
	m.want[ref] = m.size()
	op := m.op(ref, 4+m.size(), max(m.want[ref], 0))
	// The request says what response it wants.
	d := op.Req.Bytes()
	d[0], d[1], d[2], d[3] = byte(ref), byte(m.want[ref]), byte(m.want[ref]>>8), byte(m.want[ref]>>16)
	m.ops[ref] = op
	if err := m.cl.Start(op, 0, m.now, m.cout); err != nil {
		m.tb.Fatal(err)
	}
	m.takeClient()
}

func (m *model) handle(ev Event) {
	_, num, data := m.sv.Request(ev.Slot)
	if m.handled[num] {
		m.tb.Fatalf("the handler of request %d ran twice", num)
	}
	m.handled[num] = true
	ref := data[0]
	for i := 4; i < len(data); i++ {
		if want := ref + byte(i) + byte(i>>8)*31; data[i] != want {
			m.tb.Fatalf("request %d: byte %d of %d differs", ref, i, len(data))
		}
	}
	if op, ok := m.ops[uint32(ref)]; ok && len(data) != op.Req.Size() {
		m.tb.Fatalf("request %d has %d bytes, not %d", ref, len(data), op.Req.Size())
	}
	m.handling = append(m.handling, ev)
	if m.odd && m.rnd.IntN(4) == 0 {
		if err := m.sv.Wait(ev.Slot, m.now, m.sout); err != nil {
			m.tb.Fatal(err)
		}
	}
}

// giveUpOne cancels a request, or has its deadline pass.
func (m *model) giveUpOne() {
	ref := 1 + m.rnd.Uint32N(m.started)
	op, ok := m.ops[ref]
	if !ok {
		return
	}
	if !m.cancel(ref, errCancelled) || len(m.failed) != 1 || m.failed[0].Ref != ref {
		m.tb.Fatalf("cancel of request %d: %+v", ref, m.failed)
	}
	m.failed = nil
	giveBack(op)
	delete(m.ops, ref)
	m.gaveUp++
}

func (m *model) respondOne() {
	i := m.rnd.IntN(len(m.handling))
	slot := m.handling[i].Slot
	if r := m.sv.Running(); r != len(m.handling) {
		m.tb.Fatalf("%d handlers run, not %d", r, len(m.handling))
	}
	m.handling = append(m.handling[:i], m.handling[i+1:]...)
	_, _, data := m.sv.Request(slot)
	if err := m.respond(slot, int(data[1])|int(data[2])<<8|int(data[3])<<16); err != nil {
		m.tb.Fatal(err)
	}
}

// onEnd gives the buffers of a request back before it looks at later outcomes.
func (m *model) onEnd(ev Event) {
	if ev.Kind == EventFailed && ev.Err == errCancelled {
		return // see giveUpOne
	}
	if ev.Kind == EventFailed || ev.Kind == EventError || ev.Kind == EventBroken {
		m.tb.Fatalf("request %d: %+v", ev.Ref, ev)
	}
	if ev.Kind != EventDone {
		return
	}
	op, ok := m.ops[ev.Ref]
	if !ok {
		m.tb.Fatalf("request %d ended twice", ev.Ref)
	}
	if ev.Resp != op.Resp {
		m.tb.Fatalf("request %d ended with another buffer", ev.Ref)
	}
	num := m.came.header().ReqNum
	if err := checkFill(op.Resp.Bytes(), byte(num)); err != nil || op.Resp.Size() != m.want[ev.Ref] {
		m.tb.Fatalf("response %d of %d bytes, want %d: %v", ev.Ref, op.Resp.Size(), m.want[ev.Ref], err)
	}
	giveBack(op)
	delete(m.ops, ev.Ref)
	m.ended++
}

// transfer moves one packet of the queue through the channel.
func (m *model) transfer(q *[]dgram, deliver func(dgram)) {
	at := 0
	if m.rnd.Float64() < m.fault {
		at = m.rnd.IntN(len(*q))
	}
	p := (*q)[at]
	switch f := m.rnd.Float64(); {
	case f < m.fault: // stays in the queue too
	default:
		*q = append((*q)[:at:at], (*q)[at+1:]...)
	}
	if m.rnd.Float64() < m.fault {
		p.read(m.tb)
		if p.in != nil && m.rnd.IntN(2) == 0 {
			*q = slices.DeleteFunc(*q, func(o dgram) bool { return o.in == p.in })
		}
		return
	}
	if m.rnd.Float64() < m.fault {
		p.read(m.tb)
		raw := append([]byte(nil), p.raw...)
		raw[m.rnd.IntN(len(raw))] ^= 1 << m.rnd.IntN(8)
		p = dgram{raw: raw}
	}
	deliver(p)
}

func (m *model) step() {
	m.now += monotime.Time(m.rnd.IntN(2000))
	choice := m.rnd.IntN(10)
	switch {
	case choice == 0 && !m.cl.open:
		m.open(0)
	case choice <= 1 && m.started < m.total:
		m.start()
	case choice == 0 && m.odd && m.started > 0 && m.rnd.IntN(8) == 0:
		m.giveUpOne()
	case choice == 1 && m.narrows && m.rnd.IntN(20) == 0:
		m.cl.LowerCut(m.cl.NextSize())
	case choice <= 3 && len(m.handling) > 0:
		m.respondOne()
	case choice <= 6 && len(m.c2s) > 0:
		m.transfer(&m.c2s, func(p dgram) {
			if ev := m.toServer(p); ev.Kind == EventRequest {
				m.handle(ev)
			}
		})
	case len(m.s2c) > 0:
		m.transfer(&m.s2c, func(p dgram) {
			m.came = p
			m.toClient(p)
		})
	case len(m.c2s) == 0 && len(m.handling) == 0:
		m.now += 3 * ms // idle: time passes until a timeout
	}
	m.cl.Scan(m.now, m.cout)
	m.sv.Repeat(m.now, m.sout)
	m.takeClient()
	m.takeServer()
	if m.cst.Rollbacks == 0 && m.fault == 0 && !m.odd && len(m.c2s)+len(m.s2c) > m.params.Credits {
		m.tb.Fatalf("%d packets under way with %d credits", len(m.c2s)+len(m.s2c), m.params.Credits)
	}
}

func (m *model) run() {
	steps := 0
	for ; m.started < m.total || len(m.ops) > 0; steps++ {
		if steps > 2_000_000 {
			m.tb.Fatalf("stuck: %d of %d requests ended, %+v", m.ended, m.total, m.cst)
		}
		m.step()
	}
	if m.sst.DropBusy != 0 {
		m.tb.Errorf("%d packets came for slots whose handlers ran", m.sst.DropBusy)
	}
	if busy, queued := m.cl.Pending(); busy != 0 || queued != 0 ||
		m.cl.FreeCredits() != m.params.Credits {
		m.tb.Errorf("at the end %d busy, %d queued, %d of %d credits", busy, queued, m.cl.FreeCredits(),
			m.params.Credits)
	}
	if m.ended+m.gaveUp != int(m.total) || len(m.handled) < m.ended || len(m.handled) > int(m.total) {
		m.tb.Errorf("%d requests, %d ended, %d given up, %d handled", m.total, m.ended, m.gaveUp,
			len(m.handled))
	}
	for len(m.handling) > 0 {
		m.respondOne()
	}
	m.noLeak()
}

// TestModel: whatever the channel does, each request ends once with the right bytes,
// its handler ran once, and credits and buffers come back. Some requests are given up, some wait,
// the packets may become smaller on the way, and small ones travel in bundles or alone.
func TestModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { newModel(t, seed).run() })
	}
}
