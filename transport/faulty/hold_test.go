package faulty

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// send sends packets by number, one burst, and expects all to be taken.
func (p *pair) send(numbers ...int) {
	p.t.Helper()
	var items []transport.TxItem
	for _, i := range numbers {
		items = append(items, transport.TxItem{Dst: p.b.LocalAddr(), Head: content(i)})
	}
	if n, err := p.a.TxBurst(items); n != len(items) || err != nil {
		p.t.Fatalf("TxBurst = %d, %v, want %d", n, err, len(items))
	}
	p.a.Flush()
}

// expect receives and wants exactly these packets in this order.
func (p *pair) expect(numbers ...int) {
	p.t.Helper()
	var got []int
	p.receive(func(data []byte) { got = append(got, number(data)) })
	if !slices.Equal(got, numbers) {
		p.t.Fatalf("received packets %v, want %v", got, numbers)
	}
}

// TestDelay: out after the delay, not before, on either side, without any further
// packets, and Wait sleeps no longer than that.
func TestDelay(t *testing.T) {
	for name, cfg := range map[string]Config{
		"TX": {TX: Faults{Delay: time.Millisecond}},
		"RX": {RX: Faults{Delay: time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, cfg, true)
			holder := p.b // the endpoint that holds the packet
			if name == "TX" {
				holder = p.a
			}
			p.send(1, 2)
			p.expect()
			p.now += 999_900
			p.expect()
			if err := holder.Wait(-1); err != nil { // must not sleep for ever
				t.Fatal(err)
			}
			if w := holder.inner.(*fake).waited; w != 100 {
				t.Fatalf("Wait(-1) slept up to %v, want 100ns", w)
			}
			p.expect() // the clock has not moved
			p.now += 100
			if err := holder.Wait(0); err != nil { // sends, or has something to give out
				t.Fatal(err)
			}
			p.expect(1, 2)
		})
	}
}

// TestReorder: overtaken by exactly one, or released by time.
func TestReorder(t *testing.T) {
	p := newPair(t, Config{TX: Faults{Reorder: 1, ReorderBy: 1, ReorderHold: time.Second}}, true)
	p.send(1)
	p.expect()
	p.send(2) // lets 1 go, is held itself
	p.expect(1)
	p.now = p.now.Add(time.Second)
	p.send() // any call does
	p.expect(2)

	p = newPair(t, Config{RX: Faults{Reorder: 1, ReorderBy: 1, ReorderHold: time.Second}}, true)
	p.send(1)
	p.expect()
	p.send(2)
	p.expect(1)
	p.now = p.now.Add(time.Second)
	p.expect(2)
}

// TestStoreFull: what cannot be held passes, and nothing is lost.
func TestStoreFull(t *testing.T) {
	p := newPair(t, Config{Hold: 2, TX: Faults{Delay: time.Second}}, true)
	p.send(1, 2, 3, 4)
	p.expect(3, 4)
	p.now = p.now.Add(time.Second)
	p.a.Wait(0)
	p.expect(1, 2)
	if tx, _ := p.a.Counts(); tx.Overflows != 2 || tx.Delayed != 2 {
		t.Errorf("counts are %+v", tx)
	}
}

// TestRepeatedViews: a repeated packet has memory of its own, valid as long as the rest.
func TestRepeatedViews(t *testing.T) {
	p := newPair(t, Config{RX: Faults{Dup: 1}}, true)
	p.send(7, 8)
	pkts := make([]transport.RxPacket, 8)
	n, err := p.b.RxBurst(pkts)
	if n != 4 || err != nil {
		t.Fatalf("RxBurst = %d, %v, want 4", n, err)
	}
	clear(pkts[0].Data)
	p.send(9)
	var got []int
	for _, q := range pkts[1:n] {
		got = append(got, number(q.Data))
	}
	if !slices.Equal(got, []int{8, 7, 8}) {
		t.Fatalf("packets are %v", got)
	}
	for range 100 { // slots come back
		p.expect(9, 9)
		p.send(9)
	}
}

// TestStall: an inner transport that takes little changes neither fates nor order.
func TestStall(t *testing.T) {
	f := Faults{Loss: 0.2, Dup: 0.2, Corrupt: 0.2}
	run := func(room int) (arrived []string, c Counts) {
		p := newPair(t, Config{Seed: 3, TX: f}, true)
		note := func(data []byte) { arrived = append(arrived, string(data)) }
		for sent := 0; sent < 500; {
			var items []transport.TxItem
			for i := sent; i < min(sent+10, 500); i++ {
				items = append(items, transport.TxItem{Dst: p.b.LocalAddr(), Head: content(i)})
			}
			p.fa.room = 0 // nothing goes
			n, err := p.a.TxBurst(items)
			if err != nil {
				t.Fatal(err)
			}
			sent, items = sent+n, items[n:]
			p.fa.room = room
			if n, err = p.a.TxBurst(items); err != nil {
				t.Fatal(err)
			}
			sent += n
			p.receive(note)
		}
		c, _ = p.a.Counts()
		return arrived, c
	}
	all, c := run(-1)
	for _, room := range []int{1, 3} {
		some, c2 := run(room)
		if !slices.Equal(all, some) || c != c2 {
			t.Errorf("room for %d: %d packets, %+v; without limit %d packets, %+v", room, len(some), c2,
				len(all), c)
		}
	}
}

// TestPassThrough: without faults the inner transport sees the caller's own memory.
func TestPassThrough(t *testing.T) {
	p := newPair(t, Config{}, true)
	it := []transport.TxItem{{Dst: p.b.LocalAddr(), Head: content(5)}}
	if n, err := p.a.TxBurst(it); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if p.fa.first != &it[0].Head[0] {
		t.Error("the packet was copied")
	}
	p.expect(5)
	if p.a.store() != 0 || p.b.store() != 0 {
		t.Error("memory for held packets without need")
	}
}

func (t *Transport) store() int { return len(t.tx.store.slots) + len(t.rx.store.slots) }

// TestCorruptLeavesCaller: damage is done to a copy.
func TestCorruptLeavesCaller(t *testing.T) {
	for _, copies := range []bool{true, false} {
		p := newPair(t, Config{TX: Faults{Corrupt: 1}}, copies)
		for i := range 100 {
			head, data := content(i)[:8], content(i)[8:]
			p.a.TxBurst([]transport.TxItem{{Dst: p.b.LocalAddr(), Head: head, Data: data}})
			p.a.Flush()
			if number(append(head, data...)) != i {
				t.Fatal("the caller's packet was damaged")
			}
			p.expect(-1)
		}
	}
}

// TestPath: each destination has the path of the inner transport. Corrupt, in either direction,
// undoes the promise of checksums.
func TestPath(t *testing.T) {
	for _, x := range []struct {
		cfg    Config
		spoils bool
	}{
		{Config{TX: Faults{Loss: 1}, RX: Faults{Dup: 1}}, false},
		{Config{TX: Faults{Corrupt: 1}}, true},
		{Config{RX: Faults{Corrupt: 1}}, true},
	} {
		p := newPair(t, x.cfg, true)
		for port := range uint32(4) {
			dst := transport.Addr{Port: port}
			want := p.fa.Path(dst)
			want.Checksummed = port%2 == 1 && !x.spoils
			if got := p.a.Path(dst); got != want {
				t.Errorf("%+v: Path to port %d = %+v, want %+v", x.cfg, port, got, want)
			}
		}
	}
}

// TestCut: each direction, all or one address, held packets too, and mended again.
func TestCut(t *testing.T) {
	for _, x := range []struct {
		name string
		cut  func(p *pair, on bool)
	}{
		{"TX", func(p *pair, on bool) { p.a.Cut(either(on, TX)) }},
		{"RX", func(p *pair, on bool) { p.b.Cut(either(on, RX)) }},
		{"Both", func(p *pair, on bool) { p.a.Cut(either(on, Both)) }},
		{"TX to one", func(p *pair, on bool) { p.a.CutAddr(p.b.LocalAddr(), either(on, TX)) }},
		{"RX from one", func(p *pair, on bool) { p.b.CutAddr(p.a.LocalAddr(), either(on, RX)) }},
	} {
		for _, delay := range []time.Duration{0, 10} {
			t.Run(fmt.Sprint(x.name, delay), func(t *testing.T) {
				p := newPair(t, Config{TX: Faults{Delay: delay}, RX: Faults{Delay: delay}}, true)
				step := func(numbers ...int) {
					t.Helper()
					for range 2 {
						p.now += 10
						p.a.Wait(0)
						p.receive(func(data []byte) {
							if len(numbers) == 0 || number(data) != numbers[0] {
								t.Fatalf("packet %d came through, want %v", number(data), numbers)
							}
							numbers = numbers[1:]
						})
					}
					if len(numbers) > 0 {
						t.Fatalf("packets %v did not come", numbers)
					}
				}
				p.a.CutAddr(transport.Addr{Port: 9}, Both) // somebody else
				p.send(1)
				step(1)
				x.cut(p, true)
				p.send(2, 3)
				step()
				x.cut(p, false)
				p.send(4)
				step(4)
				if delay > 0 {
					p.send(5)
					x.cut(p, true)
					step()
				}
				tx, _ := p.a.Counts()
				_, rx := p.b.Counts()
				if want := uint64(2 + min(delay, 1)); tx.Cut+rx.Cut != want {
					t.Errorf("%d packets cut, want %d", tx.Cut+rx.Cut, want)
				}
			})
		}
	}
}

func either(on bool, d Direction) Direction {
	if on {
		return d
	}
	return None
}

// TestCutConcurrently is for the race detector.
func TestCutConcurrently(t *testing.T) {
	p := newPair(t, Config{}, true)
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 200 {
				p.a.Cut(Direction(i % 4))
				p.b.CutAddr(p.a.LocalAddr(), Direction((i+g)%4))
			}
			p.a.Cut(None)
			p.b.CutAddr(p.a.LocalAddr(), None)
		})
	}
	for i := range 200 {
		p.send(i)
		p.receive(func([]byte) {})
	}
	wg.Wait()
	p.send(1)
	p.expect(1)
}

// TestCloseWhileHeld closes during a Wait that has held packets to send.
func TestCloseWhileHeld(t *testing.T) {
	for range 100 {
		w := newFakeNet(true)
		a, b := decorate(t, w.open(), Config{TX: Faults{Delay: time.Nanosecond}}), w.open()
		a.TxBurst([]transport.TxItem{{Dst: b.LocalAddr(), Head: content(1)}})
		done := make(chan error)
		go func() {
			var err error
			for err == nil {
				err = a.Wait(-1)
			}
			done <- err
		}()
		a.Close()
		if err := <-done; err != transport.ErrClosed {
			t.Fatalf("Wait: %v", err)
		}
	}
}

// TestAllocations: faults cost no memory once warm.
func TestAllocations(t *testing.T) {
	f := Faults{Loss: 0.1, Dup: 0.1, Reorder: 0.1, Corrupt: 0.1, Jitter: 3}
	for _, cfg := range []Config{{}, {TX: f, RX: f}} {
		p := newPair(t, cfg, true)
		items := make([]transport.TxItem, 32)
		for i := range items {
			items[i] = transport.TxItem{Dst: p.b.LocalAddr(), Head: content(i)}
		}
		pkts := make([]transport.RxPacket, 64)
		allocs := testing.AllocsPerRun(200, func() {
			p.a.TxBurst(items)
			p.b.RxBurst(pkts)
			p.now++
		})
		if allocs != 0 {
			t.Errorf("%v allocations per burst", allocs)
		}
	}
}
