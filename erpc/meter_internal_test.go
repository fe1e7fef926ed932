package erpc

import (
	"math/rand/v2"
	"testing"
)

// TestRuns: calls that are summed up in runs give what one by one they would, whatever the order of
// types, latencies and errors, and whenever somebody looks.
func TestRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var got, want meter
	got.calls = newRuns()
	const now = Time(1 << 40)
	for i := range 10_000 {
		typ, at := uint8(rng.IntN(6)), now+Time(i)-Time(rng.IntN(3)*1000)
		request, answer := rng.IntN(100), rng.IntN(100)
		if stamp := stampOf(at, typ); !got.calls.more(now+Time(i), stamp, request, answer) {
			got.calls.begin(got.calling(typ), now+Time(i), stamp, request, answer)
		}
		st := want.calling(typ)
		st.Ended[CodeOK]++
		st.Requests += uint64(request)
		st.Answers += uint64(answer)
		st.Latency.Add(int64(now + Time(i) - at))
		if rng.IntN(100) == 0 {
			got.calls.fold()
		}
	}
	got.calls.fold()
	for typ := range uint8(6) {
		if *got.client[typ] != *want.client[typ] {
			t.Errorf("type %d: %+v, want %+v", typ, got.client[typ], want.client[typ])
		}
	}
}

// TestStamps: a stamp gives its type and its time back, also when the time in it has wrapped.
func TestStamps(t *testing.T) {
	for _, at := range []Time{1, 1 << 30, 1<<56 - 5, 1 << 56, 1<<60 + 3} {
		s := stampOf(at, 200)
		if uint8(s) != 200 || sinceStamp(at, s) != 0 || sinceStamp(at+12345, s) != 12345 {
			t.Errorf("%d: %#x, %d, %d", at, s, sinceStamp(at, s), sinceStamp(at+12345, s))
		}
	}
	if sinceStamp(1<<20, stampOf(1<<20+7, 1)) != -7 {
		t.Error("a stamp from later")
	}
}
