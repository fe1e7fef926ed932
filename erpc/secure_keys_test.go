package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// TestNewKeys: a side may have lost the keys that the other one still has: it has closed its
// sessions, and that was not heard. A new session then opens by new keys, and calls in it work
// at once. So do those after several such losses of each side in turn.
func TestNewKeys(t *testing.T) {
	for name, cfg := range restartConfigs() {
		t.Run(name, func(t *testing.T) {
			cfg.Timing.FailureTimeout = 20 * time.Second
			for losses := 1; losses <= 6; losses++ {
				for first := range 2 {
					newKeys(t, cfg, losses, first)
				}
			}
		})
	}
}

func newKeys(t *testing.T, cfg erpc.Config, losses, first int) {
	p := newErrPairOn(t, newMemNet(), cfg)
	var served *erpc.Session
	p.hold = func(h erpc.ReqHandle) {
		served = h.Session()
		_ = h.RespondBytes(h.Data())
	}
	call := func() {
		t.Helper()
		res := p.enqueue(tHold, 5000, 0)
		for end := p.net.now.Add(10 * time.Millisecond); res.ends == 0; p.step() {
			if p.net.now > end {
				t.Fatalf("%d losses, the first at side %d: no answer", losses, first)
			}
		}
		is(t, "a call", res.err, nil)
	}
	call()
	for i := range losses {
		if (first+i)%2 == 0 {
			p.send.lose = func([]byte) bool { return true }
			_ = p.client.CloseSession(p.sess)
		} else {
			p.cend.lose = func([]byte) bool { return true }
			_ = p.server.CloseSession(served)
		}
		p.tick = erpc.Time(time.Millisecond)
		p.pass(500) // the side that has closed it forgets it
		p.tick = 1000
		p.send.lose, p.cend.lose = nil, nil
		p.connect()
		call()
		call()
	}
	p.close()
}

// TestKeysByName: a server that is dialled by two names proves both, each once: further sessions by
// either name need no handshake, and all of them work.
func TestKeysByName(t *testing.T) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{PSK: testPSK})
	packets := 0
	p.cend.left = func(head, _ []byte) {
		if !sealed(head) && wire.Op(head[1]) == wire.OpCrypto {
			packets++
		}
	}
	for i, name := range []string{"one", "two", "one", "two", "three", "two", "one"} {
		before := packets
		s, err := p.client.CreateNamed(p.send.addr, name+".test")
		is(t, "a session", err, nil)
		p.until(func() bool { return s.Connected() || s.Err() != nil })
		is(t, "the session", s.Err(), nil)
		p.sess = s
		is(t, "a call", p.call(tEcho, 100).err, nil)
		if fresh := i < 2 || i == 4; (packets > before) != fresh {
			t.Errorf("session %d, by the name %s: %d packets of a handshake", i, name, packets-before)
		}
	}
	p.close()
}
