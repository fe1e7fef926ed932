package session

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// linked returns the ends of sessions with one peer, of which the numbers begin at 1, and their
// link.
func linked(n, limit int, checksum bool) ([]*End, *Link) {
	l := NewLink(limit)
	ends := make([]*End, n)
	for i := range ends {
		ends[i] = &End{Peer: serverHost, Remote: uint32(i + 1), RemoteToken: uint32(0x1111 * (i + 1))}
		ends[i].Checksum, ends[i].Version = checksum, wire.Version
		ends[i].PerPacket = limit - wire.HeaderSize
		ends[i].SetLink(&l)
	}
	return ends, &l
}

// put queues a request of one packet, every second one the short way if it can.
func (e *End) put(o *Out, num uint64, data string) {
	if num&1 != 0 && e.link.takes(len(data), e) {
		e.putWhole(o, wire.TypeReq, 7, 3, num, []byte(data))
		return
	}
	h := wire.Header{Type: wire.TypeReq, ReqType: 7, MsgSize: uint32(len(data)), ReqNum: num, Hold: 3}
	e.send(o, &h, append(make([]byte, wire.HeaderSize), data...), nil)
}

// TestBundleBytes: what two sessions send to one peer in a batch leaves in one datagram. A packet
// says of its session what the one before it did not say.
func TestBundleBytes(t *testing.T) {
	ends, _ := linked(2, 1400, false)
	o := NewOut(8, false)
	ends[0].put(o, 8, "one")
	ends[0].put(o, 9, "two")
	ends[1].put(o, 16, "three")
	ends[1].sendControl(o, &wire.Header{Type: wire.TypeRFR, ReqNum: 17, PktNum: 2, MsgSize: 1})
	if o.Packets != 4 {
		t.Errorf("%d packets are queued", o.Packets)
	}
	o.Finish(0)
	if len(o.Tx) != 1 || len(o.Tx[0].Data) != 0 || o.Tx[0].Dst != serverHost || o.Packets != 0 ||
		o.Bundled != 4 {
		t.Fatalf("%d datagrams, %d packets more, %d in bundles", len(o.Tx), o.Packets, o.Bundled)
	}
	want := strings.Join([]string{
		"3a044900" + "00000000" + "01000000" + "11110000", // 4 packets, 73 bytes
		"20070300" + "0300" + "080000000000" + hex.EncodeToString([]byte("one")),
		"20070300" + "0300" + "090000000000" + hex.EncodeToString([]byte("two")),
		"30070300" + "0500" + "100000000000" + "02000000" + "22220000" +
			hex.EncodeToString([]byte("three")),
		"01000000" + "0000" + "110000000000" + "01000000" + "0200",
	}, "")
	if got := hex.EncodeToString(o.Tx[0].Head); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestShortWay: packets leave the short way as they would by End.send, byte for byte, and answers
// begin where they begin there.
func TestShortWay(t *testing.T) {
	short := 0
	for seed := range uint64(300) {
		pool, err := msgbuf.NewPool(msgbuf.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(seed, 11))
		limit, n, sums := 1024+rnd.IntN(8000), 1+rnd.IntN(4), rnd.IntN(2) == 0
		ends, _ := linked(n, limit, sums)
		others, _ := linked(n, limit, sums)
		ends[0].Checksum, others[0].Checksum = seed%7 == 0, seed%7 == 0
		for i := range ends {
			ends[i].PerPacket, others[i].PerPacket = limit-wire.HeaderSize, limit-wire.HeaderSize
			if seed%11 == 0 { // the peer wants none
				ends[i].SetLink(nil)
				others[i].SetLink(nil)
			}
		}
		most := 1 + rnd.IntN(limit/2)
		if seed%5 == 0 {
			most = 4 // a bundle holds as many as its header can count
		}
		o, unlinked := NewOut(4, false), NewOut(4, false)
		for num := range uint64(1 + rnd.IntN(1000)) {
			e, w := ends[rnd.IntN(n)], (*End)(nil)
			w = others[e.Remote-1]
			typ := wire.Type(3 * rnd.IntN(2)) // REQ or RESP
			h := wire.Header{Type: typ, ReqType: 9, ReqNum: num, Hold: uint16(num), Session: w.Remote}
			data := make([]byte, rnd.IntN(most))
			if len(data) > 0 {
				data[len(data)-1] = byte(num)
			}
			h.MsgSize = uint32(len(data))
			w.send(unlinked, &h, append(make([]byte, wire.HeaderSize), data...), nil)
			if e.link.takes(len(data), e) {
				short++
			}
			buf, err := pool.Wrap(data)
			if num%3 > 0 {
				buf, err = pool.Alloc(len(data))
			}
			if err != nil {
				t.Fatal(err)
			}
			copy(buf.Data(), data)
			e.sendWhole(o, typ, 9, uint16(num), num, buf)
			if o.last != unlinked.last || o.at != unlinked.at || o.Packets != unlinked.Packets {
				t.Fatalf("seed %d, packet %d is at %d, %d, want %d, %d", seed, num, o.last, o.at,
					unlinked.last, unlinked.at)
			}
			if rnd.IntN(100) == 0 {
				o.Finish(0)
				unlinked.Finish(0)
			}
		}
		o.Finish(0)
		unlinked.Finish(0)
		if len(o.Tx) != len(unlinked.Tx) || o.Bundled != unlinked.Bundled {
			t.Fatalf("seed %d: %d datagrams, want %d", seed, len(o.Tx), len(unlinked.Tx))
		}
		for i := range o.Tx {
			got := append(bytes.Clone(o.Tx[i].Head), o.Tx[i].Data...)
			if !bytes.Equal(got, unlinked.Tx[i].Head) {
				t.Fatalf("seed %d, datagram %d\n%x\n%x", seed, i, got, unlinked.Tx[i].Head)
			}
		}
		_ = pool.Close() // the buffers are in use
	}
	if short < 1000 {
		t.Errorf("only %d packets went the short way", short)
	}
}

// TestBundleRules: whatever is queued, bundles are no larger than the path carries, full ones are
// padded to that, packets leave in the order of each peer, large ones alone, and no packet is
// lost or changed.
func TestBundleRules(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		limit := 1024 + rnd.IntN(8000)
		ends, _ := linked(1+rnd.IntN(4), limit, seed&1 != 0)
		others, _ := linked(2, 1024, false)
		other := packet.Addr{Port: 77}
		for _, e := range others {
			e.Peer = other
		}
		all := append(append([]*End(nil), ends...), others...)
		o := NewOut(4, false)
		for batch := range 3 {
			var want [2][]string
			for i := range rnd.IntN(700) {
				data := strings.Repeat(string(rune('a'+i%26)), rnd.IntN(40))
				e := all[rnd.IntN(len(all))]
				if rnd.IntN(20) == 0 && e.Peer != other {
					data = strings.Repeat("x", rnd.IntN(limit-wire.HeaderSize))
				}
				which := 0
				if e.Peer == other {
					which = 1
				}
				e.put(o, uint64(i), data)
				want[which] = append(want[which], data)
			}
			o.Finish(0)
			var got [2][]string
			var wasSmall [2]bool // the datagram before, to that peer
			for i := range o.Tx {
				tx, which := &o.Tx[i], 0
				if tx.Dst == other {
					which = 1
				}
				if n := len(tx.Head) + len(tx.Data); n > limit || which == 1 && n > 1024 {
					t.Fatalf("seed %d: a datagram of %d bytes", seed, n)
				}
				if !wire.IsBundle(tx.Head) {
					if n := len(tx.Head); n <= min(maxInBundle, limit/2) && wasSmall[which] {
						t.Fatalf("seed %d: a packet of %d bytes is alone", seed, n)
					} else {
						wasSmall[which] = n <= min(maxInBundle, limit/2)
					}
					got[which] = append(got[which], string(tx.Head[wire.HeaderSize:])+string(tx.Data))
					continue
				}
				wasSmall[which] = true
				for _, p := range unbundle(t, tx, which == 0 && seed&1 != 0) {
					got[which] = append(got[which], string(p.raw[wire.HeaderSize:]))
				}
			}
			for w := range want {
				if strings.Join(got[w], "|") != strings.Join(want[w], "|") {
					t.Fatalf("seed %d, batch %d: other packets came out than went in", seed, batch)
				}
			}
			o.Reset()
		}
	}
}

// TestBundleSizes: a bundle is full when no other packet of the largest head fits, or at 255
// packets. Full ones have all the size that the path carries, the last one has what it needs.
func TestBundleSizes(t *testing.T) {
	ends, _ := linked(1, 1400, false)
	o := NewOut(8, false)
	for i := range 100 {
		ends[0].put(o, uint64(i), strings.Repeat("a", 32))
	}
	o.Finish(0)
	sizes := []int{}
	for i := range o.Tx {
		sizes = append(sizes, len(o.Tx[i].Head))
	}
	const record = 12 + 32
	each := (1400-wire.BundleHeaderSize-(wire.MaxRecordHead-12)-record)/record + 1
	if len(sizes) != 4 || sizes[0] != 1400 || sizes[1] != 1400 || sizes[2] != 1400 ||
		sizes[3] != wire.BundleHeaderSize+(100-3*each)*record {
		t.Errorf("bundles of %v bytes", sizes)
	}
	o.Reset()
	ends, _ = linked(1, 60000, false)
	for i := range 300 {
		ends[0].put(o, uint64(i), "")
	}
	o.Finish(0)
	if len(o.Tx) != 2 || o.Tx[0].Head[1] != wire.MaxBundled || o.Tx[1].Head[1] != 300-wire.MaxBundled {
		t.Errorf("%d bundles, the first one of %d packets", len(o.Tx), o.Tx[0].Head[1])
	}
}

// TestBundlePadding: the padding of a bundle says nothing of what its memory held before, which may
// have been for another peer.
func TestBundlePadding(t *testing.T) {
	o := NewOut(8, false)
	for _, data := range []string{"s", ""} {
		ends, _ := linked(1, 1400, false)
		for i := range 120 {
			ends[0].put(o, uint64(i), strings.Repeat(data, 32))
		}
		o.Finish(0)
		p := o.Tx[0].Head
		end := wire.BundleHeaderSize + int(p[2]) + int(p[3])<<8
		if len(p) != 1400 || end == len(p) {
			t.Fatalf("a bundle of %d bytes, %d of them used", len(p), end)
		}
		for i, b := range p[end:] {
			if b != 0 {
				t.Fatalf("byte %d of the padding is %#x", i, b)
			}
		}
		o.Reset()
		for i := range o.bundles {
			o.bundles[i] = 0xAA
		}
	}
}

// TestBundleOrder: a packet that is alone ends the bundle before it, so that it is overtaken by
// none behind it. One for another peer does not.
func TestBundleOrder(t *testing.T) {
	ends, _ := linked(1, 1400, false)
	o := NewOut(8, false)
	large := strings.Repeat("x", 1000)
	ends[0].put(o, 1, "a")
	o.Mgmt(&clientHost, 0, wire.Version, wire.OpPing, 1, 2, wire.AliveSize, 0, func([]byte) {})
	ends[0].put(o, 2, "b")
	ends[0].put(o, 3, large)
	ends[0].put(o, 4, "c")
	o.Finish(0)
	var counts []int
	for i := range o.Tx {
		n := 1
		if wire.IsBundle(o.Tx[i].Head) {
			n = 10 * int(o.Tx[i].Head[1])
		}
		counts = append(counts, n)
	}
	if len(counts) != 4 || counts[0] != 20 || counts[1] != 1 || counts[2] != 1 || counts[3] != 1 {
		t.Errorf("datagrams of %v packets", counts)
	}
}

// TestBundleOfAnswers: an answer that was queued alone, and is in a bundle then, has its hold time
// lengthened there.
func TestBundleOfAnswers(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		for n := 1; n <= 3; n++ {
			ends, _ := linked(1, 1400, checksum)
			o := NewOut(8, false)
			for i := range n {
				h := wire.Header{Type: wire.TypeResp, Hold: 1, ReqNum: uint64(i)}
				ends[0].send(o, &h, make([]byte, wire.HeaderSize), nil)
				o.answer(false, checksum)
			}
			o.Finish(640 * time.Nanosecond)
			ps := []dgram{flatten(o.Tx[0])}
			if n > 1 {
				ps = unbundle(t, &o.Tx[0], checksum)
			}
			for i, p := range ps {
				token := wire.Token(p.raw)
				if checksum {
					token ^= wire.Checksum(p.raw, nil)
				}
				if h := p.header(); h.Hold != 11 || token != 0x1111 || len(o.Tx) != 1 {
					t.Errorf("%d answers, checksum %v: answer %d has hold %d, token %#x", n, checksum,
						i, h.Hold, token)
				}
			}
		}
	}
}

// TestBundleMixed: packets with a checksum and packets without do not share a bundle.
func TestBundleMixed(t *testing.T) {
	ends, _ := linked(2, 1400, false)
	ends[1].Checksum = true
	o := NewOut(8, false)
	for i := range 6 {
		ends[i/2%2].put(o, uint64(i), "x")
	}
	o.Finish(0)
	if len(o.Tx) != 3 {
		t.Fatalf("%d bundles", len(o.Tx))
	}
	for i := range o.Tx {
		if n := len(unbundle(t, &o.Tx[i], i == 1)); n != 2 {
			t.Errorf("bundle %d has %d packets", i, n)
		}
	}
}

// TestBundleSameNumber: sessions that the peer gave one number, since it has forgotten the one, are
// told from each other by their tokens.
func TestBundleSameNumber(t *testing.T) {
	ends, _ := linked(2, 1400, false)
	ends[1].Remote = ends[0].Remote
	o := NewOut(8, false)
	for i := range 4 {
		ends[i/2].put(o, uint64(i), "x")
	}
	o.Finish(0)
	var tokens []uint32
	for _, p := range unbundle(t, &o.Tx[0], false) {
		tokens = append(tokens, wire.Token(p.raw))
	}
	if len(o.Tx) != 1 || len(tokens) != 4 || tokens[1] != 0x1111 || tokens[2] != 0x2222 ||
		tokens[3] != 0x2222 {
		t.Errorf("%d bundles, tokens %#x", len(o.Tx), tokens)
	}
}

// TestBundleKept: bundles that a full transport did not take leave later byte for byte, and
// nothing joins them. A bundle that is given up leaves nothing open.
func TestBundleKept(t *testing.T) {
	ends, l := linked(1, 1400, true)
	o := NewOut(8, false)
	ends[0].put(o, 1, "one")
	ends[0].put(o, 1, "more")
	o.Finish(0)
	was := bytes.Clone(o.Tx[0].Head)
	o.Keep(1)
	ends[0].put(o, 2, "two")
	ends[0].put(o, 2, "more")
	o.Finish(0)
	if len(o.Tx) != 2 || !bytes.Equal(o.Tx[0].Head, was) || len(unbundle(t, &o.Tx[1], true)) != 2 {
		t.Errorf("%d datagrams, the first one %x, was %x", len(o.Tx), o.Tx[0].Head, was)
	}
	for name, forget := range map[string]func(){"Reset": o.Reset, "Flushed": o.Flushed} {
		ends[0].put(o, 3, "three")
		ends[0].put(o, 3, "more")
		forget()
		if l.buf != nil || len(o.links) > 0 || len(o.sums) > 0 || len(o.Tx) > 0 || o.Packets > 0 {
			t.Errorf("after %s: %d links, %d sums, %d packets", name, len(o.links), len(o.sums), o.Packets)
		}
		ends[0].put(o, 4, "four")
		ends[0].put(o, 4, "more")
		o.Finish(0)
		if len(o.Tx) != 1 || len(unbundle(t, &o.Tx[0], true)) != 2 {
			t.Errorf("after %s: %d datagrams", name, len(o.Tx))
		}
		o.Reset()
	}
}

// TestBundleNarrows: when the packets of one session become smaller, the bundles of its link
// become smaller at both ends, and larger again with its packets.
func TestBundleNarrows(t *testing.T) {
	p := rigParams
	p.PerPacket = 4000
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	r.bundles(4000 + wire.HeaderSize)
	r.open(0)
	r.cl.LowerCut(wire.CutSizes[1])
	if r.links[0].limit != wire.CutSizes[1] {
		t.Errorf("the client's bundles have up to %d bytes", r.links[0].limit)
	}
	ops := [2]Op{r.op(1, 100, 100), r.op(2, 100, 100)}
	for _, op := range ops {
		if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
			t.Fatal(err)
		}
	}
	r.takeClient()
	r.pump(func(uint8) int { return 100 })
	if r.links[1].limit != wire.CutSizes[1] || r.cnet.count != 1 {
		t.Errorf("the server's bundles have up to %d bytes; %d left", r.links[1].limit, r.cnet.count)
	}
	for _, op := range ops {
		giveBack(op)
	}
	r.cl.RaiseCut(5000)
	op := r.op(3, 100, 100)
	if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	r.pump(func(uint8) int { return 100 })
	for i, l := range r.links {
		if l.limit != 4000+wire.HeaderSize {
			t.Errorf("end %d has bundles of up to %d bytes once the path carries more", i, l.limit)
		}
	}
	giveBack(op)
	r.noLeak()
}

// TestBundleArena: a transport that is full for long keeps the memory of bundles from being used
// again. The memory of the batch stays bounded.
func TestBundleArena(t *testing.T) {
	ends, _ := linked(1, 8952, false)
	o := NewOut(64, false)
	for i := range 2000 {
		for range 50 {
			ends[0].put(o, uint64(i), strings.Repeat("x", 500))
		}
		o.Finish(0)
		o.Keep(1)
	}
	if n := len(o.bundles); n > maxArena || n < maxArena/2 {
		t.Errorf("%d bytes", n)
	}
}

// TestBundleAllocs: packets join bundles without allocations, also of many peers.
func TestBundleAllocs(t *testing.T) {
	const peers = 64
	var ends []*End
	for i := range peers {
		e, _ := linked(1, 1400, i&1 != 0)
		e[0].Peer.Port = uint32(i + 1)
		ends = append(ends, e[0])
	}
	o := NewOut(2*peers, false)
	head := make([]byte, wire.HeaderSize+32)
	h := wire.Header{Type: wire.TypeReq, MsgSize: 32}
	send := func() {
		for range 20 {
			for _, e := range ends {
				e.send(o, &h, head, nil)
			}
		}
		o.Finish(0)
		o.Reset()
	}
	send()
	send()
	if n := testing.AllocsPerRun(50, send); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
