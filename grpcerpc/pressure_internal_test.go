package grpcerpc

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
)

// pressed puts messages of size bytes into a stream, which wait when too much is left behind, and
// go on when the loop has the stream speak.
func pressed(
	t *testing.T, out *outbox, size int, put func(*[]byte), speak func([]byte, int) ([]byte, bool),
) {
	const most, rounds = maxQueued/messageCost + 1, 3
	var n atomic.Int64
	go func() {
		for range rounds * most {
			memory := getBuffer()
			*memory = append((*memory)[:0], make([]byte, size)...)
			put(memory)
			n.Add(1)
		}
	}()
	before := int64(0)
	for range rounds {
		synctest.Wait()
		if got := n.Load() - before; got == 0 || got > most {
			t.Errorf("%d messages of %d bytes are left behind, want %d at most", got, size, most)
		}
		before = n.Load()
		for more := true; more; {
			_, more = speak(nil, maxBatch)
		}
	}
	for n.Load() < rounds*most {
		synctest.Wait()
		speak(nil, 1<<20)
	}
	speak(nil, 1<<20)
	if out.queued != 0 || out.items.len() != 0 {
		t.Errorf("%d bytes of %d messages count when all was sent", out.queued, out.items.len())
	}
}

// TestPressure: SendMsg waits when so much is left behind that the peer does not take, at both
// sides, also if the messages are empty or tiny.
func TestPressure(t *testing.T) {
	for size := range 3 {
		synctest.Test(t, func(t *testing.T) {
			p := newPipe(&link{}, noLoop{})
			p.calls.Store(1)
			s := talker(p, size)
			s.desc = &grpc.StreamDesc{ClientStreams: true}
			pressed(t, &s.out, size, func(m *[]byte) { _, _ = s.put(m, nil) }, s.speak)
		})
		synctest.Test(t, func(t *testing.T) {
			st := newServerStream(&serverConn{server: new(Server)}, 1)
			pressed(t, &st.out, size, func(m *[]byte) { _, _, _ = st.put(m) }, st.speak)
		})
	}
}
