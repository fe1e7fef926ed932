package watch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/debug"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// Frame is the state of a program over a time, for people. Rates are per second, times in us.
type Frame struct {
	At       time.Time
	Program  string
	PID      int
	Over     float64 // seconds since the frame before; 0: this is the first one, without rates
	Total    Loop
	Loops    []Loop
	Types    []Type    // those with the slowest handlers first
	Sessions []Session // those with requests first
	Trend    []Point   // of the totals, the latest one last
}

// Loop describes one event loop, or all of them together.
type Loop struct {
	Endpoint string
	Number   int
	Late     bool // it did not answer: counters only
	Calls    float64
	Failed   float64
	P50, P99 float64 // of calls, at both sides
	RTT50    float64 // round trips without the server's hold
	RTT99    float64
	RX, TX   float64 // bytes
	Packets  float64 // datagrams, both ways
	Resent   float64 // packets sent again
	Dropped  float64
	Stalls   float64 // for credits
	Blind    float64 // share of the time in which it did not look for packets, 0 to 1

	Sessions, Active, Limited int
	Rate                      float64 // that congestion control allows the active ones, bits/s
	InFlight, Queued          int
	Handlers                  int   // requests whose handlers have not answered
	Memory                    int64 // bytes

	calls, trips erpc.Histogram
}

// Type describes the calls of one request type at one side.
type Type struct {
	Name      string
	Server    bool
	Calls     float64
	Failed    float64
	P50, P99  float64
	Handler50 float64 // how long handlers took, of a server
	Handler99 float64

	calls, handlers erpc.Histogram
}

// Session describes one session.
type Session struct {
	Endpoint, Peer   string
	Number           uint32
	Client           bool
	Connected        bool
	InFlight, Queued int
	Credits, Most    int
	RTT, RTO         float64
	Rate             float64 // bits/s
	Limited          bool
}

// Point is one frame's totals in a trend.
type Point struct {
	At                         time.Time
	Calls, Failed              float64
	P50, P99, RTT50, RTT99     float64
	Rate, RX, TX, Resent, Lost float64
}

// Trend is how many points a frame has at most.
const Trend = 120

// loopKey names an event loop.
type loopKey struct {
	endpoint string
	number   int
}

// Meter makes frames of one program.
type Meter struct {
	about  debug.About
	before map[loopKey]*erpc.Snapshot
	last   time.Time
	trend  []Point
}

// NewMeter returns a Meter for a program. A terminal obeys nothing in the names that it has chosen.
func NewMeter(about debug.About) *Meter {
	about.Program = visible(about.Program)
	names := map[uint8]string{}
	for typ, name := range about.TypeNames {
		names[typ] = visible(name)
	}
	about.TypeNames = names
	return &Meter{about: about}
}

// visible makes a name safe to show in one line.
func visible(name string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(cli.Visible(name))
}

// Next returns the frame that ends with snaps. A loop that was not there before has no rates.
func (m *Meter) Next(snaps []*erpc.Snapshot) *Frame {
	f := &Frame{Program: m.about.Program, PID: m.about.PID}
	for _, s := range snaps {
		if s.At.After(f.At) {
			f.At = s.At
		}
	}
	if !m.last.IsZero() {
		f.Over = max(0, f.At.Sub(m.last).Seconds())
	}
	before := map[loopKey]*erpc.Snapshot{}
	types := map[string]*Type{}
	for _, s := range snaps {
		key := loopKey{s.Addr.String(), s.Loop}
		before[key] = s
		old := m.before[key]
		f.Loops = append(f.Loops, f.loop(s, old))
		m.types(types, s, old)
		for i := range s.Sessions {
			f.Sessions = append(f.Sessions, session(s, &s.Sessions[i]))
		}
	}
	f.total()
	f.finishTypes(types)
	slices.SortStableFunc(f.Sessions, func(a, b Session) int {
		return cmp.Compare(b.InFlight+b.Queued, a.InFlight+a.Queued)
	})
	m.before, m.last = before, f.At
	if f.Over > 0 {
		m.trend = append(m.trend, f.point())
		m.trend = m.trend[max(0, len(m.trend)-Trend):]
	}
	f.Trend = slices.Clone(m.trend)
	return f
}

// per returns the rate of a counter; 0 if it went back, as with a loop that is new at an address.
func (f *Frame) per(now, before uint64) float64 {
	if f.Over <= 0 || now < before {
		return 0
	}
	return float64(now-before) / f.Over
}

func us(h *erpc.Histogram, q float64) float64 { return float64(h.Quantile(q)) / 1e3 }

// since returns the counts that a histogram got after before; none if it began anew.
func since(now, before *erpc.Histogram) (d erpc.Histogram) {
	if now.Count >= before.Count {
		d = now.Since(before)
	}
	return d
}

// loop describes one loop.
func (f *Frame) loop(s, old *erpc.Snapshot) Loop {
	l := Loop{Endpoint: s.Addr.String(), Number: s.Loop, Late: s.Late, Sessions: s.Stats.Sessions,
		Active: s.Congestion.Active, Limited: s.Congestion.Limited, Rate: s.Congestion.Rate,
		InFlight: s.Queues.InFlight, Queued: s.Queues.Requests + s.Queues.Calls,
		Handlers: s.Queues.Handlers, Memory: s.Stats.Memory}
	if old == nil {
		return l
	}
	a, b := &s.Stats, &old.Stats
	l.Calls = f.per(a.Completed+a.Failed+a.RequestsServed, b.Completed+b.Failed+b.RequestsServed)
	l.Failed = f.per(a.Failed, b.Failed)
	l.RX = f.per(a.Transport.RxBytes, b.Transport.RxBytes)
	l.TX = f.per(a.Transport.TxBytes, b.Transport.TxBytes)
	l.Packets = f.per(a.RxPackets+a.TxPackets, b.RxPackets+b.TxPackets)
	l.Resent = f.per(a.Protocol.Retransmits, b.Protocol.Retransmits)
	l.Dropped = f.per(drops(a), drops(b))
	l.Stalls = f.per(a.Protocol.CreditStalls, b.Protocol.CreditStalls)
	if a.BlindTime >= b.BlindTime && f.Over > 0 {
		l.Blind = min(1, (a.BlindTime-b.BlindTime).Seconds()/f.Over)
	}
	l.trips = since(&a.RTT, &b.RTT)
	for i := range s.Types {
		for _, server := range []bool{false, true} {
			if now := side(&s.Types[i], server); now != nil {
				was := sideOf(old, s.Types[i].Type, server)
				d := since(&now.Latency, &was.Latency)
				l.calls.Merge(&d)
			}
		}
	}
	l.quantiles()
	return l
}

func (l *Loop) quantiles() {
	l.P50, l.P99 = us(&l.calls, 0.5), us(&l.calls, 0.99)
	l.RTT50, l.RTT99 = us(&l.trips, 0.5), us(&l.trips, 0.99)
}

// drops counts all packets that a loop dropped.
func drops(s *erpc.Stats) uint64 {
	p := &s.Protocol
	return s.TxDropped + s.DropMalformed + s.DropNoSession + s.DropToken + s.DropConnects +
		s.DropSealed + s.DropBundle + s.DropRole + s.DropHandover + s.DropNoLoop + p.DropPast +
		p.DropFuture + p.DropUnsent + p.DropBusy + p.DropRepeat + p.DropSize +
		s.Transport.TxDropped + s.Transport.RxDropped
}

// side returns the calls of a type at one side, or nil.
func side(t *erpc.TypeStats, server bool) *erpc.CallStats {
	if server {
		return t.Server
	}
	return t.Client
}

// sideOf is side in a snapshot, with zeros if it is not there.
func sideOf(s *erpc.Snapshot, typ uint8, server bool) *erpc.CallStats {
	if s != nil {
		for i := range s.Types {
			if c := side(&s.Types[i], server); s.Types[i].Type == typ && c != nil {
				return c
			}
		}
	}
	return new(erpc.CallStats)
}

// total sums the loops up.
func (f *Frame) total() {
	t := &f.Total
	t.Endpoint = "all"
	for i := range f.Loops {
		l := &f.Loops[i]
		t.Late = t.Late || l.Late
		t.Calls += l.Calls
		t.Failed += l.Failed
		t.RX += l.RX
		t.TX += l.TX
		t.Packets += l.Packets
		t.Resent += l.Resent
		t.Dropped += l.Dropped
		t.Stalls += l.Stalls
		t.Blind = max(t.Blind, l.Blind)
		t.Sessions += l.Sessions
		t.Active += l.Active
		t.Limited += l.Limited
		t.Rate += l.Rate
		t.InFlight += l.InFlight
		t.Queued += l.Queued
		t.Handlers += l.Handlers
		t.Memory += l.Memory
		t.calls.Merge(&l.calls)
		t.trips.Merge(&l.trips)
	}
	t.quantiles()
}

// types adds the calls of a loop to those of all loops, by type and side.
func (m *Meter) types(all map[string]*Type, s, old *erpc.Snapshot) {
	if old == nil {
		return
	}
	for i := range s.Types {
		ts := &s.Types[i]
		name := m.about.TypeNames[ts.Type]
		if name == "" {
			name = strconv.Itoa(int(ts.Type))
		}
		for _, server := range []bool{false, true} {
			now := side(ts, server)
			if now == nil {
				continue
			}
			was := sideOf(old, ts.Type, server)
			key := name + strconv.FormatBool(server)
			if all[key] == nil {
				all[key] = &Type{Name: name, Server: server}
			}
			t := all[key]
			t.Calls += float64(now.Count()) - float64(was.Count())
			t.Failed += float64(now.Count()-now.Ended[0]) - float64(was.Count()-was.Ended[0])
			d := since(&now.Latency, &was.Latency)
			t.calls.Merge(&d)
			d = since(&now.Handler, &was.Handler)
			t.handlers.Merge(&d)
		}
	}
}

func (f *Frame) finishTypes(all map[string]*Type) {
	for _, t := range all {
		if f.Over > 0 {
			t.Calls, t.Failed = max(0, t.Calls/f.Over), max(0, t.Failed/f.Over)
		}
		t.P50, t.P99 = us(&t.calls, 0.5), us(&t.calls, 0.99)
		t.Handler50, t.Handler99 = us(&t.handlers, 0.5), us(&t.handlers, 0.99)
		f.Types = append(f.Types, *t)
	}
	slices.SortFunc(f.Types, func(a, b Type) int {
		return cmp.Or(cmp.Compare(b.Handler99, a.Handler99), cmp.Compare(b.P99, a.P99),
			cmp.Compare(a.Name, b.Name))
	})
}

func session(s *erpc.Snapshot, d *erpc.SessionState) Session {
	return Session{Endpoint: s.Addr.String(), Peer: d.Peer.String(), Number: d.Number,
		Client: d.Client, Connected: d.Connected, InFlight: d.InFlight, Queued: d.Queued,
		Credits: d.Credits, Most: d.MaxCredits, RTT: float64(d.RTT) / 1e3,
		RTO: float64(d.RTO) / 1e3, Rate: d.Rate, Limited: d.Limited}
}

func (f *Frame) point() Point {
	t := &f.Total
	return Point{At: f.At, Calls: t.Calls, Failed: t.Failed, P50: t.P50, P99: t.P99, RTT50: t.RTT50,
		RTT99: t.RTT99, Rate: t.Rate, RX: t.RX, TX: t.TX, Resent: t.Resent, Lost: t.Dropped}
}
