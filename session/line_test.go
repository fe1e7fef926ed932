package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// lineRig keeps calls under way in a session of 8 credits, each with its sizes in packets, whose
// packets and answers move in steps.
type lineRig struct {
	r     *rig
	ops   map[uint32]Op
	sizes map[uint32][2]int // of request and response, by Ref
	ref   uint32
	ended map[[2]int]int // calls, by their sizes
	sent  [2]int         // packets of requests, and those asked for, in this step
}

func newLineRig(t *testing.T) *lineRig {
	p := rigParams
	p.Slots, p.Credits, p.MaxMessage = 8, 8, 200*p.PerPacket
	timing := Timing{RTOMin: time.Second, RTOMax: time.Second}
	l := &lineRig{r: newRig(t, p, timing, 0, msgbuf.Config{}), ops: map[uint32]Op{},
		sizes: map[uint32][2]int{}, ended: map[[2]int]int{}}
	l.r.open(0)
	l.r.now = ms
	l.r.onTx = func(client bool, q dgram, _ int) {
		if h := q.header(); client && h.Type == wire.TypeReq {
			l.sent[0]++
		} else if client && h.Type == wire.TypeRFR {
			l.sent[1] += creditsOf(q)
		}
	}
	return l
}

func (l *lineRig) start(size [2]int) {
	l.ref++
	per := l.r.params.PerPacket
	op := l.r.op(l.ref, size[0]*per, size[1]*per)
	l.ops[l.ref], l.sizes[l.ref] = op, size
	l.r.start(op)
}

// step delivers what is on the way, and starts a call of the same sizes for each that ends.
func (l *lineRig) step() (sent [2]int) {
	r := l.r
	sent, l.sent = l.sent, [2]int{}
	in := r.c2s
	r.c2s = nil
	for _, p := range in {
		if ev := r.toServer(p); ev.Kind == EventRequest {
			h := p.header()
			if err := r.respond(ev.Slot, l.sizes[l.refOf(h.ReqNum)][1]*r.params.PerPacket); err != nil {
				r.tb.Fatal(err)
			}
		}
	}
	in = r.s2c
	r.s2c = nil
	for _, p := range in {
		if ev := r.toClient(p); ev.Kind == EventDone {
			size := l.sizes[ev.Ref]
			giveBack(l.ops[ev.Ref])
			l.ended[size]++
			l.start(size)
		}
	}
	return sent
}

func (l *lineRig) refOf(num uint64) uint32 {
	return l.r.cl.slots[num&uint64(len(l.r.cl.slots)-1)].op.Ref
}

// TestBothWays: messages that begin together do not stay together, so that requests and responses
// leave at the same time.
func TestBothWays(t *testing.T) {
	l := newLineRig(t)
	for range 4 {
		l.start([2]int{40, 40})
	}
	steps, both := 2000, 0
	for range steps {
		if sent := l.step(); sent[0] > 0 && sent[1] > 0 {
			both++
		}
	}
	if both < steps*19/20 {
		t.Errorf("packets left for both ways in %d steps of %d", both, steps)
	}
}

// TestLongMessage: a message gets its part of the credits beside shorter ones without end, and
// those need not wait for it.
func TestLongMessage(t *testing.T) {
	l := newLineRig(t)
	long, short := [2]int{200, 1}, [2]int{5, 1}
	l.start(long)
	for range 7 {
		l.start(short)
	}
	for l.ended[long] == 0 {
		if l.step(); l.ended[short] > 1000 {
			t.Fatal("it does not end")
		}
	}
	if n := l.ended[short]; n < 100 {
		t.Errorf("%d short ones ended meanwhile", n)
	}
}
