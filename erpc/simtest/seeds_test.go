package simtest

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport/sim"
	"go.uber.org/goleak"
)

var (
	seedFlag       = flag.Int64("seed", -1, "run TestSeeds with this seed only")
	fromFlag       = flag.Uint64("from", 0, "with -for, the first seed")
	forFlag        = flag.Duration("for", 0, "run TestSeeds with seeds from -from on for so long")
	adversarySeeds = flag.Int("adversary.seeds", 200, "seeds of TestAdversary")
	traceFlag      = flag.Bool("trace", false, "print what the simulated network does")
)

// found are seeds beyond the first thousand that showed a fault once. Without faults nothing may be
// sent twice; in these the packets of slots that waited in line for credits were.
var found = []uint64{7004656, 7006336, 7008159}

// raced is whether the race detector is on. It learns little from simulations, which run in one
// goroutine, and makes them ten times as long: so they do little then. make test has all of it.
var raced bool

// notRaced skips a long simulation under the race detector.
func notRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("long under the race detector, in one goroutine")
	}
}

// TestSeeds runs one random cluster per seed; see the package comment.
func TestSeeds(t *testing.T) {
	if *seedFlag >= 0 {
		hash := runSeed(t, uint64(*seedFlag), nil)
		t.Logf("trace hash %016x", hash)
		return
	}
	if *forFlag > 0 {
		manySeeds(t)
		return
	}
	count, few := 1000, testing.Short() || invariants.Enabled
	if few {
		count = 100
	}
	if raced {
		count = 20
	}
	running := goleak.IgnoreCurrent()
	var sum tally
	t.Run("found", func(t *testing.T) {
		for _, seed := range found {
			t.Run(fmt.Sprint(seed), func(t *testing.T) { runSeed(t, seed, nil) })
		}
	})
	t.Run("all", func(t *testing.T) {
		for seed := range count {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				hash := runSeed(t, uint64(seed), &sum)
				if seed%25 == 0 {
					if again := runSeed(t, uint64(seed), nil); again != hash {
						t.Errorf("the same seed gave trace hash %016x, then %016x", hash, again)
					}
				}
				if t.Failed() {
					t.Logf("repeat with: go test ./erpc/simtest -run TestSeeds -seed=%d -v", seed)
				}
			})
		}
	})
	if !raced {
		sum.check(t, few)
	}
	if err := goleak.Find(running); err != nil {
		t.Error(err)
	}
}

// manySeeds runs one seed after the other until the time is over or one fails: make seeds.
func manySeeds(t *testing.T) {
	seed := *fromFlag
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./erpc/simtest -run TestSeeds -seed=%d -v", seed)
		}
	}()
	for end := time.Now().Add(*forFlag); time.Now().Before(end); seed++ {
		runSeed(t, seed, nil)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d seeds from %d on", seed-*fromFlag, *fromFlag)
}

// scenario holds the choices that a seed makes before the run.
type scenario struct {
	r        *rand.Rand
	c        *cluster
	calm     bool // no faults: nothing may fail or be sent twice
	chaos    time.Duration
	timing   erpc.Timing
	slots    int
	maxPkts  int
	perPkt   int
	crashes  bool
	pauses   bool
	cuts     bool
	cancels  bool
	deadline bool
	alone    int // 0: small packets travel in bundles; 1: some nodes make none; 2: all
}

// runSeed runs one cluster and returns the hash of its trace.
func runSeed(t *testing.T, seed uint64, sum *tally) uint64 {
	r := rand.New(rand.NewPCG(seed, 77))
	s := &scenario{r: r, calm: r.IntN(10) == 0,
		chaos: time.Duration(20+r.IntN(400)) * time.Millisecond}
	s.timing = erpc.Timing{
		RTOMin: time.Duration(1000+r.IntN(2000)) * time.Microsecond,
		RTOMax: pick[time.Duration](r, 6, 20, 60) * time.Millisecond, RTOInitial: 5 * time.Millisecond,
		Heartbeat: 20 * time.Millisecond, FailureTimeout: 150 * time.Millisecond,
		ConnectTimeout: 150 * time.Millisecond, ConnectRetry: 2 * time.Millisecond,
		DisconnectLinger: 20 * time.Millisecond,
	}
	if s.calm { // handlers that wait for others' answers must not look like losses
		s.timing.RTOMin, s.timing.RTOInitial, s.timing.RTOMax = 8*time.Millisecond, 10*time.Millisecond,
			60*time.Millisecond
	}
	s.alone = int(seed / 2 % 3)
	mtu := pick(r, 1024, 1100, 1472)
	s.perPkt = mtu - 24
	s.maxPkts = pick(r, 1, 4, 64)
	s.build(t, seed, mtu)
	s.work()
	if !s.calm {
		s.faults()
		if stepped(seed) {
			s.clocks(seed)
		}
	}
	s.c.run(s.chaos)
	s.heal()
	s.check(sum)
	return s.c.net.TraceHash()
}

// build makes the network and its nodes.
func (s *scenario) build(t *testing.T, seed uint64, mtu int) {
	r := s.r
	cfg := sim.Config{Seed: seed, MTU: mtu, LoopDelay: 500, Trace: tracer(t)}
	cfg.PropDelay = time.Duration(1000 + r.Int64N(20000))
	if r.IntN(2) == 0 {
		cfg.LinkBitsPerSec = pick(r, int64(1e9), 10e9, 25e9)
	}
	if !s.calm {
		cfg.RxRing = pick(r, 0, 0, 64, 512)
		if cfg.LinkBitsPerSec != 0 {
			cfg.SwitchBuffer = pick(r, 0, 100_000, 1_000_000)
			cfg.ECN = pick(r, sim.ECN{}, sim.ECN{Kmin: 2000, Kmax: 50_000, Pmax: 0.5})
		}
	}
	s.c = newCluster(t, cfg)
	s.c.lender.on, s.c.lender.inline = lends(seed), lendInline
	if s.calm {
		s.c.slow = s.timing.RTOMin / 40 // slow handlers cause repetitions
	} else {
		s.c.slow = pick(r, 10*time.Microsecond, time.Millisecond, 10*time.Millisecond)
	}
	s.slots = pick(r, 1, 2, 8, 32)
	for i := range 2 + r.IntN(4) {
		ec := erpc.Config{
			Slots: s.slots, Credits: pick(r, 1, 2, 7, 32), Checksum: true, Timing: s.timing,
			MaxQueue:    pick(r, 10, 1000),
			MaxSessions: 64, MaxMessage: 256 << 10, Burst: pick(r, 1, 16, 64), MaxBackground: pick(r, 2, 64),
		}
		ec.Congestion, ec.Experiment = s.congestion()
		if seed%3 == 0 && mtu >= erpc.MinMTU+security.Overhead {
			ec.PSK = [][]byte{[]byte("what all the nodes have")}
			ec.KeyUpdate = time.Duration(1+seed%50) * time.Millisecond
		}
		ec.NoBundles = s.alone > i%2
		if ec.Credits == 32 && seed%4 == 1 {
			ec.Credits = 0 // windows follow the path
		}
		if s.calm {
			ec.MaxQueue, ec.MaxBackground, ec.Credits = 1000, 1000, 8
		}
		epc := sim.EndpointConfig{RunCost: time.Duration(r.Int64N(2000))}
		epc.PacketCost = time.Duration(r.Int64N(300))
		if !s.calm && r.IntN(4) == 0 {
			epc.TxRing = 64
		}
		s.c.add(ec, epc)
	}
	s.crashes, s.pauses, s.cuts = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	s.cancels, s.deadline = r.IntN(2) == 0, r.IntN(2) == 0
}

// congestion returns some congestion control of a node.
func (s *scenario) congestion() (c erpc.Congestion, x erpc.Experiment) {
	r := s.r
	c = erpc.Congestion{
		Algorithm: pick(r, erpc.CCTimely, erpc.CCTimely, erpc.CCDCQCN, erpc.CCSwift, erpc.CCCubic,
			erpc.CCNone, erpc.CCCustom),
		LinkRate: pick[int64](r, 0, 1e9),
	}
	x = erpc.Experiment{NoRateBypass: r.IntN(4) == 0, NoPacingBypass: r.IntN(4) == 0,
		NoBatchedTime: r.IntN(4) == 0}
	least := 3e6
	if s.calm {
		least = 1e7
	}
	// Round trips that vary by more than the target, without a queue, lead to the floor.
	c.Swift.Target, c.Swift.MinRate = time.Millisecond, least
	if c.Algorithm == erpc.CCCustom {
		c.Custom = cc.Algorithm{Name: "fickle", Bypass: time.Duration(r.Int64N(20_000))}
		c.Custom.New = func(link float64) cc.Controller {
			return &fickle{r: rand.New(rand.NewPCG(r.Uint64(), 1)), min: least, link: link}
		}
	}
	return c, x
}

// fickle is a congestion control that changes its mind all the time.
type fickle struct {
	r         *rand.Rand
	min, link float64
}

func (f *fickle) OnAck(cc.Time, time.Duration, time.Duration, int, bool) (float64, time.Duration) {
	return f.OnTimeout(0), time.Duration(f.r.Int64N(20_000))
}

func (f *fickle) OnTimeout(cc.Time) float64 {
	if f.r.IntN(3) == 0 {
		return f.link
	}
	return min(f.link, f.min*math.Pow(10, 4*f.r.Float64()))
}

// work plans RPCs in bursts, so that slots and credits run out.
func (s *scenario) work() {
	r, c := s.r, s.c
	bursts := 5 + r.IntN(40)
	for range bursts {
		from := c.nodes[r.IntN(len(c.nodes))]
		size := 1 + r.IntN(3*s.slots)
		if s.maxPkts > 4 {
			size = min(size, 12)
		}
		if s.calm {
			size = min(size, 4)
		}
		c.net.After(time.Duration(r.Int64N(int64(s.chaos))), func() {
			for range size {
				if from.down {
					return
				}
				if k := s.randomCall(from); c.issue(k) == nil {
					s.maybeCancel(k)
				}
			}
		})
	}
}

func (s *scenario) randomCall(from *node) *call {
	r := s.r
	to := r.IntN(len(s.c.nodes) - 1)
	if to >= from.id {
		to++
	}
	k := &call{from: from, to: to,
		typ: pick[uint8](r, typeEcho, typeEcho, typeBackground, typeNested, typeLate)}
	k.reqSize, k.respSize, k.respMax = minRequest+s.size(), s.size(), -1
	if r.IntN(2) == 0 {
		k.respMax = k.respSize + r.IntN(100)
	}
	if s.calm {
		return k
	}
	switch r.IntN(20) {
	case 0:
		k.typ = pick[uint8](r, typeFail, typeNone)
	case 1:
		k.respMax = k.respSize / 4
	}
	if s.deadline && r.IntN(3) == 0 {
		k.timeout = time.Duration(1 + r.Int64N(int64(50*time.Millisecond)))
	}
	return k
}

// size returns the size of a message: often small, sometimes many packets, often
// just at the border of one.
func (s *scenario) size() int {
	switch s.r.IntN(4) {
	case 0:
		return s.r.IntN(64)
	case 1:
		n := 1 + s.r.IntN(s.maxPkts)
		return max(0, n*s.perPkt-2+s.r.IntN(4)-minRequest*s.r.IntN(2))
	}
	return s.r.IntN(s.maxPkts * s.perPkt)
}

func (s *scenario) maybeCancel(k *call) {
	if s.calm || !s.cancels || s.r.IntN(4) != 0 {
		return
	}
	rpc := k.from.rpc
	s.c.net.After(time.Duration(s.r.Int64N(int64(10*time.Millisecond))), func() {
		if k.from.rpc == rpc && !k.from.down {
			if err := rpc.Cancel(k.rpcID); err != nil {
				s.c.fail("cancel: %v", err)
			}
			k.from.ep.Wake()
		}
	})
}

// faults plans what goes wrong.
func (s *scenario) faults() {
	r, c := s.r, s.c
	f := sim.Faults{Loss: pick(r, 0, 0.001, 0.02, 0.1, 0.3), Duplicate: pick(r, 0, 0.01, 0.2),
		Corrupt: pick(r, 0, 0, 0.02, 0.1),
		Reorder: pick(r, 0, 0, 0.05, 0.3), ReorderDelay: time.Duration(1 + r.Int64N(3e6))}
	f.Jitter = pick(r, 0, time.Duration(r.Int64N(200_000)))
	if err := c.net.SetFaults(f); err != nil {
		c.t.Fatal(err)
	}
	if r.IntN(8) == 0 { // somebody stays dead until all is healed
		n := c.nodes[r.IntN(len(c.nodes))]
		c.net.After(time.Duration(r.Int64N(int64(s.chaos))), n.crash)
	}
	if r.IntN(8) == 0 { // somebody ends its sessions the proper way, or all of itself
		n := c.nodes[r.IntN(len(c.nodes))]
		proper := r.IntN(2) == 0
		c.net.After(time.Duration(r.Int64N(int64(s.chaos))), func() { n.hangUp(proper) })
	}
	at := func(fn func()) { c.net.After(time.Duration(r.Int64N(int64(s.chaos))), fn) }
	some := func() *node { return c.nodes[r.IntN(len(c.nodes))] }
	if s.crashes {
		for range 1 + r.IntN(3) {
			n, off := some(), time.Duration(r.Int64N(int64(40*time.Millisecond)))
			at(func() {
				if n.down {
					return
				}
				n.crash()
				c.net.After(off, func() {
					if n.down {
						n.start()
					}
				})
			})
		}
	}
	if s.pauses {
		for range 1 + r.IntN(3) {
			n, off := some(), time.Duration(r.Int64N(int64(200*time.Millisecond)))
			at(func() {
				ep := n.ep
				ep.Pause()
				c.net.After(off, ep.Resume)
			})
		}
	}
	if s.cuts {
		for range 1 + r.IntN(3) {
			n, off := some(), time.Duration(r.Int64N(int64(200*time.Millisecond)))
			oneWay := r.IntN(3) == 0
			at(func() { s.cut(n.id, oneWay) })
			c.net.After(off, c.net.Heal)
		}
	}
}

func (s *scenario) cut(id int, oneWay bool) {
	var rest []int
	for i := range s.c.nodes {
		if i != id {
			rest = append(rest, i)
		}
	}
	err := s.c.net.Cut([]int{id}, rest)
	if err == nil && !oneWay {
		err = s.c.net.Cut(rest, []int{id})
	}
	if err != nil {
		s.c.t.Fatal(err)
	}
}

// heal ends all faults, for good.
func (s *scenario) heal() {
	c := s.c
	if err := c.net.SetFaults(sim.Faults{}); err != nil {
		c.t.Fatal(err)
	}
	c.net.Heal()
	for _, n := range c.nodes {
		n.clock.step(0, 1)
		if n.down {
			n.start()
		}
		n.ep.Resume()
	}
}

// check waits for the end, probes every session, and closes.
func (s *scenario) check(sum *tally) {
	c := s.c
	// A planned cut or pause may still come; then nothing does.
	c.run(250 * time.Millisecond)
	s.heal()
	bound := 4 * (s.timing.FailureTimeout + s.timing.ConnectTimeout)
	for left := c.pending + 1; c.pending > 0 && c.pending < left; {
		left = c.pending // with one credit and a low rate all of it may take long
		c.settle(bound)
	}
	if c.pending > 0 {
		for _, k := range c.calls {
			if k.rpcID != 0 && k.ends == 0 {
				c.fail("request %d of type %d from %d to %d has not ended after the faults, none for %v",
					k.id, k.typ, k.from.id, k.to, bound)
			}
		}
	}
	s.probe()
	c.run(5 * s.timing.Heartbeat)
	if s.calm {
		s.checkCalm()
	}
	if sum != nil {
		sum.add(c)
	}
	c.closeAll()
}

// probe sends one RPC on each way: the session of old works, or a new one does.
func (s *scenario) probe() {
	c := s.c
	bound := s.timing.FailureTimeout + s.timing.ConnectTimeout
	for round := range 2 {
		for _, from := range c.nodes {
			for to := range c.nodes {
				if to == from.id {
					continue
				}
				k := &call{from: from, to: to, typ: typeEcho, reqSize: minRequest + 100, respSize: 3 * s.perPkt,
					respMax: -1}
				k.then = func(k *call) {
					if k.err != nil && round == 1 {
						c.fail("after the faults, %d to %d: %v", from.id, to, k.err)
					}
				}
				if err := c.issue(k); err != nil {
					c.fail("after the faults, %d to %d: %v", from.id, to, err)
				}
			}
		}
		if !c.settle(bound) && c.pending > 0 {
			c.fail("%d probes have not ended after %v", c.pending, bound)
		}
	}
}

// checkCalm checks what holds without faults: nothing is lost, so nothing times out. The last
// packet of a session goes again early, once, if a handler takes much longer than those before;
// that is rare.
func (s *scenario) checkCalm() {
	early := 1 + uint64(len(s.c.calls))/200
	for _, k := range s.c.calls {
		if k.ends != 1 || k.err != nil {
			s.c.fail("without faults request %d of type %d ended %d times with %v", k.id, k.typ,
				k.ends, k.err)
		}
	}
	for _, n := range s.c.nodes {
		st := n.rpc.Stats()
		p := &st.Protocol
		if p.Rollbacks != 0 || p.Retransmits != p.FastResends+p.Reanswers || p.Retransmits > early ||
			p.FastRollbacks != p.FastResends || st.SessionsEnded != 0 ||
			st.DropToken+st.DropMalformed+st.DropNoSession != 0 {
			s.c.fail("without faults node %d: %+v", n.id, st.Protocol)
		}
	}
}
