package simtest

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// adversary is an attacker of the kind of Dolev and Yao ("On the security of public key protocols",
// 1983): all packets of all nodes pass through him. He reads, drops, repeats, holds, changes and
// splices them, sends what he likes from any address, and knows every field that ever was in the
// clear. He is a member, too: mallory is a node with a valid certificate, whose packets he sends
// from the address of another one, and whose random numbers begin as those of that one.
type adversary struct {
	c       *cluster
	r       *rand.Rand
	on      bool
	taps    []*tap
	mallory *node
	victim  *node // whose address mallory has
	seen    []seenPacket
	log     bytes.Buffer // of mallory's keys
	parsed  int          // bytes of log that openers are made of
	openers map[uint32][]*security.Opener
	did     map[string]int
}

// seenPacket is a packet that was under way.
type seenPacket struct {
	from, to transport.Addr
	data     []byte
}

// maxSeen bounds what he remembers.
const maxSeen = 4096

// tap is a node's transport, in the adversary's hands.
type tap struct {
	transport.Transport
	a  *adversary
	n  *node
	in []transport.RxPacket // what he has for the node
}

func (a *adversary) tap(n *node, tr transport.Transport) transport.Transport {
	for len(a.taps) <= n.id {
		a.taps = append(a.taps, nil)
	}
	a.taps[n.id] = &tap{Transport: tr, a: a, n: n}
	return a.taps[n.id]
}

// TxBurst lets him have the packets first.
func (t *tap) TxBurst(items []transport.TxItem) (int, error) {
	for i := range items {
		x := &items[i]
		data := append(bytes.Clone(x.Head), x.Data...)
		if t.a.pass(t.n, x.Dst, data) {
			if n, err := t.Transport.TxBurst(items[i : i+1]); n == 0 || err != nil {
				return i, err
			}
		}
	}
	return len(items), nil
}

// RxBurst gives what he has for the node, and then what the network has.
func (t *tap) RxBurst(pkts []transport.RxPacket) (int, error) {
	n := copy(pkts, t.in)
	t.in = t.in[n:]
	more, err := t.Transport.RxBurst(pkts[n:])
	if len(t.in) > 0 {
		t.n.ep.Wake()
	}
	return n + more, err
}

// inject gives a packet to the node at an address, as if from another.
func (a *adversary) inject(to, from transport.Addr, data []byte) {
	gathering.injected(data)
	for _, t := range a.taps {
		if t != nil && !t.n.down && t.LocalAddr() == to && len(t.in) < 1000 {
			t.in = append(t.in, transport.RxPacket{Data: bytes.Clone(data), From: from})
			t.n.ep.Wake()
		}
	}
}

// pass takes a packet on its way, and reports whether it goes on as it is.
func (a *adversary) pass(n *node, to transport.Addr, data []byte) bool {
	from := n.ep.LocalAddr()
	a.read(n, data)
	if len(a.seen) < maxSeen {
		a.seen = append(a.seen, seenPacket{from, to, data})
	} else {
		a.seen[a.r.IntN(maxSeen)] = seenPacket{from, to, data}
	}
	if a.mallory != nil && n == a.mallory && a.victim != nil && a.on && a.r.IntN(4) > 0 {
		a.inject(to, a.victim.ep.LocalAddr(), data) // with another's address
		a.did["spoofed"]++
		return false
	}
	if a.victim != nil && to == a.victim.ep.LocalAddr() && a.on {
		a.inject(a.mallory.ep.LocalAddr(), from, data) // she has what comes to that address
	}
	if !a.on {
		return true
	}
	for range a.r.IntN(3) {
		a.act()
	}
	return a.handle(from, to, data)
}

// handle does something with the packet at hand.
func (a *adversary) handle(from, to transport.Addr, data []byte) bool {
	later := func(d time.Duration, data []byte) {
		a.c.net.After(time.Duration(a.r.Int64N(int64(d))), func() { a.inject(to, from, data) })
	}
	switch a.r.IntN(40) {
	case 0:
		return false
	case 1:
		a.inject(to, from, data)
	case 2:
		later(20*time.Millisecond, data)
		return false
	case 3:
		bad := bytes.Clone(data)
		bad[a.r.IntN(len(bad))] ^= 1 << a.r.IntN(8)
		a.inject(to, from, bad)
	case 4:
		a.inject(to, from, data[:a.r.IntN(len(data))])
	case 5:
		other := a.some().data
		cut := a.r.IntN(min(len(other), len(data)))
		a.inject(to, from, append(bytes.Clone(data[:cut]), other[cut:]...))
	case 6:
		a.inject(to, a.anyAddr(), data) // it is there first, from elsewhere
	case 7:
		a.inject(a.anyAddr(), from, data)
	case 8:
		later(time.Second, data)
	}
	return true
}

func (a *adversary) some() *seenPacket { return &a.seen[a.r.IntN(len(a.seen))] }

// anyAddr returns the address of a node, or one that is nobody's.
func (a *adversary) anyAddr() transport.Addr {
	addr := a.c.nodes[a.r.IntN(len(a.c.nodes))].ep.LocalAddr()
	if a.r.IntN(4) == 0 {
		addr.Port += uint32(1 + a.r.IntN(3))
	}
	return addr
}

// act sends something of his own: an old packet again, or one made of what he has read.
func (a *adversary) act() {
	x := *a.some()
	if a.r.IntN(3) == 0 {
		x.from = a.anyAddr()
	}
	if a.r.IntN(3) == 0 {
		x.to = a.anyAddr()
	}
	kind := "replayed"
	switch a.r.IntN(6) {
	case 0, 1:
	case 2:
		x.data, kind = a.management(), "management"
	case 3:
		x.data, kind = a.quote(), "quoted"
	case 4:
		x.data, kind = a.looksSealed(), "looks sealed"
	case 5:
		x.data, kind = a.looksOpen(), "looks open"
	}
	a.did[kind]++
	a.inject(x.to, x.from, x.data)
}

// management returns a clear management packet of any operation, with right checksums, and bodies
// of packets that he has read.
func (a *adversary) management() []byte {
	body := a.clearBody()
	op := wire.Op(1 + a.r.IntN(15))
	field := a.field()
	if a.r.IntN(2) == 0 {
		field = wire.NoSession
	}
	pkt := make([]byte, wire.HeaderSize+len(body)+a.r.IntN(2)*1400)
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: uint32(len(body)), Session: field,
	}
	h.Put(pkt, 0)
	copy(pkt[wire.HeaderSize:], body)
	wire.SealMgmt(pkt, a.token())
	return pkt
}

// clearBody returns the body of some management packet that he has read, with some of its fields
// changed, and often a smaller MTU.
func (a *adversary) clearBody() []byte {
	for range 50 {
		x := a.some()
		if wire.IsSealed(x.data) || len(x.data) < wire.HeaderSize+wire.RefuseSize {
			continue
		}
		var h wire.Header
		if h.Parse(x.data) != nil || h.Type != wire.TypeMgmt {
			continue
		}
		body := bytes.Clone(x.data[wire.HeaderSize:][:h.MsgSize])
		if len(body) >= wire.ConnectSize && a.r.IntN(2) == 0 {
			binary.LittleEndian.PutUint32(body[40:], uint32(1024+a.r.IntN(300)))
		} else if a.r.IntN(2) == 0 {
			body[8+a.r.IntN(len(body)-8)] ^= byte(1 + a.r.IntN(255))
		}
		return body
	}
	return make([]byte, wire.ConnectSize)
}

// field and token return a number that names something somewhere.
func (a *adversary) field() uint32 {
	if x := a.some(); a.r.IntN(2) == 0 && len(x.data) >= 12 {
		return binary.LittleEndian.Uint32(x.data[8:]) &^ wire.KeyPhase
	}
	return uint32(a.r.IntN(16))
}

func (a *adversary) token() uint32 {
	if x := a.some(); a.r.IntN(2) == 0 && len(x.data) >= wire.HeaderSize+wire.ConnectSize {
		return binary.LittleEndian.Uint32(x.data[wire.HeaderSize+20:])
	}
	return 0
}

// quote returns the word of an endpoint that has no keys, about a packet that he has read.
func (a *adversary) quote() []byte {
	x := a.some()
	pkt := make([]byte, wire.HeaderSize+wire.NoKeysSize)
	h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpNoKeys), MsgSize: wire.NoKeysSize,
		Session: wire.NoSession}
	h.Put(pkt, 0)
	copy(pkt[wire.HeaderSize:], x.data)
	wire.SealMgmt(pkt, 0)
	return pkt
}

// looksSealed returns a packet with an index that somebody has, and a counter near those.
func (a *adversary) looksSealed() []byte {
	x := a.some()
	for range 20 {
		if wire.IsSealed(x.data) {
			break
		}
		x = a.some()
	}
	pkt := bytes.Clone(x.data)
	if wire.IsSealed(pkt) {
		n := wire.SealedCounter(pkt) + uint64(a.r.IntN(100))
		head := wire.AppendSealed(nil, n, binary.LittleEndian.Uint32(pkt[8:]))
		if a.r.IntN(8) == 0 {
			head[8+a.r.IntN(4)] ^= 1 << a.r.IntN(8)
		}
		copy(pkt, head)
	}
	return pkt
}

// looksOpen returns a packet of a session in the clear.
func (a *adversary) looksOpen() []byte {
	pkt := make([]byte, wire.HeaderSize+a.r.IntN(100))
	h := wire.Header{Type: wire.Type(a.r.IntN(10)), ReqType: typeEcho, Session: a.field(),
		MsgSize: uint32(len(pkt) - wire.HeaderSize), ReqNum: uint64(a.r.IntN(100))}
	h.Put(pkt, a.token())
	return pkt
}

// TestAdversary runs one cluster per seed in the adversary's hands. No handler runs under another
// identity than that of the caller, none twice, mallory's keys open nothing of others, nothing
// leaves in the clear, no nonce comes twice, all calls end, and when he stops everybody reaches
// everybody.
func TestAdversary(t *testing.T) {
	count := *adversarySeeds
	if testing.Short() {
		count = min(count, 40)
	}
	if raced {
		count = min(count, 10)
	}
	if *seedFlag >= 0 {
		hash := adversarySeed(t, uint64(*seedFlag), map[string]int{})
		t.Logf("trace hash %016x", hash)
		return
	}
	did := map[string]int{}
	for seed := range count {
		hash := adversarySeed(t, uint64(seed), did)
		if seed%50 == 0 {
			if again := adversarySeed(t, uint64(seed), map[string]int{}); again != hash {
				t.Errorf("the same seed gave trace hash %016x, then %016x", hash, again)
			}
		}
		if t.Failed() {
			t.Fatalf("repeat with: go test ./erpc/simtest -run TestAdversary -seed=%d -v", seed)
		}
	}
	t.Log(did)
	for _, what := range []string{"spoofed", "replayed", "management", "quoted", "looks sealed",
		"looks open", "read", "ok", "asked", "asked by mallory"} {
		if did[what] == 0 {
			t.Errorf("he never did: %s", what)
		}
	}
}

func adversarySeed(t *testing.T, seed uint64, did map[string]int) uint64 {
	for i := range 4 {
		adversaryCert(i) // before the random numbers of the seed
	}
	cryptotest.SetGlobalRandom(t, seed)
	r := rand.New(rand.NewPCG(seed, 99))
	s := &scenario{r: r, chaos: time.Duration(50+r.IntN(300)) * time.Millisecond, slots: 8}
	s.timing = erpc.Timing{
		RTOMin: 2 * time.Millisecond, RTOMax: 20 * time.Millisecond, RTOInitial: 5 * time.Millisecond,
		Heartbeat: 20 * time.Millisecond, FailureTimeout: 150 * time.Millisecond,
		ConnectTimeout: 150 * time.Millisecond, ConnectRetry: 2 * time.Millisecond,
		DisconnectLinger: 20 * time.Millisecond,
	}
	s.perPkt, s.maxPkts = 1472-24-security.Overhead, pick(r, 1, 4)
	s.c = newCluster(t, sim.Config{Seed: seed, MTU: 1472, LoopDelay: 500, PropDelay: 5000,
		Trace: tracer(t)})
	a := &adversary{c: s.c, r: r, did: did}
	s.c.wrapFor = a.tap
	s.c.onAsked = a.check
	s.c.slow = time.Millisecond
	// A dial that he has answered may fail in these ways, too.
	s.c.also = []error{erpc.ErrDenied, erpc.ErrRefused, erpc.ErrInsecure, erpc.ErrVersion}
	nodes := 3 + r.IntN(2)
	for i := range nodes {
		a.addNode(s, i, i == nodes-1)
	}
	a.on = true
	s.cancels, s.deadline = r.IntN(2) == 0, r.IntN(2) == 0
	s.work()
	if r.IntN(2) == 0 {
		n := s.c.nodes[r.IntN(nodes)]
		s.c.net.After(s.chaos/3, n.crash)
		s.c.net.After(s.chaos/2, func() {
			if n.down {
				n.start()
			}
		})
	}
	s.c.run(s.chaos)
	a.on = false
	s.heal()
	for _, t := range a.taps {
		t.in = nil
	}
	s.check(nil)
	for _, k := range s.c.calls {
		if k.err == nil && k.ends == 1 {
			did["ok"]++
		}
	}
	return s.c.net.TraceHash()
}

// addNode adds a node with a certificate of its own.
func (a *adversary) addNode(s *scenario, i int, mallory bool) {
	cfg := erpc.Config{
		TLS:   adversaryCert(i),
		Slots: 8, Credits: 8, Timing: s.timing, MaxQueue: 100, MaxSessions: 64, MaxMessage: 256 << 10,
		KeyUpdate: time.Duration(1+a.r.IntN(50)) * time.Millisecond,
	}
	if mallory {
		cfg.KeyLog = &a.log
		s.c.nodeSeed = s.c.nodes[0].seed
	} else {
		s.c.nodeSeed = a.r.Uint64() | 1
	}
	node := s.c.add(cfg, sim.EndpointConfig{})
	if mallory {
		a.mallory, a.victim = node, s.c.nodes[0]
	}
}

// identityOf is the SPIFFE ID of a node.
func identityOf(i int) string { return fmt.Sprintf("spiffe://test/node/%d", i) }

// check compares the identity under which a handler runs with that of the caller.
func (a *adversary) check(n *node, h erpc.ReqHandle, k *call) {
	a.did["asked"]++
	if k.from == a.mallory {
		a.did["asked by mallory"]++
	}
	st := h.State()
	if st == nil || st.SPIFFE() == nil {
		a.c.fail("node %d: request %d of node %d runs without an identity", n.id, k.id, k.from.id)
	} else if got := st.SPIFFE().String(); got != identityOf(k.from.id) {
		a.c.fail("node %d: request %d of node %d runs as %s", n.id, k.id, k.from.id, got)
	}
}

// adversaryCert returns the config of a node; all seeds have the same certificates.
func adversaryCert(i int) *tls.Config {
	host := fmt.Sprintf("fd00::%x", i) // as the simulator has it
	if adversaryTLS[host] == nil {
		adversaryTLS[host] = adversaryCA.Config(host, identityOf(i))
		now := time.Now()
		adversaryTLS[host].Time = func() time.Time { return now } // it is in tickets
	}
	return adversaryTLS[host].Clone()
}

var (
	adversaryCA  = sectest.NewCA("test")
	adversaryTLS = map[string]*tls.Config{}
)
