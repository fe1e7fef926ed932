package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// dialOnly are endpoints that take no sessions, in the clear and with keys.
func dialOnly() map[string]setup {
	return map[string]setup{
		"plain": {DialOnly: true},
		"psk":   {DialOnly: true, PSK: [][]byte{make([]byte, 32)}},
		"tls":   {DialOnly: true, TLS: sectest.NewCA("ca").Config("localhost", "")},
	}
}

// TestDialOnly: where no sessions are taken a Connect of any kind draws a refusal, less than half
// as long as it, and leaves nothing behind: the first one, one whose cookie is good, one of an old
// version, and one that begins a handshake.
func TestDialOnly(t *testing.T) {
	for name, set := range dialOnly() {
		t.Run(name, func(t *testing.T) {
			st := newStub(t, set)
			for nonce := range uint64(8) {
				c := wire.Connect{Nonce: nonce, Epoch: 3, Session: 8, Token: 9, Offer: st.offerOf()}
				size, from := wire.ConnectSize, stubAddr(1)
				if nonce&1 != 0 {
					body := make([]byte, wire.ConnectSize)
					c.Put(body)
					c.Cookie = st.handshakes.cookies.Make(&from, body, st.now)
				}
				if nonce&2 != 0 {
					c.Offer.Features |= wire.FeatureSeal
				}
				st.version = wire.Version
				if nonce&4 != 0 {
					st.version = wire.OldVersion
				}
				st.receive(1, wire.OpConnect, wire.NoSession, 0, size, c.Put)
				st.end.in[0].Data = fit(st.end.in[0].Data, nonce&1 != 0)
				asked := len(st.end.in[0].Data)
				st.pass(1000)
				if n := len(st.end.sent); n != 1 || 2*len(st.end.sent[0].data) > asked {
					t.Fatalf("%d packets to a Connect of %d bytes", n, asked)
				}
				var r wire.Refuse
				r.Parse(st.end.sent[0].data[wire.HeaderSize:])
				if ops := st.take(); ops[0] != wire.OpRefuse || r.Nonce != nonce ||
					r.Code != wire.CodeNoHandler {
					t.Errorf("%v %+v", ops, r)
				}
			}
			if st.Live() != 0 || st.AssocStats() != (AssocStats{}) || len(st.assocs.epochs) != 0 ||
				st.security != nil && len(st.security.halfOpen.byKey) != 0 {
				t.Error("something is kept of strangers")
			}
		})
	}
}

// fit cuts a Connect to what a first one is, unless it is padded.
func fit(pkt []byte, padded bool) []byte {
	if !padded {
		pkt = pkt[:wire.HeaderSize+wire.ConnectSize]
	}
	wire.SetToken(pkt, 0)
	wire.SealMgmt(pkt, 0)
	return pkt
}

// offerOf returns the offer that the stub would make itself.
func (st *stub) offerOf() wire.Offer {
	path := st.port.PathTo(transport.Addr{})
	return st.paths.offer(session.MinMTU, 0, &path)
}

// TestDialOnlyBudget: refusals have the budget of first Connects, whatever the Connects say, and
// damaged ones draw none.
func TestDialOnlyBudget(t *testing.T) {
	for name, set := range dialOnly() {
		t.Run(name, func(t *testing.T) {
			st := newStub(t, set)
			for nonce := range uint64(firstsAtOnce + 500) {
				c := wire.Connect{Nonce: nonce + 1, Epoch: 3, Session: 8, Token: 9, Offer: st.offerOf()}
				c.Cookie[0] = byte(nonce & 1)
				st.receive(int(nonce), wire.OpConnect, wire.NoSession, 0, wire.ConnectSize, c.Put)
				st.end.in[nonce].Data = fit(st.end.in[nonce].Data, false)
			}
			st.pass(0)
			if n := len(st.take()); n != firstsAtOnce || st.Stats().DropConnects != 500 {
				t.Errorf("%d answers, %d dropped", n, st.Stats().DropConnects)
			}
			c := wire.Connect{Nonce: 1, Session: 8, Token: 9, Offer: st.offerOf()}
			st.receive(1, wire.OpConnect, wire.NoSession, 0, wire.ConnectSize, c.Put)
			st.end.in[0].Data = fit(st.end.in[0].Data, false)
			st.end.in[0].Data[wire.HeaderSize+3] ^= 1
			if st.pass(1e9); len(st.take()) != 0 {
				t.Error("a damaged Connect was answered")
			}
		})
	}
}
