package pcap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// packets returns n packets to dst that hold their number.
func packets(dst transport.Addr, n int) (list []transport.TxItem) {
	for i := range n {
		list = append(list, transport.TxItem{Dst: dst,
			Head: binary.BigEndian.AppendUint32(nil, uint32(i)), Data: make([]byte, 100)})
	}
	return list
}

// TestOnlyWhatWasTaken: packets that the transport did not take, and those that can never
// be sent, are not in the capture; an error beside a count changes nothing.
func TestOnlyWhatWasTaken(t *testing.T) {
	var file bytes.Buffer
	c := start(t, &file, Config{})
	broken := errors.New("broken")
	f := &fake{local: addr("10.0.0.1:1"), mtu: 104, take: 4, txErr: broken}
	items := packets(addr("10.0.0.2:2"), 6)
	items[1].Dst = transport.Addr{}
	items[2].Data = make([]byte, 101)
	if n, err := c.Wrap(f).TxBurst(items); n != 4 || err != broken {
		t.Fatalf("TxBurst = %d, %v", n, err)
	}
	f.rxErr, f.rx = broken, []transport.RxPacket{{Data: []byte("x"), From: addr("10.0.0.2:2")}}
	if n, err := c.Wrap(f).RxBurst(make([]transport.RxPacket, 1)); n != 1 || err != broken {
		t.Fatalf("RxBurst = %d, %v", n, err)
	}
	finish(t, c)
	got := read(t, file.Bytes())
	if len(got) != 3 || binary.BigEndian.Uint32(got[0].payload) != 0 ||
		binary.BigEndian.Uint32(got[1].payload) != 3 || string(got[2].payload) != "x" {
		t.Errorf("%+v", got)
	}
}

// gate is a writer that waits until it is opened.
type gate struct {
	file   bytes.Buffer
	begun  chan struct{} // closed when Write was called
	once   sync.Once
	opened chan struct{}
}

func newGate() *gate { return &gate{begun: make(chan struct{}), opened: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.begun) })
	<-g.opened
	return g.file.Write(p)
}

// TestSlowWriter: the traffic goes on, memory does not grow, packets that do not fit are
// counted, and the file is sound.
func TestSlowWriter(t *testing.T) {
	g := newGate()
	c := start(t, g, Config{Buffer: 64 << 10, SnapLen: 1000})
	tr := c.Wrap(newFake("10.0.0.1:1"))
	<-g.begun // the file's header is on its way, and stuck
	items := packets(addr("10.0.0.2:2"), 1000)
	if n, err := tr.TxBurst(items); n != len(items) || err != nil {
		t.Fatal(n, err)
	}
	const size = recordHeader + 42 + 104
	want := Counts{Packets: (64<<10 + 24) / size}
	want.Dropped = 1000 - want.Packets
	if got := c.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	close(g.opened)
	finish(t, c)
	got := read(t, g.file.Bytes())
	if uint64(len(got)) != want.Packets {
		t.Fatalf("%d records, want %d", len(got), want.Packets)
	}
	for i, r := range got {
		if binary.BigEndian.Uint32(r.payload) != uint32(i) {
			t.Fatalf("record %d holds % x", i, r.payload[:4])
		}
	}
	if cap(c.fill) > 64<<10+24 || cap(c.spare) > 64<<10+24 {
		t.Errorf("the buffers grew to %d and %d bytes", cap(c.fill), cap(c.spare))
	}
}

// TestBlock: with Block the capture is complete, whatever the writer's pace.
func TestBlock(t *testing.T) {
	g := newGate()
	c := start(t, g, Config{Buffer: 2000, SnapLen: 1000, Block: true})
	<-g.begun
	done := make(chan struct{})
	const bursts, each = 50, 40
	for range 2 { // two transports, so that each waits while the other makes frames
		tr := c.Wrap(newFake("10.0.0.1:1"))
		go func() {
			defer func() { done <- struct{}{} }()
			for range bursts {
				if n, err := tr.TxBurst(packets(addr("10.0.0.2:2"), each)); n != each || err != nil {
					t.Errorf("TxBurst = %d, %v", n, err)
				}
			}
		}()
	}
	close(g.opened)
	<-done
	<-done
	finish(t, c)
	if got := c.Counts(); got != (Counts{Packets: 2 * bursts * each}) {
		t.Errorf("counts %+v", got)
	}
	seen := map[uint32]int{}
	for _, r := range read(t, g.file.Bytes()) {
		seen[binary.BigEndian.Uint32(r.payload)]++
	}
	for i := range uint32(each) {
		if seen[i] != 2*bursts {
			t.Errorf("packet %d is there %d times", i, seen[i])
		}
	}
}

// TestBlockedCloses: Close frees traffic that waits for the writer.
func TestBlockedCloses(t *testing.T) {
	g := newGate()
	c := start(t, g, Config{Buffer: 2000, SnapLen: 1000, Block: true})
	<-g.begun
	f := newFake("10.0.0.1:1")
	began, done := make(chan struct{}), make(chan struct{})
	f.onTx = func() { close(began) }
	go func() {
		defer close(done)
		_, _ = c.Wrap(f).TxBurst(packets(addr("10.0.0.2:2"), 100))
	}()
	<-began
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	<-done // although the gate is shut
	close(g.opened)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := c.Counts(); got.Dropped == 0 || got.Packets != uint64(len(read(t, g.file.Bytes()))) {
		t.Errorf("counts %+v", got)
	}
}

// failing is a writer that fails after so many bytes, with an error or by taking less.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left < len(p) {
		return f.left, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

// TestBrokenWriter: the capture ends and says why, the traffic goes on.
func TestBrokenWriter(t *testing.T) {
	full := errors.New("disk full")
	for name, x := range map[string]struct {
		w    *failing
		want error
		cfg  Config
	}{
		"at once":     {&failing{0, full}, full, Config{}},
		"later":       {&failing{1000, full}, full, Config{}},
		"short":       {&failing{1000, nil}, io.ErrShortWrite, Config{}},
		"later block": {&failing{1000, full}, full, Config{Block: true, Buffer: 2000, SnapLen: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, x.w, x.cfg)
			f := newFake("10.0.0.1:1")
			tr := c.Wrap(f)
			for range 10 {
				if n, err := tr.TxBurst(packets(addr("10.0.0.2:2"), 10)); n != 10 || err != nil {
					t.Fatalf("TxBurst = %d, %v", n, err)
				}
			}
			<-c.done // the writer fails without our help
			if !errors.Is(c.Err(), x.want) || !errors.Is(tr.Err(), x.want) {
				t.Errorf("Err = %v, %v; want %v", c.Err(), tr.Err(), x.want)
			}
			before := c.Counts()
			f.rx = []transport.RxPacket{{Data: []byte("x"), From: addr("10.0.0.2:2")}}
			if n, err := tr.RxBurst(make([]transport.RxPacket, 1)); n != 1 || err != nil {
				t.Errorf("RxBurst = %d, %v", n, err)
			}
			if n, err := tr.TxBurst(packets(addr("10.0.0.2:2"), 3)); n != 3 || err != nil {
				t.Errorf("TxBurst = %d, %v", n, err)
			}
			if c.Counts() != before {
				t.Errorf("counts went on: %+v, %+v", before, c.Counts())
			}
			for range 2 {
				if err := c.Close(); !errors.Is(err, x.want) {
					t.Errorf("Close = %v, want %v", err, x.want)
				}
			}
			if err := tr.Close(); err != nil || f.closed != 1 {
				t.Errorf("Close of the transport: %v, %d times", err, f.closed)
			}
		})
	}
}

// TestAfterClose: transports outlive the capture.
func TestAfterClose(t *testing.T) {
	var file bytes.Buffer
	c := start(t, &file, Config{Now: func() time.Time { return time.Unix(1, 0) }})
	tr := c.Wrap(newFake("10.0.0.1:1"))
	if _, err := tr.TxBurst(packets(addr("10.0.0.2:2"), 2)); err != nil {
		t.Fatal(err)
	}
	finish(t, c)
	if n, err := tr.TxBurst(packets(addr("10.0.0.2:2"), 3)); n != 3 || err != nil {
		t.Errorf("TxBurst = %d, %v", n, err)
	}
	if n := len(read(t, file.Bytes())); n != 2 || c.Counts() != (Counts{Packets: 2}) {
		t.Errorf("%d records, counts %+v", n, c.Counts())
	}
}

// TestCopies: the capture holds what was in the packets during the call, although their
// memory is used for something else right after it, and before the writer runs.
func TestCopies(t *testing.T) {
	g := newGate()
	c := start(t, g, Config{})
	<-g.begun
	f := newFake("10.0.0.1:1")
	tr := c.Wrap(f)
	head, data, in := []byte("head"), []byte("data"), []byte("input")
	_, _ = tr.TxBurst([]transport.TxItem{{Dst: addr("10.0.0.2:2"), Head: head, Data: data}})
	f.rx = []transport.RxPacket{{Data: in, From: addr("10.0.0.2:2")}}
	_, _ = tr.RxBurst(make([]transport.RxPacket, 1))
	clear(head)
	clear(data)
	clear(in)
	close(g.opened)
	finish(t, c)
	if got := read(t, g.file.Bytes()); len(got) != 2 || string(got[0].payload) != "headdata" ||
		string(got[1].payload) != "input" {
		t.Errorf("%+v", got)
	}
}

func TestAllocations(t *testing.T) {
	c := start(t, io.Discard, Config{})
	for _, peer := range []transport.Addr{addr("10.0.0.2:2"), addr("[2001:db8::2]:2")} {
		f := newFake("10.0.0.1:1")
		tr := c.Wrap(f)
		items, rx := packets(peer, 32), make([]transport.RxPacket, 32)
		for range 32 {
			f.rx = append(f.rx, transport.RxPacket{Data: make([]byte, 8952), From: peer})
		}
		if n := testing.AllocsPerRun(200, func() {
			_, _ = tr.TxBurst(items)
			_, _ = tr.RxBurst(rx)
		}); n != 0 {
			t.Errorf("%v: %v allocations per two bursts", peer, n)
		}
	}
}

func TestConfig(t *testing.T) {
	for field, cfg := range map[string]Config{
		"SnapLen": {SnapLen: MinSnapLen - 1}, "SnapLen ": {SnapLen: MaxSnapLen + 1},
		"SnapLen  ": {SnapLen: -1},
		"Buffer":    {Buffer: -1}, "Buffer ": {Buffer: MaxSnapLen + recordHeader - 1},
		"Buffer  ": {SnapLen: 100, Buffer: 115},
	} {
		var bad *ConfigError
		if _, err := New(io.Discard, cfg); !errors.As(err, &bad) ||
			bad.Field != string(bytes.TrimSpace([]byte(field))) {
			t.Errorf("%+v: %v", cfg, err)
		}
		name := filepath.Join(t.TempDir(), "x")
		if _, err := Create(name, cfg); !errors.As(err, &bad) {
			t.Errorf("Create, %+v: %v", cfg, err)
		}
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a wrong Config made a file: %v", err)
		}
	}
}

func TestCreate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.pcap")
	if err := os.WriteFile(name, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Create(name, Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Wrap(newFake("10.0.0.1:1")).TxBurst(packets(addr("10.0.0.2:2"), 7))
	if _, err := Create(name, Config{}); !errors.Is(err, ErrInUse) ||
		!strings.Contains(err.Error(), name) {
		t.Errorf("a second capture to the file: %v", err)
	}
	for range 2 {
		finish(t, c)
	}
	file, err := os.ReadFile(name)
	if err != nil || len(read(t, file)) != 7 {
		t.Errorf("%v, %d bytes", err, len(file))
	}
	fresh := filepath.Join(t.TempDir(), "y.pcap")
	if c, err = Create(fresh, Config{}); err != nil {
		t.Fatal(err)
	}
	finish(t, c)
	if info, err := os.Stat(fresh); err != nil ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "none", "x"), Config{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("Create in no folder: %v", err)
	}
}
