package verbs

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
)

// connected runs a test over RC and over UC.
func connected(t *testing.T, test func(t *testing.T, kind QPType, a, b *side)) {
	for name, kind := range map[string]QPType{"RC": RC, "UC": UC} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, kind)
			test(t, kind, a, b)
		})
	}
}

// await waits until the memory of s holds want.
func (s *side) await(offset int, want string) {
	s.t.Helper()
	for end := time.Now().Add(patience); string(s.mem[offset:offset+len(want)]) != want; {
		if time.Now().After(end) {
			s.t.Fatalf("memory at %d is %q, want %q", offset, s.mem[offset:offset+len(want)], want)
		}
		runtime.Gosched()
	}
}

// write is an inline WRITE of text to an offset of b's memory.
func (s *side) write(b *side, offset int, text string) SendWR {
	copy(s.mem, text)
	return SendWR{Opcode: OpWrite, Flags: Inline, Num: 1, Pieces: [2]Piece{s.piece(0, len(text))},
		Remote: b.mr.Base() + uint64(offset), RKey: b.mr.RKey()}
}

// TestWriteList posts a list of inline WRITEs, of which the last alone is signaled. Each list is
// from the same memory: inline data is taken when it is posted.
func TestWriteList(t *testing.T) {
	connected(t, func(t *testing.T, _ QPType, a, b *side) {
		const lists, list = 6, depth / 2
		for l := range lists {
			wr := make([]SendWR, list)
			for i := range wr {
				binary.LittleEndian.PutUint64(a.mem[8*i:], uint64(1+l*list+i))
				wr[i] = SendWR{ID: uint64(i), Opcode: OpWrite, Flags: Inline, Num: 1,
					Pieces: [2]Piece{{Addr: a.mr.Base() + uint64(8*i), Len: 8}},
					Remote: b.mr.Base() + uint64(8*(l*list+i)), RKey: b.mr.RKey()}
			}
			wr[list-1].Flags |= Signaled
			a.postSend(wr...)
			if wc := completions(t, a.send, 1)[0]; wc.Status != StatusOK || wc.ID != list-1 {
				t.Fatalf("list %d: %+v", l, wc)
			}
		}
		last := binary.LittleEndian.AppendUint64(nil, lists*list)
		b.await(8*(lists*list-1), string(last))
		for i := range lists * list {
			if v := binary.LittleEndian.Uint64(b.mem[8*i:]); v != uint64(i+1) {
				t.Fatalf("word %d is %d", i, v)
			}
		}
		if n, err := a.send.Poll(make([]WC, 4)); n != 0 || err != nil {
			t.Errorf("an unsignaled WRITE completed: %d, %v", n, err)
		}
	})
}

// TestReadList has 16 READs under way at a time.
func TestReadList(t *testing.T) {
	a, b := pair(t, RC)
	const list = 16
	for i := range 4 * list {
		binary.LittleEndian.PutUint64(b.mem[64*i:], uint64(i+1))
	}
	for l := range 4 {
		wr := make([]SendWR, list)
		for i := range wr {
			wr[i] = SendWR{Opcode: OpRead, Num: 1, Pieces: [2]Piece{a.piece(8*(l*list+i), 8)},
				Remote: b.mr.Base() + uint64(64*(l*list+i)), RKey: b.mr.RKey()}
		}
		wr[list-1].Flags = Signaled
		a.postSend(wr...)
		if wc := completions(t, a.send, 1)[0]; wc.Status != StatusOK {
			t.Fatalf("list %d: %+v, %s", l, wc, StatusText(wc.Status))
		}
	}
	for i := range 4 * list {
		if v := binary.LittleEndian.Uint64(a.mem[8*i:]); v != uint64(i+1) {
			t.Fatalf("word %d is %d", i, v)
		}
	}
}

// regions are parts of a side's memory with rights of their own.
type regions struct{ narrow, local *MR }

// forbidden makes WRITEs that must change nothing.
var forbidden = map[string]func(wr *SendWR, r regions){
	"wrong key":    func(wr *SendWR, _ regions) { wr.RKey ^= 0x555500 },
	"before":       func(wr *SendWR, r regions) { aim(wr, r.narrow, -1) },
	"past the end": func(wr *SendWR, r regions) { aim(wr, r.narrow, 4096-4) },
	"not remote":   func(wr *SendWR, r regions) { aim(wr, r.local, 0) },
}

func aim(wr *SendWR, m *MR, offset int) {
	wr.RKey, wr.Remote = m.RKey(), m.Base()+uint64(offset)
}

// TestForbidden: what a peer's key does not allow changes nothing. Over UC the WRITE is dropped,
// and the next one arrives; over RC it ends the connection.
func TestForbidden(t *testing.T) {
	for name := range forbidden {
		t.Run(name, func(t *testing.T) {
			connected(t, func(t *testing.T, kind QPType, a, b *side) { forbid(t, kind, a, b, name) })
		})
	}
}

func forbid(t *testing.T, kind QPType, a, b *side, name string) {
	var r regions
	r.narrow = must[*MR](t)(b.pd.Register(b.mem[4096:8192], LocalWrite|RemoteWrite))
	closeIn(t, "narrow region", r.narrow)
	r.local = must[*MR](t)(b.pd.Register(b.mem[8192:12288], LocalWrite))
	closeIn(t, "local region", r.local)
	wr := a.write(b, 0, "forbidden")
	wr.Flags |= Signaled
	forbidden[name](&wr, r)
	a.postSend(wr)
	wc := completions(t, a.send, 1)[0]
	if kind == RC {
		if wc.Status != StatusAccess {
			t.Errorf("%+v, %s", wc, StatusText(wc.Status))
		}
	} else {
		a.postSend(a.write(b, 16384, "next"))
		b.await(16384, "next")
	}
	for i, v := range b.mem[:16384] {
		if v != 0 {
			t.Fatalf("byte %d changed", i)
		}
	}
}

// TestFindSite looks the lab's devices up by their addresses.
func TestFindSite(t *testing.T) {
	na, nb := needDevices(t)
	for _, c := range []struct{ device, host, want string }{
		{"", "10.9.0.1", na}, {"", "10.9.0.2", nb}, {nb, "", nb}, {"", "0.0.0.0", na},
		{na, "10.9.0.2", ""}, {"none", "", ""}, {"", "10.9.0.3", ""},
	} {
		var host netip.Addr
		if c.host != "" {
			host = netip.MustParseAddr(c.host)
		}
		s, err := FindSite(c.device, host)
		switch {
		case c.want == "" && !errors.Is(err, syscall.ENODEV):
			t.Errorf("FindSite(%q, %q) = %+v, %v", c.device, c.host, s, err)
		case c.want != "" && (err != nil || s.Device != c.want || !s.GID.GID.Is4() || s.Port != 1):
			t.Errorf("FindSite(%q, %q) = %+v, %v", c.device, c.host, s, err)
		}
	}
	if err := Available(); err != nil {
		t.Fatal(err)
	}
}

// TestRemoteAllocatesNothing: lists of WRITEs and READs, and their completions.
func TestRemoteAllocatesNothing(t *testing.T) {
	a, b := pair(t, RC)
	wr, wc := make([]SendWR, 16), make([]WC, 16)
	for i := range wr {
		wr[i] = a.write(b, 64*i, "hello")
		if i%2 == 1 {
			wr[i].Opcode, wr[i].Flags = OpRead, 0
			wr[i].Pieces[0] = a.piece(4096+64*i, 8)
		}
	}
	wr[15].Flags |= Signaled
	n := testing.AllocsPerRun(50, func() {
		if _, err := a.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
		for got := 0; got == 0; {
			k, err := a.send.Poll(wc)
			if err != nil || k > 0 && wc[0].Status != StatusOK {
				t.Fatal(err, wc[0])
			}
			got += k
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a list", n)
	}
}

// TestClosedRegion: a peer may write on when a region has been closed.
func TestClosedRegion(t *testing.T) {
	a, b := pair(t, UC)
	mem := must[[]byte](t)(hugemem.AllocPlain(4096))
	mr := must[*MR](t)(b.pd.Register(mem, LocalWrite|RemoteWrite))
	wr := a.write(b, 0, "late")
	wr.RKey, wr.Remote = mr.RKey(), mr.Base()
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	a.postSend(wr, a.write(b, 100, "next"))
	b.await(100, "next")
	if mem[0] != 0 {
		t.Error("a WRITE reached a region that was closed")
	}
	if err := hugemem.Free(mem); err != nil {
		t.Fatal(err)
	}
}
