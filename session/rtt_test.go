package session

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestEarly: the timeout of a packet that evidence speaks of.
func TestEarly(t *testing.T) {
	e := newRTOEstimator(&Timing{RTOMin: 1600, RTOMax: 10_000, RTOInitial: 1000})
	is := func(what string, share, want time.Duration) {
		t.Helper()
		if got := e.early(share); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	is("no sample", oneShare, 1000)
	e.srtt, e.rto = 10, 1600
	is("handlers of which nothing is known", oneShare, 120)
	e.hold = 0
	is("the least of one packet", oneShare, 25)
	is("the least of the last one", tailShare, 100)
	is("the least of several packets", manyShare, 400)
	e.srtt, e.rttvar = 100, 25
	is("twice the round trip", manyShare, 400)
	e.handled(40)
	is("a handler that takes 40", oneShare, 480)
	e.handled(0)
	is("one that takes none", oneShare, 478)
	e.hasty = 1
	is("an answer that is no sample", oneShare, 956)
	e.hasty = 2
	is("another", oneShare, 1600)
	e.hasty = maxHasty
	is("many", oneShare, 1600)
	e.hasty = 2
	e.srtt, e.rttvar, e.hold = 100, 0, 0
	for range 2*calmAfter - 1 {
		e.sample(100)
	}
	is("not yet so many samples", oneShare, 400)
	e.sample(100)
	is("so many samples", oneShare, 200)
	e.sample(100)
	is("one more", oneShare, 200)
}

// TestBackoffLimit: doubling reaches the maximum, or stops just below it.
func TestBackoffLimit(t *testing.T) {
	for _, c := range []struct {
		rto, max time.Duration
		retries  uint8
		want     time.Duration
	}{{3, 7, 0, 3}, {3, 7, 1, 6}, {3, 7, 2, 7}, {4, 7, 1, 7}, {3, 6, 1, 6}, {3, 5, 1, 5}} {
		e := rtoEstimator{rto: c.rto, max: c.max}
		if got := e.timeout(c.retries); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestDefaults: the zero Timing has the defaults of the documentation.
func TestDefaults(t *testing.T) {
	want := Timing{
		RTOMin: 5 * ms, RTOMax: 200 * ms, RTOInitial: 20 * ms, Heartbeat: 500 * ms,
		SilenceTimeout: 20 * ms, FailureTimeout: 3000 * ms, ConnectTimeout: 3000 * ms,
		ConnectRetry: 10 * ms, DisconnectLinger: 200 * ms,
	}
	if got, err := (Timing{}).Fill(); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// TestFillBounds: a least timeout may be the largest too, and a heartbeat the timeout.
func TestFillBounds(t *testing.T) {
	for _, good := range []Timing{{RTOMin: 7, RTOMax: 7}, {Heartbeat: 9, FailureTimeout: 9}} {
		if _, err := good.Fill(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}

// TestAgreeSlots: slots are the largest power of two that both sides have.
func TestAgreeSlots(t *testing.T) {
	for _, c := range [][3]uint16{{12, 16, 8}, {7, 100, 4}, {96, 127, 64}, {8, 8, 8}, {3, 1, 1}} {
		for range 2 {
			if o := Agree(wire.Offer{Slots: c[0]}, wire.Offer{Slots: c[1]}); o.Slots != c[2] {
				t.Errorf("%d and %d slots: %d, want %d", c[0], c[1], o.Slots, c[2])
			}
			c[0], c[1] = c[1], c[0]
		}
	}
}

// TestDialerPace: after some first Connects one is repeated each time a sixteenth later, up to
// RTOMax, give or take a quarter; after a Challenge that came late the repetitions are exact and
// leave time for every rung of the ladder.
func TestDialerPace(t *testing.T) {
	timing, err := Timing{}.Fill()
	if err != nil {
		t.Fatal(err)
	}
	out := NewOut(4, false)
	d := NewDialer(serverHost, wire.Connect{Nonce: 77, Offer: clientOffer}, timing, 0)
	now := monotime.Time(0)
	steps := func(part time.Duration, want ...time.Duration) {
		t.Helper()
		for i, w := range want {
			if i > 0 || len(out.Tx) == 0 {
				if err := d.Tick(now, out); err != nil {
					t.Fatal(err)
				}
			}
			if got := d.NextAt().Sub(now); got < w-w*part/4 || got > w+w*part/4 {
				t.Errorf("packet %d is repeated after %v, want %v", i, got, w)
			}
			now = d.NextAt()
		}
		out.Reset()
	}
	steps(1, slices.Repeat([]time.Duration{10 * ms}, fastTries)...)
	for wait := time.Duration(10 * ms); now < 2000*ms; {
		wait += wait / slowShare
		steps(1, wait)
	}
	now = 1000 * ms
	d.OnChallenge(&wire.Challenge{Nonce: 77, Cookie: [wire.CookieSize]byte{1}}, now, out)
	steps(0, 125*ms, 125*ms, 125*ms) // 2 s for 16 packets
}

// TestSampleIsBounded: a process that was stopped while an answer was on its way, or a clock that
// went on meanwhile, makes no path of hours.
func TestSampleIsBounded(t *testing.T) {
	timing, err := Timing{}.Fill()
	if err != nil {
		t.Fatal(err)
	}
	e := newRTOEstimator(&timing)
	e.sample(20 * time.Hour)
	if e.srtt > maxSample || e.base > maxSample {
		t.Errorf("a path of %v, %v at least", e.srtt, e.base)
	}
	e = newRTOEstimator(&timing)
	e.sample(time.Millisecond)
	e.sample(20 * time.Hour)
	for range 64 {
		e.sample(time.Millisecond)
	}
	if e.srtt > 2*time.Millisecond {
		t.Errorf("a path of %v after 64 round trips of 1ms", e.srtt)
	}
}

// TestOpenedIn: a handshake that took long, so that something of it was sent again, makes the first
// timeout as long, up to that of the slowest paths, until there is a sample; a short one does not.
func TestOpenedIn(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		ms: 20 * ms, 240 * ms: 240 * ms, time.Hour: slowFactor * 200 * ms,
	} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.cl.OpenedIn(took)
		r.open(0)
		if got := r.cl.RoundTrips().Timeout; got != want {
			t.Errorf("a handshake of %v: the first timeout is %v, want %v", took, got, want)
		}
		r.cl.rtt.sample(ms)
		if got := r.cl.RoundTrips().Timeout; got != 5*ms {
			t.Errorf("after a sample of 1 ms the timeout is %v", got)
		}
	}
}
