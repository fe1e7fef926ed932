package erpc_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// sealedPair is an errPair whose endpoints seal what they send each other.
type sealedPair struct {
	*errPair
	client, server *erpc.TestSealer
}

func newSealedPair(t *testing.T, lends bool, cfg erpc.Config) *sealedPair {
	t.Helper()
	net := newMemNet()
	net.lends = lends
	p := &sealedPair{errPair: newErrPairOn(t, net, cfg)}
	is(t, "close", p.errPair.client.CloseSession(p.sess), nil)
	p.until(func() bool { return p.errPair.server.Sessions()+p.errPair.client.Sessions() == 0 })
	atClient, atServer := p.errPair.client.Seal(), p.errPair.server.Seal()
	p.connect()
	p.client, p.server = atClient[p.send.addr], atServer[p.cend.addr]
	return p
}

// TestSeam: what leaves for a peer is sealed once, all packets of a burst in one call, after hold
// times are written, and fits the path. What a full transport keeps leaves as it is.
func TestSeam(t *testing.T) {
	for _, lends := range []bool{false, true} {
		p := newSealedPair(t, lends, erpc.Config{Slots: 8, Credits: 16})
		secret := []byte("\x00\x07\x0e\x15\x1c\x23\x2a\x31\x38\x3f\x46\x4d") // of fillPattern
		tap := func(pkt []byte, _ transport.Addr) {
			if len(pkt) > memMTU || bytes.Contains(pkt, secret) {
				t.Errorf("a packet of %d bytes, % x", len(pkt), pkt[:min(len(pkt), 48)])
			}
		}
		p.cend.tap, p.send.tap = tap, tap
		p.hold = func(h erpc.ReqHandle) {
			p.net.now = p.net.now.Add(100 * time.Microsecond) // the hold time is written again
			_ = h.RespondBytes(h.Data())
		}
		dice := uint32(5)
		roll := func(n uint32) uint32 {
			dice = dice*1664525 + 1013904223
			return dice >> 8 % n
		}
		p.cend.takes = func(n int) int { return min(n, int(roll(4))) }
		p.send.takes = p.cend.takes
		lose := func([]byte) bool { return roll(20) == 0 }
		p.cend.lose, p.send.lose = lose, lose
		var calls []*result
		for i := range 60 {
			typ := uint8(tEcho)
			switch i % 3 {
			case 0:
				typ = tHuge
			case 1:
				typ = tHold
			}
			calls = append(calls, p.enqueue(typ, 16+i*i*3, 0))
		}
		p.until(func() bool {
			for _, res := range calls {
				if res.ends == 0 {
					return false
				}
			}
			return true
		})
		for _, res := range calls {
			is(t, "a call", res.err, nil)
		}
		for name, s := range map[string]*erpc.TestSealer{"client": p.client, "server": p.server} {
			if s.Twice != 0 || s.Refused != 0 || s.Packets < 60 || s.Calls >= s.Packets {
				t.Errorf("lends %v, %s: %+v", lends, name, *s)
			}
		}
		if n := p.sess.Params().PerPacket; n != memMTU-wire.HeaderSize-12 {
			t.Errorf("%d bytes per packet", n)
		}
		p.cend.lose, p.send.lose, p.cend.takes, p.send.takes = nil, nil, nil, nil
		p.close()
	}
}

// TestSeamRefuses: a packet that was changed, or comes twice, is dropped before anything is noted:
// it is no sign of life.
func TestSeamRefuses(t *testing.T) {
	cfg := erpc.Config{Timing: erpc.Timing{FailureTimeout: time.Second}}
	p := newSealedPair(t, false, cfg)
	var stored [][]byte
	p.cend.tap = func(pkt []byte, _ transport.Addr) { stored = append(stored, bytes.Clone(pkt)) }
	is(t, "a call", p.call(tEcho, 10).err, nil)
	p.pass(3000)
	p.cend.tap = nil
	p.send.deaf = true
	p.tick = 1_000_000
	for end := p.net.now.Add(10 * time.Second); p.sess.Err() == nil && p.net.now < end; p.step() {
		for i, pkt := range stored {
			own := bytes.Clone(pkt)
			if i&1 == 0 {
				own[len(own)-1-i] ^= 4
			}
			p.cend.put(own, nil, &p.send.addr)
		}
	}
	is(t, "the session", p.sess.Err(), erpc.ErrPeerLost)
	if p.client.Opened > p.server.Packets || p.client.Refused == 0 || p.published().DropSealed == 0 {
		t.Errorf("%d packets refused, %d were sent; %+v", p.published().DropSealed, p.server.Packets, *p.client)
	}
	p.send.deaf = false
	p.close()
}

// TestSeamAfterDrop: when a full transport has made the endpoint drop a batch, nothing of it counts
// as sealed any more.
func TestSeamAfterDrop(t *testing.T) {
	p := newSealedPair(t, false,
		erpc.Config{Slots: 32, Credits: 32, Burst: 1, NoBundles: true})
	secret := []byte("\x00\x07\x0e\x15\x1c\x23\x2a\x31\x38\x3f\x46\x4d") // of fillPattern
	p.send.tap = func(pkt []byte, _ transport.Addr) {
		if bytes.Contains(pkt, secret) {
			t.Error("a packet left that is not sealed")
		}
	}
	p.cend.takes = func(int) int { return 0 }
	var calls []*result
	for range 20 {
		calls = append(calls, p.enqueue(tEcho, 100, 0))
	}
	if _, err := p.errPair.client.RunOnce(); err != nil {
		t.Fatal(err)
	}
	p.cend.takes = nil // the batch has been dropped
	calls = append(calls, p.enqueue(tEcho, 100, 0))
	for _, res := range calls {
		p.until(func() bool { return res.ends > 0 })
		is(t, "a call", res.err, nil)
	}
	if n := p.published().TxDropped; n != 20 {
		t.Errorf("%d packets were dropped", n)
	}
	p.close()
}
