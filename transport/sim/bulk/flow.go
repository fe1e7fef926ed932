package bulk

import (
	"time"

	"github.com/userspace-rpc/erpc/cc/cubic"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

const (
	first    = 10                     // packets (RFC 6928)
	ackSize  = 20                     // bytes of an answer
	reorders = 3                      // later packets that were answered, of a lost one
	leastRTO = 200 * time.Millisecond // as Linux has it
	mostRTO  = 2 * time.Minute
	burst    = 64 // packets received at a time
)

// Flow is one flow. It belongs to the goroutine that steps its network.
type Flow struct {
	net      *sim.Network
	from, to *sim.Endpoint
	win      cubic.Window
	data     []byte

	// Packets are numbered as they are sent. Of those under way flight[0] has the number oldest.
	flight  []packet
	oldest  uint64
	pipe    int    // those that are neither answered nor lost
	recover uint64 // losses of packets before are of the last event
	acked   uint64

	srtt, rttvar, rto time.Duration
	alarm             sim.Time // of the timeout; Never if nothing is under way
	stopped           bool
}

// packet is one under way.
type packet struct {
	at   sim.Time
	over bool // answered, or lost
}

// Start lets a flow begin, from one node to another, with packets of the network's MTU.
func Start(net *sim.Network, from, to int) (*Flow, error) {
	f := &Flow{net: net, win: cubic.New(first), rto: time.Second, alarm: sim.Never}
	var err error
	if f.from, err = net.NewEndpoint(sim.EndpointConfig{Name: "cubic", Node: from}); err != nil {
		return nil, err
	}
	if f.to, err = net.NewEndpoint(sim.EndpointConfig{Name: "sink", Node: to}); err != nil {
		return nil, err
	}
	f.data = make([]byte, f.from.Caps().MTU)
	net.Attach(f.to, &sink{ep: f.to})
	net.Attach(f.from, f)
	return f, nil
}

// Acked returns how many bytes of payload were answered.
func (f *Flow) Acked() uint64 { return f.acked * uint64(len(f.data)) }

// Stop ends the flow: it sends nothing more.
func (f *Flow) Stop() {
	f.stopped, f.alarm = true, sim.Never
	_, _ = f.from.Close(), f.to.Close() // the simulator's cannot fail
}

// RunOnce implements sim.Driver: it takes what was answered, and sends what the window allows.
func (f *Flow) RunOnce() {
	now := f.net.Now()
	var got [burst]transport.RxPacket
	for {
		n, err := f.from.RxBurst(got[:])
		if err != nil || n == 0 {
			break
		}
		for i := range got[:n] {
			f.answered(getNumber(got[i].Data), now)
		}
	}
	if now >= f.alarm {
		f.timeout(now)
	}
	for float64(f.pipe+1) <= f.win.Size && !f.stopped {
		putNumber(f.data, f.oldest+uint64(len(f.flight)))
		items := [1]transport.TxItem{{Dst: f.to.LocalAddr(), Head: f.data}}
		if _, err := f.from.TxBurst(items[:]); err != nil {
			return
		}
		if f.pipe == 0 {
			f.alarm = now.Add(f.rto)
		}
		f.flight = append(f.flight, packet{at: now})
		f.pipe++
	}
}

// NextWake implements sim.Driver.
func (f *Flow) NextWake() sim.Time { return f.alarm }

// answered takes the answer to packet k.
func (f *Flow) answered(k uint64, now sim.Time) {
	if k < f.oldest || k >= f.oldest+uint64(len(f.flight)) {
		return
	}
	p := &f.flight[k-f.oldest]
	if p.over {
		return
	}
	f.settle(p)
	f.acked++
	f.sample(now.Sub(p.at))
	f.alarm = now.Add(f.rto)
	for i := range f.flight[:k-f.oldest] {
		if p := &f.flight[i]; !p.over && k >= f.oldest+uint64(i)+reorders {
			f.lose(f.oldest+uint64(i), now)
			f.settle(p)
		}
	}
	if k >= f.recover {
		f.win.Acked(1, now, f.srtt)
	}
	n := 0
	for n < len(f.flight) && f.flight[n].over {
		n++
	}
	f.flight, f.oldest = f.flight[n:], f.oldest+uint64(n)
	if f.pipe == 0 {
		f.alarm = sim.Never
	}
}

// settle takes a packet off those under way.
func (f *Flow) settle(p *packet) {
	p.over = true
	f.pipe--
}

// lose takes notice that packet k is lost.
func (f *Flow) lose(k uint64, now sim.Time) {
	if k >= f.recover {
		f.recover = f.oldest + uint64(len(f.flight))
		f.win.Lost(now, float64(f.pipe))
	}
}

// timeout gives all up that is under way.
func (f *Flow) timeout(now sim.Time) {
	f.win.Expired(now, float64(f.pipe))
	f.oldest += uint64(len(f.flight))
	f.recover = f.oldest
	f.flight, f.pipe = nil, 0
	f.rto = min(2*f.rto, mostRTO)
	f.alarm = sim.Never
}

// sample takes a round trip (RFC 6298).
func (f *Flow) sample(rtt time.Duration) {
	if f.srtt == 0 {
		f.srtt, f.rttvar = rtt, rtt/2
	} else {
		f.rttvar += ((f.srtt - rtt).Abs() - f.rttvar) / 4
		f.srtt += (rtt - f.srtt) / 8
	}
	f.rto = max(leastRTO, f.srtt+4*f.rttvar)
}
