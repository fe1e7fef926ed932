package erpc_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// reader knows what somebody on the path reads as a session opens: its numbers and tokens. End 0 is
// the server's.
type reader struct {
	session, token [2]uint32
	last           [2][]byte     // the last honest packet to either end
	busy           bool          // the packets are the reader's own
	other          *erpc.Session // by another association, if packets are sealed
}

// watch lets a reader see what comes to both ends of a pair.
func (r *reader) watch(p *memPair) {
	p.send.tap = func(pkt []byte, _ transport.Addr) { r.read(0, pkt) }
	p.cend.tap = func(pkt []byte, _ transport.Addr) { r.read(1, pkt) }
}

func (r *reader) read(to int, pkt []byte) {
	if r.busy {
		return
	}
	r.last[to] = append(r.last[to][:0], pkt...)
}

// know makes a reader know what names a session, though nothing says it in the clear if packets are
// sealed.
func (r *reader) know(client *erpc.Session) {
	if client.Connected() {
		session, token := client.Numbers()
		r.session, r.token = [2]uint32{session[1], session[0]}, [2]uint32{token[1], token[0]}
	}
}

// aim makes a packet one for the session at an end: number, token and checksum are right. What a
// management packet says about its body's size fits the packet.
func (r *reader) aim(pkt []byte, to int) {
	if len(pkt) < wire.HeaderSize {
		return
	}
	binary.LittleEndian.PutUint32(pkt[8:], r.session[to])
	if wire.Type(pkt[0]&15) != wire.TypeMgmt {
		wire.SetToken(pkt, r.token[to])
		return
	}
	word := binary.LittleEndian.Uint32(pkt[4:])
	if most := uint32(len(pkt) - wire.HeaderSize); word&wire.MaxMsgSize > most {
		binary.LittleEndian.PutUint32(pkt[4:], word&^wire.MaxMsgSize|most)
	}
	wire.SealMgmt(pkt, r.token[to])
}

// put gives a packet to an end of a pair. From is nil for the address of the other end.
func (r *reader) put(p *memPair, to int, pkt []byte, from *transport.Addr) {
	end, peer := p.send, p.cend
	if to == 1 {
		end, peer = peer, end
	}
	if from == nil {
		from = &peer.addr
	}
	r.busy = true
	end.put(pkt, nil, from)
	r.busy = false
}

// attack does what the byte before a packet of a fuzz target says, if that is for the living
// session. It reports whether it was.
func (r *reader) attack(p *memPair, how byte, pkt []byte) bool {
	if how&fuzzAim == 0 {
		return false
	}
	var from *transport.Addr
	if how&fuzzElsewhere != 0 {
		from = &transport.Addr{IP: p.cend.addr.IP, Port: 900}
	}
	r.know(p.sess)
	to := int(how & 1)
	own, other := r.sealers(p, to, how>>fuzzWrong&3 == 2)
	enter(p, how>>fuzzState)
	if how&fuzzOther != 0 && len(pkt) > 0 {
		pkt[0] ^= (wire.Version ^ wire.OldVersion) << 4
	}
	if r.aim(pkt, to); len(pkt) < wire.HeaderSize {
		r.put(p, to, pkt, from)
		return true
	}
	w := [...]wrong{wrongNothing, wrongSeal, wrongSize, wrongLoop}[how>>fuzzWrong&3]
	if own != nil {
		w = [...]wrong{wrongSeal, wrongNothing, wrongAssociation, wrongLoop}[how>>fuzzWrong&3]
	}
	if datagram, _ := spoiled(w, pkt, own, other, nil, 1+int(how>>fuzzState)&3); datagram != nil {
		r.put(p, to, datagram, from)
	}
	return true
}

// sealers returns sessions by two associations, of the side that sends to an end; nil if packets
// are not sealed. Another says that the second one is needed.
func (r *reader) sealers(p *memPair, to int, another bool) (own, other *erpc.Session) {
	if p.sess.State() == nil {
		return nil, nil
	}
	if another && r.other == nil {
		r.other, _ = p.client.CreateNamed(p.send.addr, "other.test")
		for range 20 {
			p.step()
		}
	}
	own, other = p.sess, r.other
	if other == nil || !other.Connected() {
		other = own
	}
	if to == 1 {
		own, other = p.server.Served(own), p.server.Served(other)
	}
	if own == nil || other == nil {
		return nil, nil // it has ended
	}
	return own, other
}

// minBody is the least size of the body of a management packet.
func minBody(op wire.Op) int {
	switch op {
	case wire.OpConnect, wire.OpOpen:
		return wire.ConnectSize
	case wire.OpAccept:
		return wire.AcceptSize
	case wire.OpRefuse, wire.OpCrypto:
		return wire.RefuseSize
	}
	return wire.AliveSize
}

// mgmtPacket returns a management packet without a session.
func mgmtPacket(op wire.Op, body int) []byte {
	pkt := make([]byte, wire.HeaderSize+body)
	h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: uint32(body)}
	h.Put(pkt, 0)
	return pkt
}

// TestElsewhere: a management packet with the number and the token of a living session that comes
// from another address than the peer's draws nothing and changes nothing, be it as short as its
// operation allows, with a body of zeros or of ones.
func TestElsewhere(t *testing.T) {
	configs := restartConfigs()
	configs["plain"] = erpc.Config{}
	for name, cfg := range configs {
		for op := wire.OpConnect; op <= wire.OpNoKeys; op++ {
			t.Run(fmt.Sprint(name, " ", op), func(t *testing.T) { elsewhere(t, cfg, op) })
		}
	}
}

func elsewhere(t *testing.T, cfg erpc.Config, op wire.Op) {
	p := newErrPairOn(t, newMemNet(), cfg)
	var r reader
	r.watch(p.memPair)
	p.connect()
	is(t, "a call", p.call(tEcho, 10).err, nil)
	r.know(p.sess)
	drawn := 0
	there := p.net.end(true)
	there.lose = func([]byte) bool { drawn++; return true }
	for to := range 2 {
		for _, fill := range []byte{0, 0xFF} {
			pkt := mgmtPacket(op, minBody(op))
			for i := range pkt[wire.HeaderSize:] {
				pkt[wire.HeaderSize+i] = fill
			}
			r.aim(pkt, to)
			r.put(p.memPair, to, pkt, &there.addr)
			p.step()
			p.step()
		}
	}
	if drawn != 0 {
		t.Errorf("%d packets were drawn", drawn)
	}
	is(t, "the session", p.sess.Err(), nil)
	is(t, "another call", p.call(tEcho, 10).err, nil)
	p.close()
}

// What the reader of FuzzEndpoint and FuzzSealedEndpoint does beside, in the byte before a packet's
// length.
const (
	fuzzOther     = 1 << 1 // an aimed packet has the other version of those that are spoken
	fuzzAim       = 1 << 6 // the packet is for the living session
	fuzzElsewhere = 1 << 7 // it comes from another address
	fuzzWrong     = 4      // where it stands what else is wrong, two bits
)

// addAimed gives packets of all operations and both versions, each in every state of a session,
// from its peer and from elsewhere. States are those of enter.
func addAimed(add func(in []byte)) {
	for op := wire.OpConnect; op <= wire.OpNoKeys; op++ {
		for state := range byte(fuzzStates) {
			pkt := mgmtPacket(op, minBody(op))
			var in []byte
			for _, how := range []byte{0, 1} {
				how |= fuzzAim | state<<fuzzState
				in = append(append(in, how|fuzzElsewhere, byte(len(pkt))), pkt...)
			}
			add(in)
			for _, how := range []byte{1, 2, 3, 17, 18, 19} { // in two bits what is wrong, and to whom
				how = how>>4 | how&3<<fuzzWrong | fuzzAim | state<<fuzzState
				add(append(append(in[:len(in):len(in)], how, byte(len(pkt))), pkt...))
			}
			for _, how := range []byte{0, 1, fuzzOther, fuzzOther | 1} { // it may end the session
				how |= fuzzAim | state<<fuzzState
				add(append(append(in[:len(in):len(in)], how, byte(len(pkt))), pkt...))
			}
		}
	}
}

const (
	fuzzState  = 2 // where the state is in the byte, two bits
	fuzzStates = 4
)

// enter takes a pair to another state: as it is, with the session closing, with another one
// opening, or with the server shutting down.
func enter(p *memPair, state byte) {
	switch state % fuzzStates {
	case 1:
		_ = p.client.CloseSession(p.sess)
	case 2:
		_, _ = p.client.CreateSessionTo(p.send.addr) // there may be too many
		p.run(p.client)
	case 3:
		_ = p.server.Refuse()
	}
}
