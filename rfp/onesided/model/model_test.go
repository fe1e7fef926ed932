package model

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/conformance"
)

func open(torn bool) conformance.Open {
	return func(t *testing.T, a, b []onesided.Spec) conformance.Pair {
		n := New(Paper(), 1)
		if torn {
			n.Tear()
		}
		x, y, err := Connect(n.Machine(n.p.Client), n.Machine(n.p.Server), a, b)
		if err != nil {
			t.Fatal(err)
		}
		return conformance.Pair{A: x, B: y, Step: func() { n.Step() }}
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, open(false))
	t.Run("Torn", func(t *testing.T) { conformance.Run(t, open(true)) })
}

// measure lets so many threads on as many client machines issue operations one at a time, and
// returns operations per second.
func measure(t *testing.T, p Params, inbound bool, machines, threads, size int, read bool) float64 {
	t.Helper()
	n := New(p, 1)
	server := n.Machine(p.Server)
	done := 0
	spec := []onesided.Spec{{Size: 1 << 20, Access: onesided.PeerReads | onesided.PeerWrites}}
	var clients []*Machine
	for range machines {
		clients = append(clients, n.Machine(p.Client))
	}
	for i := range threads {
		from, to := clients[i%machines], server
		if !inbound {
			from, to = to, from
		}
		l, _, err := Connect(from, to, spec, spec)
		if err != nil {
			t.Fatal(err)
		}
		var b onesided.Batch
		var room [1]onesided.Completion
		begun := false
		th := from.Thread(func(Time) time.Duration {
			k := l.Poll(room[:])
			done += k
			if k > 0 || !begun {
				begun = true
				b.Reset()
				if read {
					b.Read(0, 0, 0, 0, size, 1)
				} else {
					b.Write(0, 0, 0, 0, size, 1, true)
				}
				if err := l.Post(&b); err != nil {
					t.Error(err)
				}
			}
			return 0
		})
		l.Bind(th)
		th.Wake()
	}
	const span = 2 * time.Millisecond
	n.RunUntil(n.Now().Add(span))
	return float64(done) / span.Seconds()
}

// TestMicro holds the model to the micro-benchmarks that its parameters come from.
func TestMicro(t *testing.T) {
	near := func(what string, got, want, part float64) {
		t.Helper()
		t.Logf("%s: %.2f M/s, paper %.2f", what, got/1e6, want/1e6)
		if got < want*(1-part) || got > want*(1+part) {
			t.Errorf("%s: %.2f M/s, want %.2f within %.0f %%", what, got/1e6, want/1e6, 100*part)
		}
	}
	p := Paper()
	near("one thread out-bound", measure(t, p, false, 7, 1, 32, false), 0.62e6, 0.02)
	near("four threads out-bound", measure(t, p, false, 7, 4, 32, false), 2.11e6, 0.05)
	near("READs in-bound", measure(t, p, true, 7, 28, 32, true), 11.26e6, 0.001)
	near("WRITEs in-bound", measure(t, p, true, 7, 28, 32, false), 11.26e6, 0.001)
	// From 1.5 (RFP) or 2 KB (RF-RPC) on both directions are alike.
	in, out := measure(t, p, true, 7, 28, 4096, true), measure(t, p, false, 7, 16, 4096, false)
	near("4 KB in-bound against out-bound", in, out, 0.05)
}

// TestApt holds programmed I/O to its lines of 64 bytes, of which a WRITE of 28 bytes needs one,
// and connections that the adapter does not hold to the time that each operation then takes more.
func TestApt(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if t.Logf("%s: %.2f M/s", what, got/1e6); got < .97*want || got > 1.03*want {
			t.Errorf("%s: %.2f M/s, want %.2f", what, got/1e6, want/1e6)
		}
	}
	p := Apt()
	p.Server.OutWrite, p.Server.PIO = 100e6, 1e6
	near("out-bound WRITEs of 28 bytes", measure(t, p, false, 7, 16, 28, false), 1e6)
	near("out-bound WRITEs of 29 bytes", measure(t, p, false, 7, 16, 29, false), .5e6)
	near("out-bound WRITEs of 300 bytes, not inlined", measure(t, p, false, 7, 16, 300, false), 1e6)
	near("out-bound READs", measure(t, p, false, 7, 16, 300, true), 1e6)
	p = Apt()
	p.Server.InWrite, p.Server.Contexts, p.Server.Miss = 2e6, 28, 1500*time.Nanosecond
	near("WRITEs over 28 connections", measure(t, p, true, 7, 28, 32, false), 2e6)
	p.Server.Contexts = 1
	near("WRITEs over 28 connections, 1 held", measure(t, p, true, 7, 28, 32, false), .5e6)
}

func TestKill(t *testing.T) {
	n := New(Paper(), 1)
	spec := []onesided.Spec{{Size: 64, Access: onesided.PeerReads}}
	a, b := n.Machine(n.p.Client), n.Machine(n.p.Server)
	x, _, err := Connect(a, b, spec, spec)
	if err != nil {
		t.Fatal(err)
	}
	var batch onesided.Batch
	batch.Read(0, 0, 0, 0, 64, 3)
	if err := x.Post(&batch); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	for n.Step() {
	}
	var room [2]onesided.Completion
	if k := x.Poll(room[:]); k != 1 || room[0].Err != onesided.ErrPeer {
		t.Fatalf("%d completions, %+v", k, room[0])
	}
}

// TestBreakQueue holds that a side whose queue pair is in error learns it from Poll once it has an
// operation, and the other side from its own, which are not answered; and neither before.
func TestBreakQueue(t *testing.T) {
	for _, k := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
		n := New(Paper(), 1)
		spec := []onesided.Spec{{Size: 64, Access: onesided.PeerReads | onesided.PeerWrites}}
		x, y, err := Connect(n.Machine(n.p.Client), n.Machine(n.p.Server), spec, spec)
		if err != nil {
			t.Fatal(err)
		}
		links := []*Link{x, y}
		l := links[k[1]]
		links[k[0]].BreakQueue()
		for n.Step() {
		}
		if l.Poll(nil); l.Err() != nil {
			t.Fatalf("side %d knows of queue %d without an operation: %v", k[1], k[0], l.Err())
		}
		var batch onesided.Batch
		batch.Write(0, 0, 0, 0, 64, 3, false)
		if err := l.Post(&batch); err != nil {
			t.Fatal(err)
		}
		for n.Step() {
		}
		if l.Err() != nil {
			t.Errorf("side %d knows of queue %d before it polls", k[1], k[0])
		}
		if l.Poll(nil); l.Err() != onesided.ErrPeer {
			t.Errorf("side %d, queue %d: %v, want ErrPeer", k[1], k[0], l.Err())
		}
	}
}
