package lending

import (
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/transport"
)

// ways are how a lent packet can leave.
var ways = []struct {
	name  string
	cfg   Config
	leave func(r *rig)
	flush bool
}{
	{"delay", Config{Delay: 10}, func(r *rig) { r.clock.advance(10) }, false},
	{"RxBurst", Config{Calls: 1}, func(r *rig) { r.RxBurst(nil) }, false},
	{"TxBurst", Config{Calls: 1}, func(r *rig) { r.TxBurst(nil) }, false},
	{"Wait", Config{Calls: 100}, func(r *rig) { r.Wait(0) }, false},
	{"PrepareWait", Config{Calls: 100}, func(r *rig) { r.PrepareWait() }, false},
	{"Flush", Config{Delay: 10}, func(r *rig) { r.Flush() }, true},
}

// TestChanged: a byte that changes anywhere in a lent packet is a violation, reported once,
// with the packet's particulars, however the packet leaves.
func TestChanged(t *testing.T) {
	for _, way := range ways {
		for _, x := range []struct {
			name   string
			head   int // bytes of the packet in Head
			at     []int
			offset int
			rest   bool
		}{
			{"first byte", 24, []int{0}, 0, false},
			{"header", 24, []int{23, 5}, 5, false},
			{"Data in front", 3, []int{3}, 3, false},
			{"first byte of Data", 24, []int{24}, FrontBytes, true},
			{"behind the header in Head", 100, []int{99}, FrontBytes, true},
			{"last byte", 24, []int{299}, FrontBytes, true},
			{"header and data", 24, []int{7, 200}, 7, true},
		} {
			t.Run(way.name+"/"+x.name, func(t *testing.T) {
				r := newRig(t, way.cfg)
				r.send(2, 1)
				p := make([]byte, 300)
				item := transport.TxItem{Dst: addr(9), Head: p[:x.head], Data: p[x.head:]}
				if n, err := r.TxBurst([]transport.TxItem{item}); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				r.fine()
				want := Violation{Dst: addr(9), Packet: 2, Size: 300, Rest: x.rest}
				want.Flushed = way.flush
				for _, i := range x.at {
					if p[i] = 0xAB; i < FrontBytes {
						want.Now[i] = 0xAB
					}
				}
				way.leave(r)
				if len(r.bad) != 1 || r.bad[0] != want || r.bad[0].Offset() != x.offset {
					t.Fatalf("violations %+v, want %+v at %d", r.bad, want, x.offset)
				}
				if c := r.Counts(); c.Violations != 1 || c.Lent != 0 {
					t.Errorf("counts %+v", c)
				}
				if last := r.under.sent[2].data; last[x.at[0]] != 0xAB {
					t.Error("not the bytes of now were sent")
				}
			})
		}
	}
}

// TestUnchanged: a packet may change once it has left, and one that TxBurst did not take.
func TestUnchanged(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			cfg := way.cfg
			cfg.Ring = 2
			r := newRig(t, cfg)
			items := r.send(2, 1)
			refused := transport.TxItem{Dst: addr(1), Head: makeContent(7)}
			if way.name != "TxBurst" && way.name != "RxBurst" {
				if n, err := r.TxBurst([]transport.TxItem{refused}); n != 0 || err != nil {
					t.Fatal(n, err)
				}
			}
			clear(refused.Head)
			items[0].Dst = addr(5) // the items themselves are the caller's at once
			way.leave(r)
			r.left(2)
			for _, it := range items {
				clear(it.Head)
				clear(it.Data)
			}
			r.Flush()
			r.clock.advance(time.Hour)
			r.fine()
		})
	}
}

// TestReportedOnce: a packet that changed and then has to stay is no news when it is looked
// at again, unless it changes again.
func TestReportedOnce(t *testing.T) {
	r := newRig(t, Config{Calls: 1})
	items := r.send(3, 1)
	r.under.room = 0
	items[1].Data[0]++
	for range 3 {
		r.RxBurst(nil)
	}
	if len(r.bad) != 1 || r.bad[0].Packet != 1 {
		t.Fatalf("violations %v", r.bad)
	}
	items[1].Data[0]++
	r.RxBurst(nil)
	r.Flush()
	if len(r.bad) != 2 || r.bad[1].Packet != 1 {
		t.Fatalf("violations %v", r.bad)
	}
}

// TestFreedAndReused: the buffer of a message is freed while a packet of it is lent, and
// serves the next message.
func TestFreedAndReused(t *testing.T) {
	const perPacket = 1000
	for _, pkt := range []int{0, 1} {
		pool, err := msgbuf.NewPool(msgbuf.Config{})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, Config{Delay: 10})
		first, err := pool.Alloc(2 * perPacket)
		if err != nil {
			t.Fatal(err)
		}
		copy(first.Data(), strings.Repeat("first", 400))
		head, data := first.Packet(pkt, perPacket)
		r.TxBurst([]transport.TxItem{{Dst: addr(9), Head: head, Data: data}})
		first.Free()
		second, err := pool.Alloc(2 * perPacket)
		if err != nil {
			t.Fatal(err)
		}
		copy(second.Data(), strings.Repeat("other", 400))
		r.clock.advance(10)
		if len(r.bad) != 1 || !r.bad[0].Rest || r.bad[0].Gone {
			t.Errorf("packet %d: violations %v", pkt, r.bad)
		}
		second.Free()
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestInline: a short Head is copied, longer ones and Data are lent.
func TestInline(t *testing.T) {
	r := newRig(t, Config{Delay: 10, Inline: 24})
	p := make([]byte, 200)
	items := []transport.TxItem{
		{Dst: addr(1), Head: p[:24], Data: p[24:80]},
		{Dst: addr(1), Head: p[80:90]},
		{Dst: addr(1), Head: p[100:125]},
	}
	if n, err := r.TxBurst(items); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	p[0], p[89] = 1, 1
	r.clock.advance(10)
	r.fine()
	for i, sent := range r.under.sent {
		if strings.Trim(string(sent.data), "\x00") != "" {
			t.Errorf("packet %d was sent as it is now", i)
		}
	}
	clear(p)
	r.TxBurst(items)
	p[79], p[100] = 1, 1
	r.clock.advance(10)
	if len(r.bad) != 2 || r.bad[0].Packet != 3 || r.bad[1].Packet != 5 {
		t.Errorf("violations %v", r.bad)
	}
}

// TestClosed: what is lent at Close is dropped, and never read again.
func TestClosed(t *testing.T) {
	for _, way := range ways {
		r := newRig(t, way.cfg)
		items := r.send(4, 1)
		if err := r.Close(); err != nil || !r.under.closed {
			t.Fatal(err)
		}
		for _, it := range items {
			clear(it.Data)
		}
		way.leave(r)
		r.fine()
		if n := len(r.under.sent); n != 0 || r.Counts().Dropped != 4 || r.Counts().Lent != 0 {
			t.Errorf("%s: %d packets sent, %+v", way.name, n, r.Counts())
		}
	}
}

// TestPanics: without Report a violation is a panic.
func TestPanics(t *testing.T) {
	tr, err := New(&fake{room: -1}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := makeContent(1)
	tr.TxBurst([]transport.TxItem{{Dst: addr(9), Head: p}})
	p[0]++
	defer func() {
		text, _ := recover().(string)
		if !strings.Contains(text, "packet 0 of 139 bytes to [::1]:9 changed") {
			t.Errorf("panic with %q", text)
		}
		tr.Flush() // the transport works on
	}()
	tr.Flush()
}

// TestText: a violation says in one line what is known.
func TestText(t *testing.T) {
	v := Violation{Dst: addr(9), Packet: 3, Size: 26, Then: [24]byte{1, 2}}
	v.Now = v.Then
	v.Rest = true
	rest := strings.Repeat("00", 22) + ", and differs behind that"
	if s := v.String(); !strings.HasSuffix(s, "began with 0102"+rest) {
		t.Error(s)
	}
	v.Size, v.Now[1], v.Rest, v.Flushed = 2, 3, false, true
	if s := v.String(); !strings.HasSuffix(s, "began with 0102, now with 0103 (found by Flush)") {
		t.Error(s)
	}
	v.Rest = true
	if s := v.String(); !strings.Contains(s, "now with 0103 and differs behind that too") {
		t.Error(s)
	}
}
