package grpcerpc

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// TestFlowSmall: messages of all small sizes go on for ever when they are read: what they cost
// beside their bytes is given back too, or the limit would stay behind what was sent.
func TestFlowSmall(t *testing.T) {
	for size := range 3 {
		in, out := newInbox(1<<20, window), newOutbox()
		for n := range 40_000 {
			memory := getBuffer()
			*memory = append((*memory)[:0], make([]byte, size)...)
			out.putMessage(frame.Message, memory)
			b, _ := out.fill(nil, 1000)
			kind, payload, rest, err := frame.Next(b)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%d bytes: message %d is not sent: %v", size, n, err)
			}
			if err := in.accept(kind, payload); err != nil {
				t.Fatalf("%d bytes: message %d: %v", size, n, err)
			}
			m, ok := in.take()
			if !ok || len(m.data) != size {
				t.Fatalf("%d bytes: message %d has not come", size, n)
			}
			m.free()
			if in.ask() {
				out.allow(in.tell())
			}
		}
	}
}

// TestWindows: a stream with a window of its own goes on however small and large that is, and its
// peer may have sent as much as usual before it learns of it.
func TestWindows(t *testing.T) {
	for _, size := range []uint64{64 << 10, window, 4 << 20} {
		in, out := newInbox(1<<30, size), newOutbox()
		out.limit = in.tell()
		memory := make([]byte, 8<<20)
		out.putMessage(frame.Message, &memory)
		for out.items.len() > 0 {
			b, _ := out.fill(nil, maxBatch)
			if out.sent > in.told {
				t.Fatalf("window %d: %d bytes were sent of %d", size, out.sent, in.told)
			}
			for len(b) > 0 {
				kind, payload, rest, err := frame.Next(b)
				if err == nil {
					err = in.accept(kind, payload)
				}
				if b = rest; err != nil {
					t.Fatal(err)
				}
			}
			in.take()
			if out.blocked() {
				if !in.due() {
					t.Fatalf("window %d: the sender is blocked, and not told to go on", size)
				}
				out.allow(in.tell())
			}
		}
	}
}

// TestWholeCredit: when the application waits for a message whose first part has come, the peer may
// send the rest of it and a window, and no more; when it does not wait, a window.
func TestWholeCredit(t *testing.T) {
	const size, part = 8 << 20, 1 << 10
	first := binary.AppendUvarint(nil, size)
	first = append(first, make([]byte, part)...)
	for _, waits := range []bool{false, true} {
		in := newInbox(size, window)
		if waits {
			in.take()
		}
		if err := in.accept(frame.Message, first); err != nil {
			t.Fatal(err)
		}
		want := uint64(window)
		if waits {
			want += size
		}
		if got := in.tell(); got != want {
			t.Errorf("the application waits: %v: the limit is %d, want %d", waits, got, want)
		}
		rest := make([]byte, 64<<10)
		for sent := part; waits && sent < size; sent += len(rest) {
			rest = rest[:min(len(rest), size-sent)]
			if err := in.accept(frame.More, rest); err != nil {
				t.Fatal(err)
			}
		}
		if m, ok := in.take(); ok != waits || waits && len(m.data) != size {
			t.Errorf("the application waits: %v: a message of %d bytes, %v", waits, len(m.data), ok)
		}
		if got := in.tell(); waits && got != size+messageCost+window {
			t.Errorf("the limit is %d when the message was read, want %d", got, size+messageCost+window)
		}
	}
}

// TestGrowth: a message that comes in pieces moves rarely, and its memory is at most growth times
// what has come, or a window: the loop copies it, and a size is no more than a word.
func TestGrowth(t *testing.T) {
	const size, piece = 3 << 20, 16 << 10
	buffers, largeBuffers = newBuffers(), newBuffers() // those of other tests may be larger
	in := newInbox(size, window)
	in.reading = true
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i % 251)
	}
	moved, last := 0, 0
	for at := 0; at < size; at += piece {
		b, kind := data[at:at+piece], frame.More
		if at == 0 {
			b, kind = append(binary.AppendUvarint(nil, size), b...), frame.Message
		}
		if err := in.accept(kind, b); err != nil {
			t.Fatal(err)
		}
		in.tell()
		if n := cap(in.part.data); n != last {
			if most := max(window, growth*(at+piece)); at+piece < size && n > most {
				t.Errorf("%d bytes have %d of memory, want at most %d", at+piece, n, most)
			}
			moved, last = moved+1, n
		}
	}
	m, ok := in.take()
	if !ok || !bytes.Equal(m.data, data) {
		t.Fatalf("%d bytes have come: %v", len(m.data), ok)
	}
	if moved > 4 { // the last one is the message's end
		t.Errorf("memory was taken %d times", moved)
	}
	m.free()
}

// TestGrown: memory has room for what is to come, and what was there stays.
func TestGrown(t *testing.T) {
	for _, n := range []int{1, maxKept, maxKept + 1, 1 << 20, maxLargeKept, maxLargeKept + 1} {
		got := grown([]byte("head"), n)
		if string(got) != "head" || cap(got)-len(got) < n {
			t.Errorf("%d bytes: %q with room for %d", n, got, cap(got)-len(got))
		}
		putBuffer(&got)
	}
}
