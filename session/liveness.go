package session

import (
	"github.com/userspace-rpc/erpc/wire"
)

// minPings is how many pings must go unanswered before a peer counts as lost. It
// protects a process that was itself stopped: when it goes on, the silence looks
// long, but it has not asked yet.
const minPings = 3

// Watch notices that a peer has gone. One Watch serves all sessions with a peer: a
// process that answers on one of them lives, and thousands of idle sessions need no more pings
// than one.
type Watch struct {
	lastRx     int64 // ns
	lastPing   int64 // ns
	unanswered int
}

// Heard notes that a valid packet of the peer arrived.
func (w *Watch) Heard(now int64) {
	w.lastRx = now
	w.unanswered = 0
}

// Ask says whether some session is to ping the peer now, after a silence of heartbeat
// ns. Alive is false when the peer is lost: timeout ns of silence and enough pings
// unanswered.
func (w *Watch) Ask(now, heartbeat, timeout int64) (ping, alive bool) {
	silence := now - w.lastRx
	if silence < heartbeat || now-w.lastPing < heartbeat {
		return false, true
	}
	if silence >= timeout && w.unanswered >= minPings {
		return false, false
	}
	w.lastPing = now
	w.unanswered++
	return true, true
}

// Liveness asks for one session whether the peer knows it. Either half of a session has
// one.
type Liveness struct {
	Local, LocalToken   uint32 // this side's session
	Remote, RemoteToken uint32 // the peer's
	lastRx              int64  // ns
	lastProbe           int64  // ns
	seq                 uint64
}

// Heard notes that a valid packet of the session arrived.
func (l *Liveness) Heard(now int64) { l.lastRx = now }

// Quiet reports whether for ns nothing has come and nobody has asked.
func (l *Liveness) Quiet(now, ns int64) bool { return now-l.lastRx >= ns && now-l.lastProbe >= ns }

// Probe asks the peer at once whether it knows the session: any answer shows that the
// peer lives, too. It leaves the Watch's pace and count alone: probes that follow each other faster than
// heartbeats would put off its verdict for ever, or bring it too soon after a pause of this process.
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
