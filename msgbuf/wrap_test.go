package msgbuf

import (
	"bytes"
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

// TestWrap: the packets of a buffer around foreign memory have the bytes of that memory, each once,
// and a header of their own each; Free leaves the memory as it is.
func TestWrap(t *testing.T) {
	for _, shared := range []bool{false, true} {
		p := newPool(t, Config{Shared: shared})
		for _, n := range []int{0, 1, 999, 1000, 1001, 1472, 4096, 100_001, 8 << 20} {
			data := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, n/7+1)[:n]
			before := bytes.Clone(data)
			b, err := p.Wrap(data)
			if err != nil {
				t.Fatal(err)
			}
			if !b.Wrapped() || b.Size() != n || b.MaxSize() != n || b.Footprint() != n ||
				!bytes.Equal(b.Data(), data) || b.Key() != 0 {
				t.Errorf("%d bytes: %d of %d, in %d", n, b.Size(), b.MaxSize(), b.Footprint())
			}
			got := 0
			for i := range b.Packets(1000) {
				head, piece := b.Packet(i, 1000)
				if len(head) != wire.HeaderSize || len(piece) > 0 && &piece[0] != &data[got] {
					t.Fatalf("packet %d of %d bytes: header of %d bytes, %d of data", i, n, len(head),
						len(piece))
				}
				for j := range head { // a header in the data would change it, or another header
					head[j] = byte(i)
				}
				got += len(piece)
			}
			for i := range b.Packets(1000) {
				head, _ := b.Packet(i, 1000)
				if !bytes.Equal(head, bytes.Repeat([]byte{byte(i)}, wire.HeaderSize)) {
					t.Fatalf("header %d of %d bytes was overwritten", i, n)
				}
			}
			if p.Stats().InUse != 1 {
				t.Errorf("%d buffers in use", p.Stats().InUse)
			}
			if b.Free(); got != n || !bytes.Equal(data, before) {
				t.Errorf("%d of %d bytes in packets, or they have changed", got, n)
			}
		}
		if _, err := p.Wrap(make([]byte, 8<<20+1)); err != ErrTooLarge {
			t.Errorf("a message that is too large: %v", err)
		}
		closePool(t, p)
		if _, err := p.Wrap(nil); err != ErrClosed {
			t.Errorf("a closed pool: %v", err)
		}
	}
}

// TestInto: a message is received into the memory that was given, and nowhere else.
func TestInto(t *testing.T) {
	p := newPool(t, Config{})
	data := make([]byte, 5000)
	b, err := p.Into(data)
	if err != nil {
		t.Fatal(err)
	}
	b.SetSize(3000)
	if copy(b.Bytes(), bytes.Repeat([]byte{9}, 5000)); data[2999] != 9 || data[3000] != 0 {
		t.Error("bytes beyond the message, or none")
	}
	if st := p.Stats(); st.InUse != 1 || st.ReservedBytes != 0 {
		t.Errorf("%+v", st)
	}
	if err := p.Close(); err == nil {
		t.Error("a buffer in use was not noticed")
	}
	b.Free()
	mistake(t, "Free twice", b.Free)
	closePool(t, p)
	if _, err := p.Into(data); err != ErrClosed {
		t.Errorf("a closed pool: %v", err)
	}
}

// TestWrapAgain: buffers around foreign memory cost no allocation once there were as many.
func TestWrapAgain(t *testing.T) {
	skipIfRenewed(t)
	p := newPool(t, Config{})
	data := make([]byte, 64<<10)
	if n := testing.AllocsPerRun(100, func() {
		a, _ := p.Wrap(data)
		b, _ := p.Into(data)
		a.Free()
		b.Free()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	closePool(t, p)
}

// TestWrapRegistered: a message that is sent from memory with a key is copied there.
func TestWrapRegistered(t *testing.T) {
	reg := &registry{t: t, live: map[uint32][]byte{}}
	p := newPool(t, Config{Register: reg.register, Unregister: reg.unregister})
	data := bytes.Repeat([]byte{5}, 10_000)
	b, err := p.Wrap(data)
	if err != nil || b.Wrapped() || b.Key() == 0 || !bytes.Equal(b.Data(), data) ||
		p.Stats().InUse != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	b.Free()
	closePool(t, p)
}
