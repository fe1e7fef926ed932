package sim

import (
	"bytes"
	"math"
	"math/bits"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// near fails unless got of n trials fit probability p within five standard deviations.
func near(tb testing.TB, what string, got, n int, p float64) {
	tb.Helper()
	mean, sd := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	if math.Abs(float64(got)-mean) > 5*sd+1e-9 {
		tb.Errorf("%s: %d of %d, want %.0f +- %.0f", what, got, n, mean, 5*sd)
	}
}

const (
	trials = 40000
	apart  = 10 * time.Microsecond
)

// faulty sends trials packets of 64 bytes, that far apart, and gives each received to f.
func faulty(t *testing.T, c Config, f func(now Time, p *transport.RxPacket)) *Network {
	t.Helper()
	n := newNet(t, c)
	a, b := pairOf(t, n)
	attach(t, b, f)
	for i := range trials {
		n.RunUntil(StartTime.Add(time.Duration(i) * apart))
		send(t, a, b.LocalAddr(), i, 1, 64)
	}
	for n.Step() {
	}
	return n
}

func TestLoss(t *testing.T) {
	for _, p := range []float64{0, .001, .1, .9, 1} {
		got := 0
		c := Config{Seed: 1, Faults: Faults{Loss: p}}
		n := faulty(t, c, func(Time, *transport.RxPacket) { got++ })
		near(t, "lost", trials-got, trials, p)
		want(t, "counted", n.Stats().Lost, uint64(trials-got))
	}
}

func TestDuplication(t *testing.T) {
	for _, p := range []float64{.05, 1} {
		count := make([]int, trials)
		cfg := Config{Seed: 2, Faults: Faults{Duplicate: p}}
		n := faulty(t, cfg, func(_ Time, x *transport.RxPacket) { count[number(x.Data)]++ })
		twice := 0
		for _, c := range count {
			if c != 1 && c != 2 {
				t.Fatalf("a packet arrived %d times", c)
			}
			twice += c - 1
		}
		near(t, "duplicated", twice, trials, p)
		want(t, "counted", n.Stats().Duplicated, uint64(twice))
	}
}

// Damage flips 1 to 3 bits, equally often, all over the packet.
func TestCorruption(t *testing.T) {
	flips := make([]int, 4)
	places := make([]int, 64*8)
	n := newNet(t, Config{Seed: 3, Faults: Faults{Corrupt: .5}})
	a, b := pairOf(t, n)
	zero := make([]byte, 64)
	attach(t, b, func(_ Time, p *transport.RxPacket) {
		k := 0
		for i, v := range p.Data {
			k += bits.OnesCount8(v)
			for j := range 8 {
				places[i*8+j] += int(v >> j & 1)
			}
		}
		flips[min(k, 4)]++
	})
	for range trials {
		if _, err := a.TxBurst([]transport.TxItem{{Dst: b.LocalAddr(), Head: zero}}); err != nil {
			t.Fatal(err)
		}
		for n.Step() {
		}
	}
	damaged := trials - flips[0]
	near(t, "damaged", damaged, trials, .5)
	want(t, "counted", n.Stats().Corrupted, uint64(damaged))
	for i := 1; i <= 3; i++ {
		// A second or third flip may hit a place again: up to 1 in 100 moves down.
		if got := flips[i]; math.Abs(float64(got)-float64(damaged)/3) > .06*float64(damaged) {
			t.Errorf("%d of %d have %d bits flipped", got, damaged, i)
		}
	}
	for i, c := range places {
		if c == 0 {
			t.Errorf("bit %d is never flipped", i)
		}
	}
	if !bytes.Equal(zero, make([]byte, 64)) {
		t.Error("the sender's bytes were damaged")
	}
}

// With a checksum damaged packets vanish instead.
func TestChecksum(t *testing.T) {
	got := 0
	c := Config{Seed: 4, Checksum: true, Faults: Faults{Corrupt: .2}}
	n := faulty(t, c, func(Time, *transport.RxPacket) { got++ })
	near(t, "dropped", trials-got, trials, .2)
	want(t, "counted", n.Stats().Checksum, uint64(trials-got))
	with := open(t, n, EndpointConfig{Node: 5})
	without := open(t, newNet(t, Config{}), EndpointConfig{})
	if !with.Path(without.LocalAddr()).Checksummed || without.Path(with.LocalAddr()).Checksummed {
		t.Error("Path.Checksummed is wrong")
	}
}

func TestReordering(t *testing.T) {
	last, late := -1, 0
	c := Config{Seed: 5, Faults: Faults{Reorder: .1, ReorderDelay: 100 * time.Microsecond}}
	n := faulty(t, c, func(_ Time, p *transport.RxPacket) {
		if number(p.Data) < last {
			late++
		}
		last = max(last, number(p.Data))
	})
	near(t, "held", int(n.Stats().Reordered), trials, .1)
	// Held for 1 to 100 us; it is overtaken if the first of the next ten that is
	// not held itself comes before it. Nine in ten are held longer than 10 us.
	if late < trials*7/100 || late > trials/10 {
		t.Errorf("%d packets were overtaken", late)
	}
}

func TestDelayAndJitter(t *testing.T) {
	var least, most, sum time.Duration = math.MaxInt64, 0, 0
	c := Config{Seed: 6, PropDelay: 300, Faults: Faults{Delay: 1000, Jitter: 5000}}
	faulty(t, c, func(now Time, p *transport.RxPacket) {
		d := now.Sub(StartTime) - time.Duration(number(p.Data))*apart
		least, most, sum = min(least, d), max(most, d), sum+d
	})
	if least < 1600 || least > 1605 || most > 6600 || most < 6595 {
		t.Errorf("delay from %v to %v, want 1.6 to 6.6 us", least, most)
	}
	if mean := sum / trials; mean < 4060 || mean > 4140 {
		t.Errorf("mean delay %v, want 4.1 us", mean)
	}
}

// Faults change at run time, and a path's own take the place of the network's.
func TestPathFaults(t *testing.T) {
	n := newNet(t, Config{Faults: Faults{Loss: 1}})
	a, b := pairOf(t, n)
	try := func(ab, ba int) {
		t.Helper()
		send(t, a, b.LocalAddr(), 0, 10, 10)
		send(t, b, a.LocalAddr(), 0, 10, 10)
		for n.Step() {
		}
		want(t, "a to b", receive(t, b, nil), ab)
		want(t, "b to a", receive(t, a, nil), ba)
	}
	try(0, 0)
	must(t, n.SetPathFaults(0, 1, &Faults{}))
	try(10, 0)
	must(t, n.SetFaults(Faults{}))
	must(t, n.SetPathFaults(0, 1, &Faults{Duplicate: 1}))
	try(20, 10)
	must(t, n.SetPathFaults(0, 1, nil))
	try(10, 10)
}

func TestPartition(t *testing.T) {
	n := newNet(t, Config{PropDelay: 100})
	var eps []*Endpoint
	for i := range 4 {
		eps = append(eps, open(t, n, EndpointConfig{Node: i}))
	}
	// check sends one packet on each of the 16 paths; reach tells which arrive.
	check := func(what string, reach func(i, j int) bool) {
		t.Helper()
		for i := range eps {
			for j := range eps {
				send(t, eps[i], eps[j].LocalAddr(), i, 1, 10)
			}
		}
		for n.Step() {
		}
		for j := range eps {
			var from [4]bool
			receive(t, eps[j], func(p *transport.RxPacket) { from[number(p.Data)] = true })
			for i := range eps {
				if from[i] != reach(i, j) {
					t.Errorf("%s: %d to %d: %v", what, i, j, from[i])
				}
			}
		}
	}
	all := func(int, int) bool { return true }
	check("whole", all)
	must(t, n.Partition([]int{0, 1}, []int{2}))
	check("partition", func(i, j int) bool { return i == 3 || j == 3 || (i < 2) == (j < 2) })
	n.Heal()
	check("healed", all)
	must(t, n.Cut([]int{0, 3}, []int{1, 3}))
	check("one way", func(i, j int) bool {
		return i == j || !((i == 0 || i == 3) && (j == 1 || j == 3))
	})
	n.Heal()

	// Packets on their way are cut off too, those healed in time are not.
	send(t, eps[0], eps[1].LocalAddr(), 0, 1, 10)
	must(t, n.Cut([]int{0}, []int{1}))
	n.RunUntil(n.Now() + 1000)
	want(t, "over the cut", receive(t, eps[1], nil), 0)
	n.Heal()
	send(t, eps[0], eps[1].LocalAddr(), 0, 1, 10)
	must(t, n.Cut([]int{0}, []int{1}))
	n.Heal()
	n.RunUntil(n.Now() + 1000)
	want(t, "healed in time", receive(t, eps[1], nil), 1)
}
