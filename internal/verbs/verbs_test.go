package verbs

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
)

// TestMissing: without cgo, header or library every way in says what is missing.
func TestMissing(t *testing.T) {
	err := Available()
	if err == nil {
		if _, err := Devices(); err != nil {
			t.Errorf("Devices: %v", err)
		}
		return
	}
	if os.Getenv("RDMA_LAB") != "" {
		t.Fatalf("%v, and this is the lab", err)
	}
	for _, e := range []error{err, second(Devices()), second(Open("rxe0"))} {
		m, ok := errors.AsType[*MissingError](e)
		if !ok || m.What == "" || m.Mend == "" {
			t.Errorf("%v is no MissingError that says what to do", e)
		}
	}
}

func second[V any](_ V, err error) error { return err }

func TestNoSuchDevice(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"", "none", "rxe0\x00"} {
		if d, err := Open(name); !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.ENOSYS) ||
			d != nil {
			t.Errorf("Open(%q): %v", name, err)
		}
	}
}

func TestPort(t *testing.T) {
	name, _ := needDevices(t)
	d := must[*Device](t)(Open(name))
	closeIn(t, "device", d)
	if a := must[DeviceAttr](t)(d.Attr()); a.Ports != 1 || a.VendorID != SoftVendor || a.MaxQP == 0 ||
		a.MaxWR < depth {
		t.Errorf("device %+v", a)
	}
	p := must[PortAttr](t)(d.Port(1))
	if p.State != PortActive || p.LinkLayer != Ethernet || p.ActiveMTU != 4096 || p.GIDs == 0 {
		t.Errorf("port %+v", p)
	}
	for _, port := range []int{-1, 0, 2, 255, 256} {
		if _, err := d.Port(port); err == nil {
			t.Errorf("there is a port %d", port)
		}
	}
	if node := d.Node(); second(os.Stat(node)) != nil {
		t.Errorf("node %q: %v", node, second(os.Stat(node)))
	}
}

// TestUD sends datagrams, inline and in two pieces, and looks at what the receiver is told.
func TestUD(t *testing.T) {
	a, b := pair(t, UD)
	ah := must[*AH](t)(a.pd.CreateAH(a.way(b)))
	closeIn(t, "address handle", ah)
	b.post(2)
	copy(a.mem, "small")
	copy(a.mem[4096:], bytes.Repeat([]byte("large"), 600))
	to := SendWR{AH: ah.Handle(), QPN: b.qp.Num(), QKey: qkey, Opcode: OpSend}
	small, large := to, to
	small.ID, small.Flags, small.Num, small.Pieces[0] = 1, Inline, 1, Piece{Addr: a.mr.Base(), Len: 5}
	large.ID, large.Flags, large.Num = 2, Signaled, 2
	large.Pieces = [2]Piece{a.piece(4096, 1000), a.piece(5096, 2000)}
	a.postSend(small, large)
	for i, want := range []string{"small", string(a.mem[4096:7096])} {
		wc := completions(t, b.recv, 1)[0]
		data := b.mem[1<<19+4096*i+40:][:wc.Len-40]
		if wc.ID != uint64(i) || wc.Status != StatusOK || wc.Opcode != WCRecv || wc.SrcQP != a.qp.Num() ||
			wc.Flags&WCGRH == 0 || string(data) != want {
			t.Errorf("datagram %d: %+v, %d bytes", i, wc, len(data))
		}
	}
	if wc := completions(t, a.send, 1)[0]; wc.ID != 2 || wc.Status != StatusOK {
		t.Errorf("sender: %+v", wc)
	}
	if n, err := a.send.Poll(make([]WC, 4)); n != 0 || err != nil {
		t.Errorf("an unsignaled SEND completed: %d, %v", n, err)
	}
}

// TestConnected does SEND, WRITE, WRITE_WITH_IMM and, over RC, READ.
func TestConnected(t *testing.T) {
	for name, kind := range map[string]QPType{"RC": RC, "UC": UC} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, kind)
			b.post(3)
			copy(a.mem, "0123456789")
			wr := SendWR{ID: 1, Opcode: OpSend, Flags: Signaled, Num: 1, Pieces: [2]Piece{a.piece(0, 10)}}
			write, imm := wr, wr
			write.ID, write.Opcode, write.Remote, write.RKey = 2, OpWrite, b.mr.Base()+100, b.mr.RKey()
			imm.ID, imm.Opcode, imm.Remote, imm.RKey, imm.Imm = 3, OpWriteImm, b.mr.Base()+200,
				b.mr.RKey(), 77
			a.postSend(wr, write, imm)
			got := completions(t, b.recv, 2)
			if got[0].Opcode != WCRecv || got[0].Len != 10 || string(b.mem[1<<19:][:10]) != "0123456789" {
				t.Errorf("SEND: %+v", got[0])
			}
			if got[1].Opcode != WCRecvImm || got[1].Imm != 77 || got[1].Flags&WCWithImm == 0 {
				t.Errorf("WRITE_WITH_IMM: %+v", got[1])
			}
			for _, at := range []int{100, 200} {
				if string(b.mem[at:at+10]) != "0123456789" {
					t.Errorf("written at %d: %q", at, b.mem[at:at+10])
				}
			}
			for i, wc := range completions(t, a.send, 3) {
				if wc.Status != StatusOK || wc.ID != uint64(i+1) {
					t.Errorf("completion %d: %+v, %s", i, wc, StatusText(wc.Status))
				}
			}
			if kind == RC {
				read(t, a, b)
			}
		})
	}
}

// read does a READ, and one with a wrong key, which ends the connection.
func read(t *testing.T, a, b *side) {
	copy(b.mem[300:], "remote")
	wr := SendWR{ID: 4, Opcode: OpRead, Flags: Signaled, Num: 1, Pieces: [2]Piece{a.piece(500, 6)},
		Remote: b.mr.Base() + 300, RKey: b.mr.RKey()}
	a.postSend(wr)
	if wc := completions(t, a.send, 1)[0]; wc.Status != StatusOK ||
		string(a.mem[500:506]) != "remote" {
		t.Errorf("READ: %+v, %q", wc, a.mem[500:506])
	}
	wr.RKey ^= 0x555500
	a.postSend(wr)
	if wc := completions(t, a.send, 1)[0]; wc.Status == StatusOK {
		t.Error("a READ with a wrong key succeeds")
	}
}

// TestChannel: an armed queue makes the descriptor readable, once per arming.
func TestChannel(t *testing.T) {
	a, b := pair(t, UD)
	ah := must[*AH](t)(a.pd.CreateAH(a.way(b)))
	closeIn(t, "address handle", ah)
	b.post(4)
	wr := SendWR{AH: ah.Handle(), QPN: b.qp.Num(), QKey: qkey, Opcode: OpSend, Flags: Inline, Num: 1,
		Pieces: [2]Piece{a.piece(0, 8)}}
	for range 2 {
		if err := b.recv.Arm(); err != nil {
			t.Fatal(err)
		}
		a.postSend(wr, wr)
		events := 0
		for end := time.Now().Add(patience); events == 0; events = b.ch.Drain() {
			if time.Now().After(end) {
				t.Fatal("no event")
			}
		}
		completions(t, b.recv, 2)
		if events += b.ch.Drain(); events != 1 {
			t.Errorf("%d events", events)
		}
	}
}

// TestExhaustion makes queue pairs until there are no more, and some again after they are freed.
func TestExhaustion(t *testing.T) {
	name, _ := needDevices(t)
	s := open(t, name, UD)
	attr := must[DeviceAttr](t)(s.dev.Attr())
	cfg := QPConfig{Type: UD, SendCQ: s.send, RecvCQ: s.recv, MaxSend: int(attr.MaxWR) + 1, MaxRecv: 1}
	if q, err := s.pd.CreateQP(&cfg); err == nil {
		q.Close()
		t.Error("a queue longer than the device's limit")
	} else if e, ok := errors.AsType[*Error](err); !ok || e.Op != "ibv_create_qp" {
		t.Errorf("error %v", err)
	}
	if _, err := s.pd.Register(nil, LocalWrite); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Register of nothing: %v", err)
	}
	mem := must[[]byte](t)(hugemem.AllocPlain(4096))
	if err := hugemem.Free(mem); err != nil {
		t.Fatal(err)
	}
	if m, err := s.pd.Register(mem, LocalWrite); err == nil {
		m.Close()
		t.Error("memory that is not mapped was registered")
	}
}
