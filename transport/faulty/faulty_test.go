package faulty

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
)

func TestConformance(t *testing.T) {
	for _, copies := range []bool{true, false} {
		t.Run(fmt.Sprintf("TxCopies=%v", copies), func(t *testing.T) {
			conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
				w := newFakeNet(copies)
				return decorate(tb, w.open(), Config{}), decorate(tb, w.open(), Config{})
			})
		})
	}
}

// TestConformanceVirtual: every packet is held for a moment of virtual time on its
// way in, and all of the contract still holds.
func TestConformanceVirtual(t *testing.T) {
	var now Time
	cfg := Config{Hold: 600, RX: Faults{Delay: 10}, Clock: func() Time { return now }}
	open := func(tb testing.TB) (a, b transport.Transport) {
		w := newFakeNet(true)
		return decorate(tb, w.open(), cfg), decorate(tb, w.open(), cfg)
	}
	conformance.Run(t, open, conformance.WithAdvance(func() { now++ }))
}

// TestConformanceHeld: holding packets loses, repeats and damages none, whatever the
// caller does with its buffers.
func TestConformanceHeld(t *testing.T) {
	sides := map[string]Config{
		"TX":    {Hold: 600, TX: Faults{Delay: 10 * time.Microsecond}},
		"RX":    {Hold: 600, RX: Faults{Delay: 10 * time.Microsecond}},
		"mixed": {Hold: 600, RX: Faults{Reorder: 0.2}, TX: Faults{Jitter: 50 * time.Microsecond}},
	}
	for name, cfg := range sides {
		t.Run(name, func(t *testing.T) {
			for _, copies := range []bool{true, false} {
				conformDelivery(t, cfg, copies, 2000)
			}
		})
	}
}

// content is the packet number i, of a size that depends on i.
func content(i int) []byte {
	p := make([]byte, 8+(i*131)%(fakeMTU-7))
	binary.LittleEndian.PutUint64(p, uint64(i))
	for j := 8; j < len(p); j++ {
		p[j] = byte(i*31 + j*7)
	}
	return p
}

// number returns which packet p is, or -1.
func number(p []byte) int {
	if len(p) < 8 {
		return -1
	}
	i := int(binary.LittleEndian.Uint64(p))
	if i < 0 || i > 1<<30 || !bytes.Equal(p, content(i)) {
		return -1
	}
	return i
}

// traffic sends n packets in bursts, in split memory that is overwritten as soon as
// that is allowed, and returns the packets in the order in which they arrive.
func (p *pair) traffic(n int) (arrived [][]byte) {
	p.t.Helper()
	note := func(data []byte) { arrived = append(arrived, bytes.Clone(data)) }
	for sent := 0; sent < n; {
		var items []transport.TxItem
		for i := sent; i < min(n, sent+1+sent%13); i++ {
			c := content(i)
			cut := i % (len(c) + 1)
			items = append(items, transport.TxItem{Dst: p.b.LocalAddr(), Head: c[:cut:cut], Data: c[cut:]})
		}
		took, err := p.a.TxBurst(items)
		if err != nil {
			p.t.Fatal(err)
		}
		if !p.a.Caps().TxCopies {
			p.a.Flush()
		}
		for _, it := range items {
			clear(it.Head)
			clear(it.Data)
		}
		sent += took
		p.now = p.now.Add(time.Microsecond)
		p.receive(note)
	}
	for range 2 { // everything held by a is due, then everything held by b
		p.now = p.now.Add(time.Second)
		if err := p.a.Wait(0); err != nil {
			p.t.Fatal(err)
		}
		p.receive(note)
	}
	return arrived
}

// conformDelivery checks that all that arrives was sent, and all that was sent arrives.
func conformDelivery(t *testing.T, cfg Config, copies bool, n int) {
	t.Helper()
	p := newPair(t, cfg, copies)
	seen := make([]int, n)
	for _, data := range p.traffic(n) {
		i := number(data)
		if i < 0 || i >= n {
			t.Fatalf("received %d bytes that nobody sent", len(data))
		}
		seen[i]++
	}
	for i, times := range seen {
		if times != 1 {
			t.Fatalf("packet %d arrived %d times", i, times)
		}
	}
}

// TestRates gives each fault alone and checks rate, counters and contents.
func TestRates(t *testing.T) {
	const n = 10000
	for _, on := range []string{"TX", "RX"} {
		for _, p := range []float64{0.01, 0.3, 1} {
			for name, f := range map[string]Faults{
				"Loss": {Loss: p}, "Dup": {Dup: p}, "Reorder": {Reorder: p}, "Corrupt": {Corrupt: p},
			} {
				t.Run(fmt.Sprintf("%s %s %g", on, name, p),
					func(t *testing.T) { checkRate(t, on, name, f, p, n) })
			}
		}
	}
}

func checkRate(t *testing.T, on, name string, f Faults, prob float64, n int) {
	cfg := Config{Seed: 42, TX: f}
	if on == "RX" {
		cfg = Config{Seed: 42, RX: f}
	}
	p := newPair(t, cfg, true)
	arrived := p.traffic(n)
	_, c := p.b.Counts()
	if on == "TX" {
		c, _ = p.a.Counts()
	}
	if c.Packets != uint64(n) || c.Held != 0 || c.Overflows != 0 {
		t.Fatalf("counts are %+v for %d packets", c, n)
	}
	faults := map[string]uint64{"Loss": c.Lost, "Dup": c.Repeated, "Reorder": c.Reordered,
		"Corrupt": c.Corrupted}
	hit := faults[name]
	delete(faults, name)
	for other, count := range faults {
		if count != 0 {
			t.Errorf("%d packets had %s", count, other)
		}
	}
	// Six standard deviations of the binomial distribution.
	if off := math.Abs(float64(hit) - prob*float64(n)); off > 6*math.Sqrt(prob*(1-prob)*float64(n)) {
		t.Errorf("%d of %d packets had %s, want about %g", hit, n, name, prob*float64(n))
	}
	want := n
	switch name {
	case "Loss":
		want = n - int(hit)
	case "Dup":
		want = n + int(hit)
	}
	if len(arrived) != want {
		t.Errorf("%d packets arrived, want %d", len(arrived), want)
	}
	damaged, late, last := 0, 0, -1
	for _, data := range arrived {
		i := number(data)
		if i < 0 {
			damaged++
			continue
		}
		if i < last {
			late++
		}
		last = max(last, i)
	}
	if name == "Corrupt" && damaged != int(hit) || name != "Corrupt" && damaged != 0 {
		t.Errorf("%d packets arrived damaged, %d were", damaged, hit)
	}
	if name == "Reorder" && prob < 1 && late == 0 {
		t.Errorf("no packet came late")
	}
}

// TestCorruptBits: one to three bits, anywhere, all three counts of them.
func TestCorruptBits(t *testing.T) {
	d := newDice(Faults{Corrupt: 1}, 7, 1)
	for _, size := range []int{1, 2, 3, 24, 1400} {
		var counts [4]int
		touched := make([]bool, size)
		for range 40 * size {
			p := make([]byte, size)
			x := d.next()
			flip(p, x.bits)
			n := 0
			for i, v := range p {
				n += bits.OnesCount8(v)
				touched[i] = touched[i] || v != 0
			}
			if n < 1 || n > 3 {
				t.Fatalf("%d bits of %d bytes flipped", n, size)
			}
			counts[n]++
		}
		if counts[1] == 0 || counts[2] == 0 || counts[3] == 0 {
			t.Errorf("size %d: flipped bits are distributed %v", size, counts[1:])
		}
		if slices.Contains(touched, false) {
			t.Errorf("size %d: some bytes are never damaged", size)
		}
	}
	flip(nil, 5)
}

// TestDeterminism: the same seed gives the same packets in the same order; another
// seed does not; another probability leaves other faults where they were.
func TestDeterminism(t *testing.T) {
	all := Faults{Loss: 0.1, Dup: 0.1, Reorder: 0.2, Corrupt: 0.1, Jitter: 30 * time.Microsecond}
	run := func(seed uint64) [][]byte {
		return newPair(t, Config{Seed: seed, TX: all, RX: all}, true).traffic(2000)
	}
	first := run(1)
	if !reflect.DeepEqual(first, run(1)) {
		t.Error("same seed, different packets")
	}
	if reflect.DeepEqual(first, run(2)) {
		t.Error("different seeds, same packets")
	}
	lost := func(f Faults) (numbers []int) {
		d := newDice(f, 1, 1)
		for i := range 1000 {
			if x := d.next(); x.lose {
				numbers = append(numbers, i)
			}
		}
		return numbers
	}
	if !slices.Equal(lost(Faults{Loss: 0.1}), lost(all)) {
		t.Error("other faults move the losses")
	}
}

// TestEverything: all faults at once; what arrives whole was sent.
func TestEverything(t *testing.T) {
	f := Faults{Loss: 0.1, Dup: 0.1, Reorder: 0.3, Delay: time.Microsecond,
		Jitter: 9 * time.Microsecond}
	for _, copies := range []bool{true, false} {
		for seed := range uint64(5) {
			p := newPair(t, Config{Seed: seed, TX: f, RX: f}, copies)
			for _, data := range p.traffic(2000) {
				if i := number(data); i < 0 || i >= 2000 {
					t.Fatalf("received %d bytes that nobody sent", len(data))
				}
			}
		}
	}
}

func TestValidate(t *testing.T) {
	nan := math.NaN()
	for _, x := range []struct {
		field string
		cfg   Config
	}{
		{"TX.Loss", Config{TX: Faults{Loss: -0.1}}},
		{"TX.Loss", Config{TX: Faults{Loss: nan}}},
		{"RX.Dup", Config{RX: Faults{Dup: 1.1}}},
		{"TX.Reorder", Config{TX: Faults{Reorder: math.Inf(1)}}},
		{"RX.Corrupt", Config{RX: Faults{Corrupt: nan}}},
		{"RX.ReorderBy", Config{RX: Faults{ReorderBy: -1}}},
		{"TX.ReorderHold", Config{TX: Faults{ReorderHold: -1}}},
		{"TX.Delay", Config{TX: Faults{Delay: -1}}},
		{"RX.Jitter", Config{RX: Faults{Jitter: 2 * time.Hour}}},
		{"Hold", Config{Hold: -1}},
	} {
		_, err := New(newFakeNet(true).open(), x.cfg)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != x.field {
			t.Errorf("%s: error is %v", x.field, err)
		}
	}
	good := Config{TX: Faults{Loss: 1, Dup: 1, Reorder: 1, Corrupt: 1}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
