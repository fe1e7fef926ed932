package erpc_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// clearRig sees all that leaves the ends of a pair whose packets are sealed.
type clearRig struct {
	*restartRig
	*unsealer
	tokens map[uint32]bool // of the sessions
	clear  map[wire.Op]int // packets of handshakes
	ops    map[byte]int    // inside sealed ones: their first byte, or 0x80 and the operation
	forged bool            // somebody else has sent Connects that name sessions
	served *erpc.Session
}

func newClearRig(t *testing.T, cfg erpc.Config) *clearRig {
	t.Helper()
	c := &clearRig{
		unsealer: &unsealer{tb: t}, tokens: map[uint32]bool{}, clear: map[wire.Op]int{},
		ops: map[byte]int{},
	}
	cfg.KeyLog = &c.log
	c.restartRig = newRestartRig(t, cfg)
	_ = c.client.CloseSession(c.sess)
	c.until(func() bool { return c.client.Sessions()+c.server.Sessions() == 0 })
	c.watch()
	return c
}

// watch looks at what leaves the ends that there are.
func (c *clearRig) watch() {
	for _, end := range c.net.ends {
		if end.memFaults != nil {
			end.left = func(head, data []byte) { c.look(append(bytes.Clone(head), data...)) }
		}
	}
}

func (c *clearRig) look(pkt []byte) {
	c.t.Helper()
	switch {
	case bytes.Equal(pkt, make([]byte, wire.HeaderSize)): // in place of one that nothing can seal
		return
	case bytes.Contains(pkt, secret):
		c.t.Errorf("a message left in the clear: % x", pkt[:min(len(pkt), 48)])
		return
	case !sealed(pkt):
		c.unsealed(pkt)
		return
	}
	plain := c.open(pkt)
	if plain == nil {
		c.t.Errorf("no key opens % x", pkt[:min(len(pkt), 48)])
		return
	}
	kind := plain[0]
	if wire.Type(kind&15) == wire.TypeMgmt {
		kind = 0x80 | plain[1]
	}
	c.ops[kind]++
}

// unsealed looks at a packet in the clear, which must be of a handshake and of no session.
func (c *clearRig) unsealed(pkt []byte) {
	c.t.Helper()
	if c.sess != nil {
		_, token := c.sess.Numbers()
		c.tokens[token[0]], c.tokens[token[1]] = true, true
	}
	var h wire.Header
	if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt {
		c.t.Errorf("% x left in the clear", pkt[:min(len(pkt), 48)])
		return
	}
	op := wire.Op(h.ReqType)
	c.clear[op]++
	named := h.Session != wire.NoSession
	switch op {
	case wire.OpConnect:
		var b wire.Connect
		b.Parse(pkt[wire.HeaderSize:])
		named = named || b.Session&wire.NoSession != wire.NoSession || b.Token != 0
	case wire.OpChallenge, wire.OpRefuse:
		named = named && !c.forged // what it repeats is of the Connect
	case wire.OpCrypto, wire.OpNoKeys:
	default:
		c.t.Errorf("%v left in the clear", op)
	}
	if named {
		c.t.Errorf("%v that names a session left in the clear", op)
	}
	if token := wire.OpenMgmt(pkt); token != 0 && c.tokens[token] {
		c.t.Errorf("%v of a session left in the clear", op)
	}
}

// work makes calls of all kinds: in bundles, of many packets, that fail, wait, and are given up,
// under loss and with full transports.
func (c *clearRig) work() {
	n := 0
	some := func([]byte) bool { n++; return n%9 == 0 }
	c.cend.lose, c.send.lose = some, some
	c.cend.takes = func(most int) int { n++; return min(most, n%5) }
	c.hold = func(h erpc.ReqHandle) { c.held = append(c.held, h) }
	var list []*result
	for i := range 40 {
		typ := []uint8{tEcho, tEcho, tEcho, tHuge, tHold, 99}[i%6]
		list = append(list, c.enqueue(typ, 20+i%4*i*60, 0))
	}
	given := c.enqueue(tHold, 100, 50*time.Millisecond)
	c.pass(2000)
	for _, h := range c.held {
		_ = h.RespondBytes(h.Data())
	}
	c.hold = func(h erpc.ReqHandle) {
		c.served = h.Session()
		_ = h.RespondBytes(h.Data())
	}
	c.held = nil
	c.until(func() bool { return ends(list) && given.ends > 0 })
	c.cend.lose, c.send.lose, c.cend.takes = nil, nil, nil
	c.silence(4 * time.Second)
}

// silence lets time pass: pings, and what is repeated.
func (c *clearRig) silence(d time.Duration) {
	tick := c.tick
	c.tick = erpc.Time(time.Millisecond)
	c.pass(int(d / time.Millisecond))
	c.tick = tick
}

// provoke gives both ends packets in the clear with right numbers and tokens, from the other end's
// address and from elsewhere.
func (c *clearRig) provoke(r *reader) {
	stranger := c.net.end(true)
	c.watch()
	r.know(c.sess)
	c.forged = true
	for op := wire.OpConnect; op <= wire.OpNoKeys; op++ {
		for to := range 2 {
			for _, from := range []*transport.Addr{nil, &stranger.addr} {
				pkt := mgmtPacket(op, minBody(op))
				a := wire.Alive{Session: r.session[1-to], Token: r.token[1-to], To: r.token[to]}
				if minBody(op) == wire.AliveSize {
					a.Put(pkt[wire.HeaderSize:])
				}
				r.aim(pkt, to)
				r.put(c.memPair, to, pkt, from)
			}
		}
		c.step()
	}
}

// TestNothingInTheClear: all that leaves an endpoint that demands security is sealed, in all states
// of its sessions: as they open, work, are silent, change keys, move, shut down, are closed by
// either side, lost, or known to one side alone. The only packets that are not are those of
// handshakes, and they carry no message.
func TestNothingInTheClear(t *testing.T) {
	ways := map[string]func(c *clearRig){
		"client closes": func(c *clearRig) { _ = c.client.CloseSession(c.sess) },
		"server closes": func(c *clearRig) { _ = c.server.CloseSession(c.served) },
		"closed unheard": func(c *clearRig) {
			c.send.lose = func([]byte) bool { return true }
			_ = c.client.CloseSession(c.sess)
			c.silence(time.Second)
			c.send.lose = nil
			c.connect()
			c.silence(4 * time.Second)
		},
		"shuts down": func(c *clearRig) { _ = c.server.Refuse() },
		"restarts":   func(c *clearRig) { c.restart() },
		"client ends": func(c *clearRig) {
			_ = c.client.Close()
			c.client = c.another(c.cend, 70)
		},
		"moves": func(c *clearRig) {
			c.rebind()
			c.watch()
			c.call(tEcho, 5000)
			c.call(tEcho, 20)
		},
		"lost": func(c *clearRig) { c.cend.deaf, c.send.deaf = true, true },
	}
	for name, cfg := range restartConfigs() {
		for way, happens := range ways {
			t.Run(fmt.Sprint(name, " ", way), func(t *testing.T) { inTheClear(t, cfg, happens) })
		}
	}
}

func inTheClear(t *testing.T, cfg erpc.Config, happens func(c *clearRig)) {
	cfg.KeyUpdate = 100 * time.Millisecond
	cfg.Slots, cfg.Credits = 16, 16
	c := newClearRig(t, cfg)
	var r reader
	r.watch(c.memPair)
	c.connect() // and close it, unused: keys may go before the answer to that leaves
	_ = c.client.CloseSession(c.sess)
	c.until(func() bool { return c.client.Sessions()+c.server.Sessions() == 0 })
	c.connect()
	c.work()
	c.provoke(&r)
	c.call(tHold, 10)
	for range 6 {
		c.enqueue(tHold, 6000, 0)
	}
	c.step()
	happens(c)
	if c.sess.Err() == nil {
		c.step()
		c.provoke(&r)
	}
	c.silence(5 * time.Second)
	for _, op := range []wire.Op{wire.OpOpen, wire.OpAccept, wire.OpPing, wire.OpPong} {
		if c.ops[0x80|byte(op)] == 0 {
			t.Errorf("no %v left", op)
		}
	}
	for _, typ := range []wire.Type{wire.TypeReq, wire.TypeResp, wire.TypeRFR, wire.TypeBundle} {
		if c.ops[byte(typ)|wire.Version<<4] == 0 {
			t.Errorf("no %v left", typ)
		}
	}
	c.end()
}
