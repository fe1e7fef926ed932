package session

import (
	"github.com/userspace-rpc/erpc/wire"
)

// minPings is how many pings must go unanswered before a peer counts as lost. It
// protects a process that was itself stopped: when it goes on, the silence looks
// long, but it has not asked yet.
const minPings = 3

// Liveness watches one session's peer: it pings after silence and gives up after
// FailureTimeout. Either half of a session has one.
type Liveness struct {
	Local, LocalToken   uint32 // this side's session
	Remote, RemoteToken uint32 // the peer's
	lastRx              int64  // ns
	lastPing            int64  // ns; Tick's
	lastProbe           int64  // ns; Probe's
	unanswered          int
	seq                 uint64
}

// Heard notes that a valid packet of the session arrived.
func (l *Liveness) Heard(now int64) {
	l.lastRx = now
	l.unanswered = 0
}

// Tick pings after a silence of heartbeat ns, and reports false when the peer is
// lost: timeout ns of silence and enough pings unanswered.
func (l *Liveness) Tick(now, heartbeat, timeout int64, out *Out) bool {
	silence := now - l.lastRx
	if silence < heartbeat || now-l.lastPing < heartbeat {
		return true
	}
	if silence >= timeout && l.unanswered >= minPings {
		return false
	}
	l.lastPing = now
	l.unanswered++
	l.ping(out)
	return true
}

// Probe asks the peer at once whether it knows the session. It leaves Tick's pace
// and count alone: probes that follow each other faster than heartbeats would put
// off Tick's verdict for ever, or bring it too soon after a pause of this process.
func (l *Liveness) Probe(now int64, out *Out) {
	l.lastProbe = now
	l.ping(out)
}

// Probed returns when the last probe was sent, ns.
func (l *Liveness) Probed() int64 { return l.lastProbe }

func (l *Liveness) ping(out *Out) {
	l.seq++
	l.send(wire.OpPing, l.seq, out)
}

// Pong answers a ping with the given sequence number.
func (l *Liveness) Pong(seq uint64, out *Out) { l.send(wire.OpPong, seq, out) }

// Disconnect tells the peer that the session ends.
func (l *Liveness) Disconnect(out *Out) {
	l.seq++
	l.send(wire.OpDisconnect, l.seq, out)
}

func (l *Liveness) send(op wire.Op, seq uint64, out *Out) {
	a := wire.Alive{Session: l.Local, Token: l.LocalToken, Seq: seq, To: l.RemoteToken}
	out.Mgmt(op, l.Remote, l.RemoteToken, wire.AliveSize, 0, a.Put)
}

// Answer sends op (DisconnectAck or Reset) for a packet of a session that is not
// known here. It goes where the packet's body says, and is never larger than it.
func Answer(op wire.Op, a *wire.Alive, out *Out) {
	reply := wire.Alive{Session: wire.NoSession, Seq: a.Seq, To: a.Token}
	out.Mgmt(op, a.Session, a.Token, wire.AliveSize, 0, reply.Put)
}
