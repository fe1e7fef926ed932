package erpc

import "testing"

// BenchmarkCountCall is the least that metrics need for a call on one side: the counters of its
// type and one latency, in memory that is in the cache. Its time beside that of an RPC is the least
// part of the rate that metrics can cost.
func BenchmarkCountCall(b *testing.B) {
	st, ns := new(CallStats), int64(5000)
	for b.Loop() {
		st.Started++
		st.Ended[CodeOK]++
		st.Requests += 32
		st.Answers += 32
		ns = (ns*5 + 1) & 0x3fff // latencies of 0 to 16 us
		st.Latency.Add(ns)
	}
	if st.Count() != st.Latency.Count {
		b.Fatal("a call was not counted")
	}
}
