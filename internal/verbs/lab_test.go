package verbs

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
)

// patience is how long a test waits for an event before it fails.
const patience = 10 * time.Second

// needDevices returns the names of two devices that reach each other, those of
// scripts/rdma-lab. Elsewhere the test is skipped.
func needDevices(t testing.TB) (a, b string) {
	t.Helper()
	names, err := Devices()
	if slices.Contains(names, "rxe0") && slices.Contains(names, "rxe1") {
		return "rxe0", "rxe1"
	}
	if os.Getenv("RDMA_LAB") != "" {
		t.Fatalf("devices %v, %v, and this is the lab", names, err)
	}
	t.Skipf("no devices rxe0 and rxe1 (%v): see scripts/rdma-lab", err)
	return
}

// must returns v, and fails the test if there is an error.
func must[V any](t testing.TB) func(v V, err error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func closeIn(t testing.TB, what string, c interface{ Close() error }) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close of %s: %v", what, err)
		}
	})
}

// side is one device with a queue pair and registered memory.
type side struct {
	t      testing.TB
	dev    *Device
	gid    GIDEntry
	pd     *PD
	mem    []byte
	mr     *MR
	ch     *Channel
	send   *CQ
	recv   *CQ
	qp     *QP
	inline int
}

const depth = 128

// open opens a device and makes a queue pair of a type, in state RESET.
func open(t testing.TB, name string, kind QPType) *side {
	t.Helper()
	s := &side{t: t, dev: must[*Device](t)(Open(name))}
	closeIn(t, "device", s.dev)
	for _, g := range must[[]GIDEntry](t)(s.dev.GIDs(1)) {
		if g.GID.Is4() {
			s.gid = g
		}
	}
	if s.gid.Type != "RoCE v2" || s.gid.Iface == "" {
		t.Fatalf("%s has no IPv4 GID of RoCE v2: %+v", name, s.gid)
	}
	s.pd = must[*PD](t)(s.dev.AllocPD())
	closeIn(t, "protection domain", s.pd)
	s.mem = must[[]byte](t)(hugemem.AllocPlain(1 << 20))
	t.Cleanup(func() { _ = hugemem.Free(s.mem) })
	s.mr = must[*MR](t)(s.pd.Register(s.mem, LocalWrite|RemoteWrite|RemoteRead))
	closeIn(t, "memory region", s.mr)
	s.ch = must[*Channel](t)(s.dev.CreateChannel())
	closeIn(t, "channel", s.ch)
	s.send = must[*CQ](t)(s.dev.CreateCQ(depth, nil))
	closeIn(t, "send queue", s.send)
	s.recv = must[*CQ](t)(s.dev.CreateCQ(depth, s.ch))
	closeIn(t, "receive queue", s.recv)
	cfg := QPConfig{Type: kind, SendCQ: s.send, RecvCQ: s.recv, MaxSend: depth, MaxRecv: depth,
		MaxInline: 64}
	s.qp = must[*QP](t)(s.pd.CreateQP(&cfg))
	closeIn(t, "queue pair", s.qp)
	s.inline = cfg.MaxInline
	return s
}

// way is how s reaches p.
func (s *side) way(p *side) AHAttr {
	site := Site{Port: 1, Attr: PortAttr{LinkLayer: Ethernet}, GID: s.gid}
	return site.Way(p.gid.GID, 0)
}

const qkey = 0x1234567

// psn of both sides: one is about to wrap.
var psn = [2]uint32{0xFFFFFF, 77}

// pair opens two sides that are ready to send to each other.
func pair(t testing.TB, kind QPType) (a, b *side) {
	t.Helper()
	na, nb := needDevices(t)
	a, b = open(t, na, kind), open(t, nb, kind)
	for i, x := range [][2]*side{{a, b}, {b, a}} {
		s, p := x[0], x[1]
		var err error
		if kind == UD {
			err = s.qp.Open(1, qkey)
		} else {
			err = s.qp.Connect(&Link{To: s.way(p), QPN: p.qp.Num(), MTU: 1024, Reads: 16,
				PSN: psn[i], PeerPSN: psn[1-i], Access: RemoteWrite | RemoteRead})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// piece is n bytes of the side's memory from offset on.
func (s *side) piece(offset, n int) Piece {
	return Piece{Addr: s.mr.Base() + uint64(offset), Len: uint32(n), LKey: s.mr.LKey()}
}

// post posts receive requests of 4 KiB each for the memory from the middle on.
func (s *side) post(n int) {
	s.t.Helper()
	var wr []RecvWR
	for i := range n {
		wr = append(wr, RecvWR{ID: uint64(i), Piece: s.piece(1<<19+i*4096, 4096)})
	}
	if got, err := s.qp.PostRecv(wr); got != n || err != nil {
		s.t.Fatalf("PostRecv of %d = %d, %v", n, got, err)
	}
}

func (s *side) postSend(wr ...SendWR) {
	s.t.Helper()
	if got, err := s.qp.PostSend(wr); got != len(wr) || err != nil {
		s.t.Fatalf("PostSend of %d = %d, %v", len(wr), got, err)
	}
}

// completions waits for n completions of cq.
func completions(t testing.TB, cq *CQ, n int) []WC {
	t.Helper()
	all := make([]WC, n)
	got := 0
	for end := time.Now().Add(patience); got < n; {
		k, err := cq.Poll(all[got:])
		if err != nil {
			t.Fatal(err)
		}
		if got += k; k == 0 && time.Now().After(end) {
			t.Fatalf("%d of %d completions", got, n)
		}
	}
	return all
}
