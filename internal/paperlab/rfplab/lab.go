package rfplab

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Run describes one simulated run of a store and its clients.
type Run struct {
	Params  model.Params
	Servers int // threads of the server machine, a partition each
	Clients int // threads, on Machines machines
	// Config is that of the clients; its geometry is chosen by the run.
	Config      rfp.Config
	OneAtATime  bool          // the server waits for each reply
	Process     time.Duration // further work for each message at the server
	Value       int           // bytes
	Values      func(r *rand.Rand) int
	Gets        float64 // share
	Theta       float64 // skew of keys
	Keys        uint64  // that are drawn from; default: as many as there are
	Outstanding int     // messages of a client thread under way; default 1
	Calls       int     // that count
	Warm        int     // calls before
	Seed        uint64
	Machines    int // of clients; default 7, as in the papers
	// Own gives each client thread one server thread, to which all its messages go. Otherwise each
	// message goes where its key belongs.
	Own bool
	// Cores is how many of the server's threads run at a time, in turns of model.Slice; 0: all.
	Cores int
	// Design names the way between clients and servers.
	Design Design
	// Prefetch overlaps accesses to memory of different requests (HERD, section 4.1.1).
	Prefetch bool
	// Adaptive lets each client choose among all ways by their measured cost: package rfp/adaptive.
	Adaptive bool
}

// Design is a set of verbs.
type Design int

// Designs.
const (
	RC   Design = iota // WRITEs and READs of remote fetching and of server replies
	HERD               // requests by WRITEs, responses by datagrams
	ERPC               // datagrams both ways, as eRPC's
)

// Ways of an adaptive client.
const (
	wayFetch = iota
	wayReply
	wayERPC
	ways
)

// Result has the measurements of a run.
type Result struct {
	Rate      float64 // calls per second
	Mean      time.Duration
	P15, P50  time.Duration
	P99       time.Duration
	Latencies []time.Duration `json:"-"` // of messages, sorted
	ClientCPU time.Duration   // per call
	ServerCPU time.Duration   // per call
	Reads     float64         // READs per message
	Missed    float64         // ... that found nothing
	Trips     float64         // WRITEs and READs of the clients per message
	Replies   float64         // messages answered by a WRITE, a share
	Inbound   float64         // operations per second that the server's adapter served
	Switches  uint64
	BatchSize float64   // mean of the clients at the end
	Ways      [ways]int // clients whose best way each is, at the end
}

const keysPerPart = 512

// lab is a run under way.
type lab struct {
	Run
	net     *model.Network
	server  *model.Machine
	servers []*serverThread
	clients []*clientThread
	zipf    *zipf
	ended   int
	lat     []time.Duration
	begun   model.Time
	err     error
}

type serverThread struct {
	l       *lab
	id      int
	srv     *rfp.Server
	part    *mica.Partition
	th      *model.Thread
	current *rfp.Message
}

// Simulate carries a run out.
func Simulate(r Run) (Result, error) {
	r.defaults()
	l := &lab{Run: r, net: model.New(r.Params, r.Seed)}
	l.zipf = newZipf(r.Keys, r.Theta)
	l.server = l.net.Machine(r.Params.Server)
	defer l.close()
	for i := range r.Servers {
		if err := l.addServer(i); err != nil {
			return Result{}, err
		}
	}
	machines := make([]*model.Machine, r.Machines)
	for i := range machines {
		machines[i] = l.net.Machine(r.Params.Client)
	}
	for i := range r.Clients {
		if err := l.addClient(machines[i%r.Machines], i); err != nil {
			return Result{}, err
		}
	}
	return l.measure()
}

func (r *Run) defaults() {
	if r.Machines == 0 {
		r.Machines = 7
	}
	if r.Outstanding == 0 {
		r.Outstanding = 1
	}
	if r.Calls == 0 {
		r.Calls = 20_000
	}
	if r.Keys == 0 {
		r.Keys = uint64(keysPerPart * r.Servers)
	}
	if r.Warm == 0 {
		r.Warm = r.Calls / 5
	}
	if r.Value == 0 {
		r.Value = 32
	}
	batch := max(1, r.Config.Batch)
	most := r.Value
	if r.Values != nil {
		most = 1024
	}
	entry := most + 24 + rfp.Entry
	r.Config.Geometry = rfp.Geometry{Slots: max(1, r.Outstanding), Request: batch * entry,
		Response: batch * entry}
	if r.Config.BatchBytes == 0 {
		r.Config.BatchBytes = min(r.Config.Request, max(rfp.DefaultBatchBytes, batch*entry))
	}
}

func (l *lab) close() {
	for _, s := range l.servers {
		_ = s.part.Close()
	}
}

// measure lets the clients work until enough calls have ended.
func (l *lab) measure() (res Result, err error) {
	for l.ended < l.Warm && l.err == nil && l.net.Step() {
	}
	l.lat = make([]time.Duration, 0, l.Calls)
	l.begun = l.net.Now()
	before := l.totals()
	first := l.ended
	for l.ended-first < l.Calls && l.err == nil && l.net.Step() {
	}
	if l.err == nil && l.ended-first < l.Calls {
		l.err = fmt.Errorf("rfplab: the run stands still after %d calls", l.ended)
	}
	if l.err != nil {
		return res, l.err
	}
	after := l.totals()
	n := float64(l.ended - first)
	span := l.net.Now().Sub(l.begun).Seconds()
	messages := float64(after.messages - before.messages)
	slices.Sort(l.lat)
	var sum time.Duration
	for _, d := range l.lat {
		sum += d
	}
	at := func(q float64) time.Duration { return l.lat[int(q*float64(len(l.lat)-1))] }
	reads := float64(after.reads - before.reads)
	res = Result{
		Rate: n / span, Mean: sum / time.Duration(len(l.lat)), P15: at(.15), P50: at(.5), P99: at(.99),
		Latencies: l.lat,
		ClientCPU: time.Duration(float64(after.clientCPU-before.clientCPU) / n),
		ServerCPU: time.Duration(float64(after.serverCPU-before.serverCPU) / n),
		Reads:     reads / messages, Missed: float64(after.missed-before.missed) / messages,
		Trips:    1 + reads/messages,
		Replies:  float64(after.replies-before.replies) / messages,
		Inbound:  float64(after.in-before.in) / span,
		Switches: after.switches, BatchSize: after.batch / float64(len(l.clients)), Ways: after.ways,
	}
	return res, nil
}

type totals struct {
	messages, reads, missed, replies, in, switches uint64
	clientCPU, serverCPU                           time.Duration
	batch                                          float64
	ways                                           [ways]int
}

func (l *lab) totals() (t totals) {
	for _, c := range l.clients {
		if c.choose != nil {
			t.ways[c.choose.Best()]++
		}
		t.clientCPU += c.th.Busy()
		for _, k := range c.ways {
			for _, r := range k {
				st := r.Stats()
				t.messages += st.Messages
				t.reads += st.Reads + st.Rests
				t.missed += st.Missed
				t.replies += st.Replies
				t.switches += st.ToReply + st.ToFetch
			}
		}
		t.batch += float64(c.ways[0][0].BatchSize())
	}
	for _, s := range l.servers {
		t.serverCPU += s.th.Busy()
	}
	t.in = l.server.Stats().In
	return t
}

// addServer adds a thread with its partition.
func (l *lab) addServer(id int) error {
	s := &serverThread{l: l, id: id}
	var err error
	s.part, err = mica.New(mica.Config{Memory: max(1<<20, 4*keysPerPart*(l.Config.Request+64)),
		ItemSize: 16 + l.Value, Mode: mica.Store, NoHugepages: true})
	if err != nil {
		return err
	}
	l.servers = append(l.servers, s)
	s.srv, err = rfp.NewServer(rfp.ServerConfig{Geometry: l.Config.Geometry, OneAtATime: l.OneAtATime,
		Clock: func() model.Time { return s.th.Clock() }})
	if err != nil {
		return err
	}
	jakiro.Attach(s.srv, s.part)
	s.th = l.server.Thread(s.step)
	var key [16]byte
	for i := range uint64(keysPerPart) {
		k := l.key(key[:], id, i)
		if err := s.part.Put(s.part.Hash(k), k, value(nil, k, l.Value)); err != nil {
			return err
		}
	}
	return nil
}

// step answers a message, or takes one and is busy with it.
func (s *serverThread) step(now model.Time) time.Duration {
	if wait := s.off(now); wait > 0 {
		return wait
	}
	if s.current != nil {
		s.srv.Answer(s.current)
		s.current = nil
	}
	if s.current = s.srv.Next(); s.current == nil {
		return 0
	}
	s.th.Spend(s.l.cost(s.current.Requests()))
	return max(s.th.Clock().Sub(s.l.net.Now()), 1)
}

// off is how long the thread waits for a core. Those that spin for requests never give one up, so
// a scheduler that is fair lets as many as there are cores run, and the ones behind them next.
func (s *serverThread) off(now model.Time) time.Duration {
	n, cores := s.l.Servers, s.l.Cores
	if cores == 0 || cores >= n {
		return 0
	}
	turn := int(int64(now) / int64(model.Slice))
	behind := (s.id - turn*cores%n + n) % n // threads before this one
	if behind < cores {
		return 0
	}
	return model.Time(int64(turn+behind/cores) * int64(model.Slice)).Sub(now)
}

// cost is the time of a message of n requests at the server: each is read, looked up in two places
// of memory, and answered.
func (l *lab) cost(n int) time.Duration {
	each := 2 * l.Params.Touch
	if !l.Prefetch {
		each += 2 * l.Params.DRAM
	}
	return l.Process + time.Duration(n)*each
}

// key is key i of a partition: its number and a check, in 16 bytes. Partitions here are by number,
// not by hash, so that each has as many.
func (l *lab) key(b []byte, part int, i uint64) []byte {
	binary.LittleEndian.PutUint64(b, i*uint64(l.Servers)+uint64(part))
	binary.LittleEndian.PutUint64(b[8:], mix(i))
	return b[:16]
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// value returns the value of a key.
func value(b, key []byte, n int) []byte {
	x := mix(binary.LittleEndian.Uint64(key))
	for i := range n {
		b = append(b, byte(x>>(i%8*8))+byte(i))
	}
	return b
}
