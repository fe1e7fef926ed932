package erpc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
	"go.uber.org/goleak"
)

// attacker makes packets that no honest peer sends out of those that one sent.
type attacker struct {
	r        *rand.Rand
	recorded [][]byte   // packets of an earlier session and the beginning of the present one
	fresh    [64][]byte // the last ones
	learned  int
	informed bool // it knows the tokens: it leaves them alone, or computes them
	peer     transport.Addr
	buf      [memMTU]byte
}

// next returns a packet, valid until the next call, and who seems to have sent it.
func (a *attacker) next() ([]byte, transport.Addr) {
	bits := a.r.Uint64()
	from := a.peer
	src := a.recorded[uint32(bits)%uint32(len(a.recorded))]
	bits >>= 32
	if f := a.fresh[bits>>1%uint64(len(a.fresh))]; bits&1 != 0 && f != nil {
		src = f
	}
	n := copy(a.buf[:], src)
	bits = a.r.Uint64()
	x, y := int(bits>>4&0xFFF), int(bits>>16&0xFFF)
	switch bits & 15 {
	case 0, 1, 2: // bit flips
		for range 1 + x%4 {
			i := int(a.r.Uint32()) & 0x7FFFFFFF % (8 * min(n, 128))
			a.buf[i/8] ^= 1 << (i % 8)
		}
	case 3: // truncation
		n = x % (n + 1)
	case 4: // extension
		n = min(memMTU, n+1+x%64)
		copy(a.buf[len(src):n], a.recorded[y%len(a.recorded)])
	case 5, 6, 7: // the field of another packet
		other := a.recorded[y%len(a.recorded)]
		f := fields[x%len(fields)]
		copy(a.buf[f[0]:f[1]], other[f[0]:f[1]])
	case 8: // an earlier packet again
	case 9: // the same from somebody else
		from.Port = uint32(x)
	case 10, 11: // any value in any field
		f := fields[x%len(fields)]
		for i := f[0]; i < f[1]; i++ {
			a.buf[i] = byte(a.r.Uint32())
		}
	case 12: // the largest value
		f := fields[x%len(fields)]
		for i := f[0]; i < f[1]; i++ {
			a.buf[i] = 0xFF
		}
	case 13: // noise behind a header
		for i := wire.HeaderSize; i < n; i += 8 {
			binary.LittleEndian.PutUint64(a.buf[min(i, memMTU-8):], a.r.Uint64())
		}
	default: // a body of a management packet damaged, and sealed as its sender would
		if wire.Type(src[0]&15) == wire.TypeMgmt {
			token := wire.OpenMgmt(src)
			i := wire.HeaderSize + x%(n-wire.HeaderSize)
			a.buf[i] ^= byte(1 + y%255)
			wire.SealMgmt(a.buf[:n], token)
			return a.buf[:n], from
		}
		if a.informed {
			a.buf[x%n] ^= byte(1 + y%255)
		} else {
			a.buf[n-1] ^= byte(1 + y%255)
		}
	}
	if a.informed && n >= wire.HeaderSize {
		copy(a.buf[8:16], src[8:16]) // session and token
	}
	return a.buf[:n], from
}

// learn keeps an honest packet that has just been sent.
func (a *attacker) learn(pkt []byte, _ transport.Addr) {
	b := &a.fresh[a.learned%len(a.fresh)]
	*b = append((*b)[:0], pkt...)
	a.learned++
}

// fields holds the places of the header fields.
var fields = [...][2]int{{0, 1}, {1, 2}, {2, 4}, {4, 8}, {7, 8}, {8, 12}, {12, 16}, {16, 22},
	{16, 18}, {22, 24}, {21, 24}}

// traffic keeps RPCs under way and checks each.
type traffic struct {
	tb      testing.TB
	p       *memPair
	r       *rand.Rand
	strict  bool // every RPC succeeds
	flying  int
	issued  uint64
	done    uint64
	served  []uint8 // runs of the handler by request, modulo its length
	timeout time.Duration
	ruined  bool // an RPC has failed
}

func (w *traffic) handle(h erpc.ReqHandle) {
	b := h.Data()
	if len(b) >= 8 && w.strict {
		id := binary.LittleEndian.Uint64(b)
		if w.served[id%uint64(len(w.served))]++; w.served[id%uint64(len(w.served))] > 1 ||
			id >= w.issued {
			w.tb.Fatalf("request %d of %d ran twice, or was never made", id, w.issued)
		}
	}
	if h.RespondBytes(b) != nil && w.strict {
		w.tb.Error("no response")
	}
}

func (w *traffic) issue() {
	for w.flying < 4 && w.p.sess.Err() == nil {
		size := 8 + w.r.IntN(64)
		if w.r.IntN(16) == 0 {
			size = 8 + w.r.IntN(8000)
		}
		req, err := w.p.client.Alloc(size)
		if err != nil {
			w.tb.Fatal(err)
		}
		b := req.Data()
		binary.LittleEndian.PutUint64(b, w.issued)
		w.served[w.issued%uint64(len(w.served))] = 0
		for i := 8; i < len(b); i++ {
			b[i] = byte(int(w.issued) + i*i)
		}
		_, err = w.p.client.EnqueueRequest(w.p.sess,
			erpc.Request{Type: 1, Req: req, Done: w.ended, Timeout: w.timeout})
		if errors.Is(err, erpc.ErrDraining) && !w.strict {
			req.Free()
			return
		}
		if err != nil {
			w.tb.Fatal(err)
		}
		w.issued++
		w.flying++
	}
}

func (w *traffic) ended(c erpc.Completion) {
	w.flying--
	w.done++
	w.ruined = w.ruined || c.Err != nil
	if w.strict && (c.Err != nil || !bytes.Equal(c.Req.Data(), c.Resp.Data())) {
		w.tb.Fatalf("live traffic is harmed: %v", c.Err)
	}
	spoil(c.Req)
	if c.Resp != nil {
		spoil(c.Resp)
	}
}

// record runs traffic and returns packets of every kind that come to either side.
func record(p *memPair, w *traffic) (toClient, toServer [][]byte) {
	seen := map[[2]byte]int{}
	tap := func(list *[][]byte) func([]byte, transport.Addr) {
		return func(pkt []byte, _ transport.Addr) {
			kind := [2]byte{pkt[0], pkt[1]}
			if seen[kind]++; seen[kind] <= 200 {
				*list = append(*list, bytes.Clone(pkt))
			}
		}
	}
	p.cend.tap, p.send.tap = tap(&toClient), tap(&toServer)
	traffic := func() {
		for end := w.done + 300; w.done < end; p.step() {
			w.issue()
		}
		p.until(func() bool { return w.flying == 0 })
	}
	traffic()
	p.net.now += 17e8 // a silence, so that the client asks
	p.step()
	p.step()
	p.step()
	old := p.sess
	_ = p.client.CloseSession(old)
	p.step()
	p.step()
	p.connect()
	traffic()
	p.cend.tap, p.send.tap = nil, nil
	return toClient, toServer
}

// TestBadInput sends millions of damaged, forged and repeated packets to both ends
// of a session in use.
func TestBadInput(t *testing.T) {
	count := 10_000_000
	if testing.Short() || invariants.Enabled {
		count = 200_000
	}
	t.Run("checksum", func(t *testing.T) { badInput(t, newMemNet(), count*3/8, false, false) })
	t.Run("bundles", func(t *testing.T) { badInput(t, newMemNet(), count/4, false, true) })
	t.Run("informed", func(t *testing.T) { badInput(t, newMemNet(), count/8, true, false) })
	t.Run("informed bundles", func(t *testing.T) { badInput(t, newMemNet(), count/8, true, true) })
	t.Run("lends", func(t *testing.T) {
		net := newMemNet()
		net.lends = true
		badInput(t, net, count/8, false, false)
	})
}

// badInput attacks. An informed attacker knows the tokens and meets no checksum: it
// may ruin the session, but nothing else.
func badInput(t *testing.T, net *memNet, count int, informed, bundles bool) {
	w := &traffic{tb: t, r: rand.New(rand.NewPCG(1, 1)), strict: !informed,
		served: make([]uint8, 1024)}
	cfg := erpc.Config{
		Checksum: !informed, MaxMessage: 64 << 10, MaxSessions: 500, NoBundles: !bundles,
	}
	p := newMemPairOn(t, net, cfg, func(n *erpc.Nexus) {
		if err := n.Register(1, erpc.Dispatch, w.handle); err != nil {
			t.Fatal(err)
		}
	})
	w.p = p
	p.tick = 20_000
	toClient, toServer := record(p, w)
	types := map[byte]bool{}
	for _, b := range append(toClient, toServer...) {
		types[b[0]&15] = true
		if b[0]&15 == byte(wire.TypeMgmt) {
			types[100+b[1]] = true
		}
	}
	kinds := []byte{0, 1, 2, 3, 4, 101, 102, 103, 105, 106, 107, 108}
	if bundles {
		kinds = []byte{0, 3, 4, 10, 101, 102, 103, 105, 106, 107, 108}
	}
	for _, k := range kinds {
		if !types[k] {
			t.Fatalf("no packet of kind %d was recorded", k)
		}
	}
	if informed {
		w.timeout = time.Millisecond
	}
	ac := &attacker{r: rand.New(rand.NewPCG(1, 2)), recorded: toClient, informed: informed,
		peer: p.send.addr}
	as := &attacker{r: rand.New(rand.NewPCG(1, 3)), recorded: toServer, informed: informed,
		peer: p.cend.addr}
	running := goleak.IgnoreCurrent()
	var heap, memory int64
	start := w.done
	for sent := 0; sent < count; sent += 80 {
		if sent >= count/10 && heap == 0 {
			heap, memory = heapInUse(), p.server.Stats().Memory+p.client.Stats().Memory
		}
		for range 64 {
			pkt, from := as.next()
			p.send.put(pkt, nil, &from)
		}
		for range 16 {
			pkt, from := ac.next()
			p.cend.put(pkt, nil, &from)
		}
		if w.ruined && informed {
			_ = p.client.CloseSession(p.sess)
			p.until(func() bool { return w.flying == 0 })
			p.connect()
			w.ruined = false
		}
		w.issue()
		p.cend.tap, p.send.tap = ac.learn, as.learn
		p.step()
		p.cend.tap, p.send.tap = nil, nil
	}
	// Connects with good cookies, sent again after their sessions ended, make sessions
	// that live until the server finds that their client does not know them.
	if n := p.server.Sessions(); n > 10 && !informed || n > 100 {
		t.Errorf("%d sessions at the server", n)
	}
	if h := heapInUse(); h > heap+1<<20 {
		t.Errorf("heap grew from %d to %d bytes", heap, h)
	}
	if m := p.server.Stats().Memory + p.client.Stats().Memory; m > memory+4<<20 {
		t.Errorf("buffer memory grew from %d to %d bytes", memory, m)
	}
	if err := goleak.Find(running); err != nil {
		t.Error(err)
	}
	p.until(func() bool { return w.flying == 0 })
	if !informed && p.sess.Err() != nil {
		t.Error(p.sess.Err())
	}
	t.Logf("%d packets, %d RPCs meanwhile; server %+v", count, w.done-start, p.server.Stats().Protocol)
	if w.done-start < uint64(count/2000) {
		t.Errorf("only %d RPCs meanwhile", w.done-start)
	}
	p.close()
}

// TestWrongSender: a packet that is right in all but its sender does nothing.
func TestWrongSender(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		ran := 0
		p := newMemPair(t, erpc.Config{Checksum: checksum}, func(n *erpc.Nexus) {
			if err := n.Register(1, erpc.Dispatch,
				func(h erpc.ReqHandle) { ran++; _ = h.RespondBytes(nil) }); err != nil {
				t.Fatal(err)
			}
		})
		req, _ := p.client.Alloc(10)
		done := 0
		_, err := p.client.EnqueueRequest(p.sess,
			erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
				done++
				c.Resp.Free()
			}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.client.RunOnce(); err != nil {
			t.Fatal(err)
		}
		p.send.slots[(p.send.tail-1)%memRing].from.Port = 77
		p.step()
		if ran != 0 {
			t.Error("the handler ran for a stranger")
		}
		p.until(func() bool { return done == 1 }) // repeated by the client itself
		if ran != 1 {
			t.Errorf("the handler ran %d times", ran)
		}
		req.Free()
		p.close()
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// FuzzEndpoint feeds packets to a client and a server in use. The input is a row of packets: a byte
// that names the receiver, and says whether session and token are to be made right or what else a
// reader of the network does, a byte for the length, and that many bytes. Speaks makes one side
// that of an earlier release.
func FuzzEndpoint(f *testing.F) {
	w := &traffic{tb: f, r: rand.New(rand.NewPCG(1, 1)), served: make([]uint8, 1024)}
	p := newMemPair(f, fuzzConfig, w.register)
	w.p = p
	toClient, toServer := record(p, w)
	p.close()
	for side, list := range [][][]byte{toServer, toClient} {
		for i, pkt := range list {
			if i%16 == 0 && len(pkt) < 256 {
				f.Add(append([]byte{byte(side), byte(len(pkt))}, pkt...), byte(i%3))
				f.Add(append([]byte{byte(side | 2), byte(len(pkt))}, pkt...), byte(i%3))
			}
		}
	}
	addAimed(func(in []byte) {
		for speaks := range byte(3) {
			f.Add(in, speaks)
		}
	})
	f.Fuzz(fuzzEndpoint)
}

// fuzzConfig makes endpoints that are cheap to make, with tokens that are the same each time.
var fuzzConfig = erpc.Config{Slots: 2, Credits: 4, MaxMessage: 16 << 10, MaxSessions: 8, Burst: 8,
	MaxBackground: 1, MaxQueue: 16,
	Simulation: erpc.Simulation{Seed: 3}}

func (w *traffic) register(n *erpc.Nexus) {
	if err := n.Register(1, erpc.Dispatch, w.handle); err != nil {
		w.tb.Fatal(err)
	}
}

func fuzzEndpoint(t *testing.T, data []byte, speaks byte) {
	w := &traffic{tb: t, r: rand.New(rand.NewPCG(1, 1)), served: make([]uint8, 64),
		timeout: 50 * time.Millisecond}
	sides := [2]erpc.Config{fuzzConfig, fuzzConfig}
	if speaks %= 3; speaks > 0 {
		sides[speaks-1] = old(fuzzConfig)
	}
	p := newMemEnds(t, newMemNet(), sides[0], sides[1], w.register)
	p.connect()
	w.p = p
	p.tick = 100_000
	var r reader
	r.watch(p)
	p.connect() // while it is read
	w.issue()
	p.step()
	for len(data) >= 2 {
		how, n := data[0], min(int(data[1]), len(data)-2)
		pkt := bytes.Clone(data[2 : 2+n])
		data = data[2+n:]
		if !r.attack(p, how, pkt) {
			side := int(how & 1)
			if how&2 != 0 && n >= wire.HeaderSize && r.last[side] != nil {
				copy(pkt[8:16], r.last[side][8:16])
			}
			r.put(p, side, pkt, nil)
		}
		w.issue()
		p.step()
	}
	p.until(func() bool { return w.flying == 0 })
	p.close()
}
