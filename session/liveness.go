package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/packet"
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
	lastRx     monotime.Time
	lastPing   monotime.Time
	unanswered int
}

// Heard notes that a valid packet of the peer arrived.
func (w *Watch) Heard(now monotime.Time) {
	w.lastRx = now
	w.unanswered = 0
}

// HeardSince reports whether a packet of the peer has arrived after t.
func (w *Watch) HeardSince(t monotime.Time) bool { return w.lastRx > t }

// PingAfter returns the silence after which a peer is pinged first. The pings that follow one
// without answer come each heartbeat, so there is time for minPings of them within timeout. Without
// that bound it is idleBeats heartbeats, and it is one at least.
func PingAfter(heartbeat, timeout time.Duration) time.Duration {
	return min(max(timeout-minPings*heartbeat, heartbeat), idleBeats*heartbeat)
}

// idleBeats bounds two times: how long a restart of an idle peer stays unnoticed, and, as
// FailureTimeout less this many heartbeats, the shortest pause of a peer that is taken for its end.
const idleBeats = 3

// PingDue says whether some session is to ping the peer now, after a silence of quiet at first, and
// then each heartbeat. Alive is false when the peer is lost: a silence of timeout and enough pings
// unanswered.
func (w *Watch) PingDue(
	now monotime.Time, quiet, heartbeat, timeout time.Duration,
) (ping, alive bool) {
	silence := now.Sub(w.lastRx)
	if silence < quiet || now.Sub(w.lastPing) < heartbeat {
		return false, true
	}
	if silence >= timeout && w.unanswered >= minPings {
		return false, false
	}
	w.lastPing = now
	w.unanswered++
	return true, true
}

// Liveness asks for one session whether the peer knows it. Either half of a session has one.
type Liveness struct {
	lastRx    monotime.Time
	lastProbe monotime.Time
	seq       uint64
}

// Heard notes that a valid packet of the session arrived.
func (l *Liveness) Heard(now monotime.Time) { l.lastRx = now }

// HeardSince reports whether a packet of the session came after a time.
func (l *Liveness) HeardSince(t monotime.Time) bool { return l.lastRx > t }

// Quiet reports whether for d nothing has come and nobody has asked.
func (l *Liveness) Quiet(now monotime.Time, d time.Duration) bool {
	return now.Sub(l.lastRx) >= d && now.Sub(l.lastProbe) >= d
}

// Probe asks the peer at once whether it knows the session: any answer shows that the peer
// lives, too. It leaves the Watch's pace and count alone: probes that follow each other faster
// than heartbeats would put off its verdict for ever, or bring it too soon after a pause of this
// process. Seq is random: who cannot read the network cannot answer in the peer's place, or say
// that the question came back.
func (l *Liveness) Probe(e *End, seq uint64, now monotime.Time, out *Out) {
	l.lastProbe = now
	l.seq = seq
	l.send(e, wire.OpPing, l.seq, out)
}

// PingAt sends a ping of no session by an association to an address where its peer may be.
func PingAt(to *packet.Addr, via uint32, seq uint64, out *Out) {
	sendBare(to, via, wire.OpPing, seq, out)
}

// AnswerBare answers a ping of no session.
func AnswerBare(to *packet.Addr, via uint32, seq uint64, out *Out) {
	sendBare(to, via, wire.OpPong, seq, out)
}

func sendBare(to *packet.Addr, via uint32, op wire.Op, seq uint64, out *Out) {
	a := wire.Alive{Session: wire.NoSession, Seq: seq}
	out.Mgmt(to, via, wire.Version, op, wire.NoSession, 0, wire.AliveSize, 0, a.Put)
}

// Unanswered reports whether the last question has this number and nothing of the session has come
// since it was asked.
func (l *Liveness) Unanswered(seq uint64) bool { return l.seq == seq && l.lastRx <= l.lastProbe }

// Took returns how long the answer to the last question took, if it has this number.
func (l *Liveness) Took(seq uint64, now monotime.Time) (d time.Duration, ok bool) {
	return now.Sub(l.lastProbe), l.seq == seq
}

// Probed returns when the last probe was sent.
func (l *Liveness) Probed() monotime.Time { return l.lastProbe }

// Pong answers a ping with the given sequence number in a packet of its size, bytes: a padded one
// asks whether the path carries it, both ways.
func (l *Liveness) Pong(e *End, seq uint64, size int, out *Out) {
	l.sendPadded(e, wire.OpPong, seq, size, out)
}

// Disconnect tells the peer that the session ends, and asks for an answer. Taken is what
// Server.AppendTaken said of it, nothing for the client's end.
func (l *Liveness) Disconnect(e *End, taken []byte, out *Out) {
	l.seq++
	a := wire.Alive{Session: e.Local, Token: e.LocalToken, Seq: l.seq, To: e.RemoteToken}
	last(e, wire.OpDisconnect, &a, taken, out)
}

// Farewell tells the peer that the session ends, and that this side's endpoint ends too: nobody
// would hear an answer. Most systems would meet it with an ICMP message.
func (l *Liveness) Farewell(e *End, taken []byte, out *Out) {
	l.seq++
	a := wire.Alive{Session: wire.NoSession, Seq: l.seq, To: e.RemoteToken}
	last(e, wire.OpDisconnect, &a, taken, out)
}

// Drain tells the peer that this side shuts down, and takes no requests after those that it has
// taken.
func (l *Liveness) Drain(e *End, taken []byte, out *Out) {
	a := wire.Alive{Session: e.Local, Token: e.LocalToken, To: e.RemoteToken}
	last(e, wire.OpDrain, &a, taken, out)
}

// last sends a packet that may say what was taken last.
func last(e *End, op wire.Op, a *wire.Alive, taken []byte, out *Out) {
	n := wire.AliveSize + len(taken)
	out.Mgmt(&e.Peer, e.Via, e.Version, op, e.Remote, e.RemoteToken, n, 0, func(b []byte) {
		a.Put(b)
		copy(b[wire.AliveSize:], taken)
	})
}

// DrainAck answers Drain.
func (l *Liveness) DrainAck(e *End, seq uint64, out *Out) { l.send(e, wire.OpDrainAck, seq, out) }

func (l *Liveness) send(e *End, op wire.Op, seq uint64, out *Out) {
	l.sendPadded(e, op, seq, 0, out)
}

func (l *Liveness) sendPadded(e *End, op wire.Op, seq uint64, size int, out *Out) {
	a := wire.Alive{Session: e.Local, Token: e.LocalToken, Seq: seq, To: e.RemoteToken}
	out.Mgmt(&e.Peer, e.Via, e.Version, op, e.Remote, e.RemoteToken, wire.AliveSize, size, a.Put)
}

// Answer sends op (DisconnectAck, Reset or Moved) to an endpoint for a packet of a session that is
// not known here, or not under its address. It is for the session that the packet's body names, and
// never larger than the packet, whose version it has.
func Answer(to *packet.Addr, via uint32, version uint8, op wire.Op, a *wire.Alive, out *Out) {
	reply := wire.Alive{Session: wire.NoSession, Seq: a.Seq, To: a.Token}
	out.Mgmt(to, via, version, op, a.Session, a.Token, wire.AliveSize, 0, reply.Put)
}
