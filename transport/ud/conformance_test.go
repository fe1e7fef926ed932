//go:build linux

package ud

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/conformance/decorated"
)

// TestConformance runs the suite over the veth pair between two devices.
func TestConformance(t *testing.T) {
	needLab(t)
	for name, cfg := range map[string]Config{
		"default": {},
		"copies":  {Copy: true, MaxInline: -1},
		"small":   {RecvRing: 64, SendRing: 16, ECN: true},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(tb testing.TB) (a, b transport.Transport) {
				x, y := pairOf(tb, cfg)
				introduce(tb, y, x)
				introduce(tb, x, x)
				return x, y
			}
			conformance.Run(t, open, conformance.WithPatience(5*time.Second))
			if name == "default" {
				decorated.Run(t, open, conformance.WithPatience(5*time.Second))
			}
		})
	}
}

// registered has the adapter read packets out of memory that it knows: it copies each into
// such memory first, which it overwrites after Flush.
type registered struct {
	*Conn
	mem  []byte
	used int
}

func (r *registered) TxBurst(items []transport.TxItem) (int, error) {
	mine := make([]transport.TxItem, 0, len(items))
	for _, it := range items {
		if len(it.Data) == 0 || r.used+len(it.Data) > len(r.mem) {
			mine = append(mine, it)
			continue
		}
		n := copy(r.mem[r.used:], it.Data)
		it.Data = r.mem[r.used : r.used+n]
		r.used += n
		mine = append(mine, it)
	}
	return r.Conn.TxBurst(mine)
}

func (r *registered) Flush() {
	r.Conn.Flush()
	clear(r.mem[:r.used])
	r.used = 0
}

// TestZeroCopy sends packets out of registered memory: none changes although the memory is
// overwritten as soon as Flush returns.
func TestZeroCopy(t *testing.T) {
	x, y := pairOf(t, Config{})
	mem, err := hugemem.AllocPlain(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hugemem.Free(mem) }) // after the Conn is closed
	if key, err := x.Register(mem); err != nil || key == 0 {
		t.Fatal(err)
	}
	r := &registered{Conn: x, mem: mem}
	data := make([]byte, 4000)
	for round := range 200 {
		var items []transport.TxItem
		for i := range 32 {
			for k := range data {
				data[k] = byte(round + i + k)
			}
			size := 10 + (round*32+i)*37%3990
			items = append(items, transport.TxItem{Dst: y.LocalAddr(), Head: data[:10],
				Data: append([]byte(nil), data[10:size]...)})
		}
		transmit(t, r, items...)
		if x.tx.direct == 0 {
			t.Fatal("nothing was sent without a copy")
		}
		r.Flush()
		for i, p := range receive(t, y, 32) {
			want := 10 + (round*32+i)*37%3990
			if len(p.Data) != want {
				t.Fatalf("packet %d has %d bytes, want %d", i, len(p.Data), want)
			}
			for k, b := range p.Data {
				if k >= 10 && b != byte(round+i+k) {
					t.Fatalf("round %d packet %d byte %d is %d", round, i, k, b)
				}
			}
		}
	}
	x.Unregister(mem, 0)
	if _, ok := x.tx.regions.find(uint64(0), 1); ok || len(x.tx.regions.all()) != 0 {
		t.Error("the region is still there")
	}
}
