package erpc

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// Stats counts what an Rpc did since it was made.
type Stats struct {
	RxPackets, TxPackets uint64
	RxBundled, TxBundled uint64 // packets in bundles; each bundle counts as one above
	TxDropped            uint64 // packets that a full transport did not take
	Flushes              uint64 // TX queue flushes, each for a rare event

	RequestsSent   uint64 // by this side
	Completed      uint64 // with a response
	Failed         uint64 // with an error
	RequestsServed uint64 // given to a handler

	SessionsOpened, SessionsEnded, SessionsRefused uint64

	SessionsMoved uint64 // to another address of their client; see Config.TLS
	KeyUpdates    uint64 // that this side has begun

	// Of those refused, because the client's address had its share; see Shares.
	SessionsOverShare uint64
	WorkRefused       uint64 // background requests refused
	WorkOverShare     uint64 // ... because the client's address had its share

	// Packets dropped, by cause. More causes are in Protocol.
	DropMalformed uint64 // no valid header
	DropNoSession uint64 // no such session
	DropToken     uint64 // wrong token, checksum or sender
	DropConnects  uint64 // Connects beyond what an endpoint looks at in a second
	DropSealed    uint64 // could not be opened
	DropBundle    uint64 // bundles that the session did not agree on, or that can still be changed
	DropRole      uint64 // a client's packet at a client, or the reverse

	// Datagrams at another loop of the address than their own; see Nexus.NewRpcs.
	HandedOver   uint64 // given to their loop
	HandedIn     uint64 // taken from other loops; they are among RxPackets
	DropHandover uint64 // lost because many wait at their loop
	DropNoLoop   uint64 // their loop does not run

	// Times that the loop took slowPass or longer from one look for packets to the next, because of
	// a handler, a continuation, or the machine.
	BlindSpells uint64
	BlindTime   time.Duration

	Protocol  ProtocolStats
	Transport transport.Stats
	Sessions  int       // now
	RTT       Histogram // round trips without the server's hold, ns
	Memory    int64     // bytes reserved for message buffers, but those of background handlers
	MemoryAll int64     // the same for all Rpcs that share the limit, those buffers included
}

// histBuckets: 32 per power of two, up to 2^40 ns.
const (
	histBits    = 5
	histSub     = 1 << histBits
	histBuckets = (40 - histBits + 1) * histSub
)

// Histogram counts durations in buckets that are at most 3.2 % wide.
type Histogram struct {
	Count   uint64
	Sum     int64 // ns
	buckets [histBuckets]uint32
}

// Add counts one duration in ns.
func (h *Histogram) Add(ns int64) {
	h.Count++
	h.Sum += ns
	h.buckets[bucketOf(ns)]++
}

// addSame counts n durations of ns.
func (h *Histogram) addSame(ns int64, n uint64) {
	h.Count += n
	h.Sum += ns * int64(n)
	h.buckets[bucketOf(ns)] += uint32(n)
}

func bucketOf(ns int64) int {
	if ns < histSub {
		return int(max(ns, 0))
	}
	exp := bits.Len64(uint64(ns)) - 1 // at least histBits
	sub := int(ns>>(exp-histBits)) & (histSub - 1)
	return min((exp-histBits+1)*histSub+sub, histBuckets-1)
}

// floorOf is the least duration of bucket i, ns.
func floorOf(i int) int64 {
	if i < histSub {
		return int64(i)
	}
	return (histSub + int64(i%histSub)) << (i/histSub - 1)
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	h.Count += other.Count
	h.Sum += other.Sum
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
}

// Since returns what was counted after an earlier copy of the same histogram.
func (h *Histogram) Since(earlier *Histogram) Histogram {
	d := *h
	d.Count -= earlier.Count
	d.Sum -= earlier.Sum
	for i, n := range earlier.buckets {
		d.buckets[i] -= n
	}
	return d
}

// Bucket says how many durations were at least Low and less than High, ns.
type Bucket struct {
	Low, High int64
	Count     uint64
}

// Buckets yields the buckets that have samples, the shortest durations first.
func (h *Histogram) Buckets(yield func(Bucket) bool) {
	for i, n := range h.buckets {
		if n > 0 && !yield(Bucket{floorOf(i), floorOf(i + 1), uint64(n)}) {
			return
		}
	}
}

// histogramJSON is a Histogram in JSON, without its empty buckets: pairs of place and count.
type histogramJSON struct {
	Count   uint64
	Sum     int64
	Buckets [][2]uint32
}

// MarshalJSON implements json.Marshaler.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{Count: h.Count, Sum: h.Sum, Buckets: [][2]uint32{}}
	for i, n := range h.buckets {
		if n > 0 {
			j.Buckets = append(j.Buckets, [2]uint32{uint32(i), n})
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*h = Histogram{Count: j.Count, Sum: j.Sum}
	for _, b := range j.Buckets {
		if b[0] >= histBuckets {
			return fmt.Errorf("erpc: histogram: there is no bucket %d", b[0])
		}
		h.buckets[b[0]] = b[1]
	}
	return nil
}

// Quantile returns the duration that a fraction q of all samples do not exceed, to
// within the width of a bucket; 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := uint64(q * float64(h.Count))
	var sum uint64
	for i, n := range h.buckets {
		sum += uint64(n)
		if sum > want || sum == h.Count && n > 0 {
			return time.Duration(floorOf(i))
		}
	}
	return 0
}

// publishedStats is the copy that other goroutines read. The loop writes plain
// counters and copies them here once per epoch, a quarter of Timing.RTOMin.
type publishedStats struct {
	mu    sync.Mutex
	stats Stats
}

func (p *publishedStats) publish(r *Rpc) {
	if !p.mu.TryLock() {
		return // somebody reads; the next epoch will do
	}
	p.stats = r.snapshot()
	p.mu.Unlock()
}

func (r *Rpc) snapshot() Stats {
	e := &r.engine
	s := e.stats
	s.TxBundled = e.out.Bundled
	s.Protocol = ProtocolStats(e.proto)
	s.Transport = r.tr.Stats()
	s.Sessions = e.table.live
	s.Memory = e.pool.Reserved()
	s.MemoryAll = e.quotas.book.budget.Used()
	return s
}

// Stats returns the counters, at most a quarter of Timing.RTOMin old while the loop runs.
// It is safe in any goroutine.
func (r *Rpc) Stats() Stats {
	r.published.mu.Lock()
	defer r.published.mu.Unlock()
	return r.published.stats
}
