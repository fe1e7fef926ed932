package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// sendPart queues packet k of request num, with size bytes of payload.
func (e *End) sendPart(o *Out, num uint64, k uint32, size int) string {
	h := wire.Header{Type: wire.TypeReq, ReqType: 7, MsgSize: 1 << 20, ReqNum: num, PktNum: k}
	head, data := make([]byte, wire.HeaderSize), make([]byte, size)
	binary.LittleEndian.PutUint32(data, k)
	e.send(o, &h, head, data)
	return fmt.Sprint(e.Peer.Port, e.Remote, num, k, size)
}

// readParts returns the packets in the datagrams for each peer's request, in the order in which
// they leave.
func readParts(tb testing.TB, tx []Tx) map[string][]string {
	got := map[string][]string{}
	for i := range tx {
		ps := []dgram{flatten(tx[i])}
		if wire.IsBundle(tx[i].Head) {
			ps = unbundle(tb, &tx[i], false)
		}
		for _, p := range ps {
			var h wire.Header
			if err := h.Parse(p.raw); err != nil {
				tb.Fatal(err)
			}
			size := len(p.raw) - wire.HeaderSize
			key := fmt.Sprint(tx[i].Dst.Port, h.Session, h.ReqNum)
			got[key] = append(got[key], fmt.Sprint(tx[i].Dst.Port, h.Session, h.ReqNum, h.PktNum, size))
		}
	}
	return got
}

// place is a request and how many of its packets were queued.
type place struct {
	num uint64
	k   uint32
}

// TestTrains: the full packets of a batch for one peer leave in one run, also if others are queued
// between them. Packets of a request keep their order, all of them leave
// once, and what could not be sent before leaves first.
func TestTrains(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		peers := make([][]*End, 1+rnd.IntN(3))
		for i := range peers {
			peers[i], _ = linked(1+rnd.IntN(3), 1400, false)
			for _, e := range peers[i] {
				e.Peer = packet.Addr{Port: uint32(i + 1)}
			}
		}
		o := NewOut(4, false)
		want := map[string][]string{}
		next := map[string]*place{}
		var kept []Tx
		for range 3 {
			for range rnd.IntN(300) {
				ends := peers[rnd.IntN(len(peers))]
				e := ends[rnd.IntN(len(ends))]
				slot := fmt.Sprint(e.Peer.Port, e.Remote, rnd.IntN(4))
				at := next[slot]
				if at == nil {
					at = &place{num: uint64(len(next)) << 32}
					next[slot] = at
				}
				key, size := fmt.Sprint(e.Peer.Port, e.Remote, at.num), e.PerPacket
				if rnd.IntN(3) == 0 {
					size = 4 + rnd.IntN(e.PerPacket-4)
				}
				want[key] = append(want[key], e.sendPart(o, at.num, at.k, size))
				if at.k++; size < e.PerPacket { // the last packet of the request: another one follows
					*at = place{num: at.num + 1}
				}
			}
			o.Finish(0)
			for i := range kept {
				if !bytes.Equal(o.Tx[i].Head, kept[i].Head) {
					t.Fatalf("seed %d: what was kept does not leave first", seed)
				}
			}
			checkRuns(t, seed, o.Tx[len(kept):])
			left := rnd.IntN(len(o.Tx) + 1)
			for key, ps := range readParts(t, o.Tx[:len(o.Tx)-left]) {
				if len(ps) > len(want[key]) || fmt.Sprint(ps) != fmt.Sprint(want[key][:len(ps)]) {
					t.Fatalf("seed %d: packets of %s leave in another order: %v", seed, key, ps)
				}
				want[key] = want[key][len(ps):]
			}
			o.Keep(left)
			kept = append([]Tx(nil), o.Tx...)
		}
		for key, ps := range readParts(t, o.Tx) {
			if fmt.Sprint(ps) != fmt.Sprint(want[key]) {
				t.Fatalf("seed %d: packets of %s leave in another order: %v", seed, key, ps)
			}
			delete(want, key)
		}
		for key, ps := range want {
			if len(ps) > 0 {
				t.Fatalf("seed %d: %d packets of %s never leave", seed, len(ps), key)
			}
		}
	}
}

// checkRuns checks that the full packets of a batch for one peer stand side by side.
func checkRuns(tb testing.TB, seed uint64, tx []Tx) {
	tb.Helper()
	ended := map[uint32]bool{}
	last := uint32(0)
	for i := range tx {
		port := tx[i].Dst.Port
		if wire.IsBundle(tx[i].Head) || len(tx[i].Head)+len(tx[i].Data) < 1400 {
			port = 0
		}
		if port != 0 && ended[port] {
			tb.Fatalf("seed %d: full packet %d stands apart from the others", seed, i)
		}
		if port != last {
			ended[last] = true
		}
		last = port
	}
}

// TestSmallFirst: messages of one packet leave before the full packets of a batch, whatever way
// they were queued and how many there are, and what is no message behind them.
func TestSmallFirst(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		ends, _ := linked(1+rnd.IntN(3), 1400, seed&1 != 0)
		o := NewOut(4, false)
		count := map[string]int{}
		for i := range seed >> 1 & 3 {
			ends[0].sendControl(o, &wire.Header{Type: wire.TypeRFR, ReqNum: i, PktNum: 2, MsgSize: 1})
			count["control"]++
		}
		ends[0].sendPart(o, 1<<32, 0, ends[0].PerPacket)
		for i := range uint64(rnd.IntN(200)) {
			e := ends[rnd.IntN(len(ends))]
			switch rnd.IntN(4) {
			case 0:
				ends[0].sendPart(o, 1<<32, uint32(i+1), e.PerPacket)
				count["full"]++
			case 1:
				e.put(o, i, "small") // every second one goes the short way
				count["small"]++
			case 2:
				e.put(o, i, strings.Repeat("x", 1200)) // alone
				count["small"]++
			case 3:
				e.sendControl(o, &wire.Header{Type: wire.TypeRFR, ReqNum: i, PktNum: 2, MsgSize: 1})
				count["control"]++
			}
		}
		o.Finish(0)
		const small, full, control = 0, 1, 2
		at := small
		for i := range o.Tx {
			ps := []dgram{flatten(o.Tx[i])}
			if wire.IsBundle(o.Tx[i].Head) {
				ps = unbundle(t, &o.Tx[i], seed&1 != 0)
			}
			for _, p := range ps {
				h, kind, name := p.header(), small, "small"
				if h.Type == wire.TypeRFR {
					kind, name = control, "control"
				} else if h.ReqNum >= 1<<32 {
					kind, name = full, "full"
				}
				if kind < at {
					t.Fatalf("seed %d: a %s packet in datagram %d is behind what it is to precede", seed,
						name, i)
				}
				at = kind
				count[name]--
			}
		}
		if count["small"] != 0 || count["full"] != -1 || count["control"] != 0 {
			t.Errorf("seed %d: packets are missing, or come twice: %v", seed, count)
		}
	}
}
