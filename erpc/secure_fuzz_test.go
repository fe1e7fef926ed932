package erpc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// FuzzSealedEndpoint feeds packets to a client and a server whose packets are sealed while a
// session opens and is in use. The input is a row of packets: a byte that says to whom and what
// is made right, or what else a reader of the network does, a byte for the length, and that many
// bytes.
func FuzzSealedEndpoint(f *testing.F) {
	m := newFuzzPair(f)
	for side := range 2 {
		end := m.net.ends[side]
		end.tap = func(pkt []byte, _ transport.Addr) {
			if n := min(len(pkt), 255); n > 24 {
				f.Add(append([]byte{byte(1 - side), byte(n)}, pkt[:n]...))
				f.Add(append([]byte{byte(1-side) | 4, byte(n)}, pkt[:n]...))
			}
		}
	}
	m.connect()
	m.close()
	addAimed(func(in []byte) { f.Add(in) })
	f.Fuzz(fuzzSealed)
}

func newFuzzPair(tb testing.TB) *memPair {
	cfg := fuzzConfig
	cfg.PSK = testPSK
	return newMemPair(tb, cfg, func(n *erpc.Nexus) {
		err := n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) })
		if err != nil {
			tb.Fatal(err)
		}
	})
}

func fuzzSealed(t *testing.T, data []byte) {
	p := newFuzzPair(t)
	p.tick = 100_000
	var r reader
	r.watch(p)
	p.connect() // while it is read
	for range 2 {
		s, err := p.client.CreateSessionTo(p.send.addr)
		if errors.Is(err, erpc.ErrExhausted) {
			break // the states of sessions have used them up
		} else if err != nil {
			t.Fatal(err)
		}
		p.step()
		for len(data) >= 2 {
			how, n := data[0], min(int(data[1]), len(data)-2)
			pkt := bytes.Clone(data[2 : 2+n])
			data = data[2+n:]
			if !r.attack(p, how, pkt) {
				side := int(how & 1)
				mend(pkt, r.last[side], how)
				r.put(p, side, pkt, nil)
				if how&8 != 0 {
					break // the rest is for the second session
				}
			}
			p.step()
		}
		p.until(func() bool { return s.Connected() || s.Err() != nil })
		if s.Connected() && !s.Params().Sealed {
			t.Fatalf("open without security: %+v", s.Params())
		}
	}
	p.tick = erpc.Time(time.Millisecond)
	p.close()
}

// mend makes right what a stranger could: session, nonce and checksum are those of an honest
// packet.
func mend(pkt, honest []byte, how byte) {
	if how&4 == 0 || len(pkt) < wire.HeaderSize || len(honest) < wire.HeaderSize+8 {
		return
	}
	copy(pkt[8:12], honest[8:12])
	if wire.Type(pkt[0]&15) != wire.TypeMgmt {
		return
	}
	if how&16 != 0 && len(pkt) >= wire.HeaderSize+8 {
		copy(pkt[wire.HeaderSize:][:8], honest[wire.HeaderSize:][:8])
	}
	if how&32 != 0 { // the whole of it is body
		flags := binary.LittleEndian.Uint32(pkt[4:]) &^ wire.MaxMsgSize
		binary.LittleEndian.PutUint32(pkt[4:], flags|uint32(len(pkt)-wire.HeaderSize))
	}
	wire.SealMgmt(pkt, wire.OpenMgmt(bytes.Clone(honest)))
}
