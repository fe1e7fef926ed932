package grpcerpc

import (
	"testing"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// TestFlowSmall: messages of all small sizes go on for ever when they are read: what they cost
// beside their bytes is given back too, or the limit would stay behind what was sent.
func TestFlowSmall(t *testing.T) {
	for size := range 3 {
		in, out := newInbox(1<<20), newOutbox()
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
