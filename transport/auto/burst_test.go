package auto

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// TestMixedBurst: one burst goes both ways, in order on each, and what a full ring
// does not take is not taken of the rest either.
func TestMixedBurst(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	cfg.SHM.MTU, cfg.SHM.Ring = 256, 8192
	a, b, plain := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", cfg),
		listenUDP(t, "127.0.0.1:0")
	shared, err := a.Resolve(b.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	const count = 105
	all := [2]int{count, count - 5} // the last five go one way
	items := make([]transport.TxItem, count)
	for i := range items {
		items[i] = transport.TxItem{Dst: shared, Head: binary.LittleEndian.AppendUint64(nil, uint64(i)),
			Data: make([]byte, 200)}
		if i%7 < 2 {
			items[i].Dst = plain.LocalAddr()
		}
	}
	var next [2]int // of each way
	pkts := make([]transport.RxPacket, 16)
	read := func(way int, tr transport.Transport) {
		n, err := tr.RxBurst(pkts)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pkts[:n] {
			for isUDP := next[way]%7 < 2; isUDP != (way == 1); isUDP = next[way]%7 < 2 {
				next[way]++
			}
			if got := int(binary.LittleEndian.Uint64(p.Data)); got != next[way] {
				t.Fatalf("way %d: got packet %d, want %d", way, got, next[way])
			}
			next[way]++
		}
	}
	stalls := uint64(0)
	for left := items; len(left) > 0; read(0, b) {
		n, err := a.TxBurst(left)
		if err != nil {
			t.Fatal(err)
		}
		if n < len(left) {
			stalls++
			if left[n].Dst != shared {
				t.Fatal("stopped at a packet of the way that is not full")
			}
		}
		left = left[n:]
	}
	for end := time.Now().Add(patience); next != all && time.Now().Before(end); {
		read(0, b)
		read(1, plain)
	}
	if next != all {
		t.Fatalf("received up to %v, want %v", next, all)
	}
	s := a.Stats()
	if s.TxPackets != count || s.TxStalls != stalls || stalls == 0 || s.TxDropped != 0 {
		t.Errorf("%+v with %d stalls", s, stalls)
	}
}

// TestNoStarving: whichever way brings packets without end, the other gets through, even
// if RxBurst has room for one.
func TestNoStarving(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	for _, flood := range []string{"shared memory", "udp"} {
		t.Run("flood over "+flood, func(t *testing.T) {
			a, b := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", cfg)
			few, err := a.Resolve(b.LocalAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			many := b.LocalAddr() // the address of UDP
			if flood != "udp" {
				few, many = many, few
			}
			for range 50 {
				send(t, a, many, "flood")
			}
			for range 20 {
				send(t, a, few, "needle")
				pkts := make([]transport.RxPacket, 1)
				for end := time.Now().Add(patience); ; send(t, a, many, "flood") {
					n, err := b.RxBurst(pkts)
					if err != nil {
						t.Fatal(err)
					}
					if n == 1 && string(pkts[0].Data) == "needle" {
						break
					}
					if time.Now().After(end) {
						t.Fatal("starved")
					}
				}
			}
		})
	}
}

// TestTurnsInTime: while packets come over shared memory, the socket is looked at each lookEvery,
// and it is idle quietAfter after the last one. The time is simulated.
func TestTurnsInTime(t *testing.T) {
	turn, now := turns{busy: true}, monotime.Time(time.Hour)
	looks := 0
	for range 1000 { // 10 polls per microsecond, each with a packet
		turn.fresh = true
		if turn.due() && turn.udpFirst(now) {
			looks++
		}
		now += monotime.Time(100 * time.Nanosecond)
	}
	if want := int(100 * time.Microsecond / lookEvery); looks != want {
		t.Errorf("%d looks in 1000 busy polls of 100 µs, not %d", looks, want)
	}
	polls := 0
	for last := now; turn.busy && polls < 1000; polls++ {
		now += monotime.Time(time.Microsecond)
		if turn.due() {
			turn.udpFirst(now)
		}
		if now.Sub(last) < quietAfter-time.Microsecond && !turn.busy {
			t.Fatalf("idle after %v", now.Sub(last))
		}
	}
	if most := int(quietAfter/time.Microsecond) + clockEvery; polls > most {
		t.Errorf("idle after %d empty polls of a microsecond, more than %d", polls, most)
	}
}

// TestTurns: the socket is looked at by each RxBurst while nothing comes over shared
// memory, and by the first one after a Wait.
func TestTurns(t *testing.T) {
	needShared(t)
	c := listen(t, "127.0.0.1:0", meeting(t))
	pkts := make([]transport.RxPacket, 4)
	looks := func(polls int, before func()) uint64 {
		udp, _ := c.StatsOf()
		for range polls {
			before()
			if _, err := c.RxBurst(pkts); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := c.StatsOf()
		return after.RxCalls - udp.RxCalls
	}
	if n := looks(100, func() {}); n != 100 {
		t.Errorf("%d looks at the socket in 100 idle polls", n)
	}
	self := c.shm.LocalAddr()
	busy := func() { send(t, c, self, "x") }
	if n := looks(20, busy); n < 1 { // how often, with time passing: TestTurnsInTime
		t.Error("no look at the socket in 20 polls, from an idle one on")
	}
	c.turns = turns{busy: true} // shortly after a look at the clock
	if n := looks(1, func() {}); n != 0 {
		t.Errorf("%d looks at the socket in one busy poll", n)
	}
	if err := c.Wait(0); err != nil {
		t.Fatal(err)
	}
	if n := looks(1, func() {}); n != 1 {
		t.Errorf("%d looks at the socket in the first poll after Wait", n)
	}
	busy()
	looks(1, func() {})
	for end := time.Now().Add(patience); c.turns.busy && time.Now().Before(end); {
		looks(1, func() {})
	}
	if n := looks(10, func() {}); n != 10 {
		t.Errorf("%d looks at the socket in 10 polls after shared memory fell silent", n)
	}
}

func TestNoAllocation(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	a, b := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", cfg)
	shared, err := a.Resolve(b.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	items := []transport.TxItem{{Dst: shared, Head: make([]byte, 32)},
		{Dst: b.LocalAddr(), Head: make([]byte, 32)}, {Dst: shared, Head: make([]byte, 32)}}
	pkts := make([]transport.RxPacket, 16)
	round := func() {
		for got := 0; got < len(items); {
			if got == 0 {
				if n, err := a.TxBurst(items); n != len(items) || err != nil {
					t.Fatalf("TxBurst = %d, %v", n, err)
				}
			}
			n, err := b.RxBurst(pkts)
			if err != nil {
				t.Fatal(err)
			}
			if got += n; got < len(items) && n == 0 {
				if err := b.Wait(time.Second); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
