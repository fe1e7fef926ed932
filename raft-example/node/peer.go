package node

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// peer is another replica, as this one talks to it.
type peer struct {
	n                   *Node
	id                  uint64
	addr                string
	sess                *erpc.Session
	in                  *erpc.Session // the last one in which it sent requests, and was trusted to
	out                 *erpc.Session // the last one of sess that was trusted
	since               uint64        // replica.Changed then
	greeting, announces bool          // it was not answered yet; says is the peer's own

	denial  denial           // why it takes nothing of this replica
	disowns bool             // it says that this replica is no member
	asked   bool             // whether it knows this replica's log, and has not answered yet
	said    *erpc.Session    // in that it has said hello last
	met     *erpc.Session    // of sess, in that it has answered this one's
	says    *Hello           // its last one; nil: none
	other   error            // why it does not suit
	log     uint64           // its log's identity, 0 before it is known
	proved  bool             // its last header had that
	open    []erpc.ReqHandle // its requests that are not answered yet
	old     int              // of them, how many were open at the last tick
	buf     []byte           // messages to it
	appends appends          // of them, and behind them
	isOut   bool             // it is in Node.touched
	held    monotime.Time    // since when buf waits in a crowded session; 0: it does not
	snap    *transfer        // to it
	done    erpc.Continuation
	alone   erpc.Continuation // of appends that travel alone
}

const headerSize = 40

// maxQueued is how many requests may wait for a slot; more messages are lost, as Raft allows.
const maxQueued = 64

// The verdicts of a receiver.
const (
	taken = iota
	wrongCluster
	wrongReplica
	foreignLog
	malformed
	notYet // the sender's log is new, and the disk does not know it yet
	stranger
	unsaid // the sender is to say hello first
	otherFormat
	otherLease
	otherRole
	lapsed // a piece of a snapshot whose receipt is over
)

var verdicts = [...]error{nil, ErrCluster, ErrReplica, ErrForeignLog, ErrBadMessage, errNotYet,
	ErrStranger, errUnsaid, ErrFormat, ErrLease, ErrRole, errLapsed}

var errNotYet = errors.New("node: the sender is not known on the disk yet")

var errLapsed = errors.New("node: this transfer of a snapshot is over: no piece came for too " +
	"long, or another one has begun; the leader sends a new one")

func (n *Node) appendHeader(b []byte, verdict, to uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, verdict)
	b = binary.LittleEndian.AppendUint64(b, n.cfg.Cluster)
	b = binary.LittleEndian.AppendUint64(b, n.cfg.ID)
	b = binary.LittleEndian.AppendUint64(b, to)
	return binary.LittleEndian.AppendUint64(b, n.cfg.Log)
}

// check reads a header that came in a session and finds its sender.
func (n *Node) check(s *erpc.Session, b []byte) (p *peer, body []byte, verdict uint64) {
	if len(b) < headerSize {
		return nil, nil, malformed
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	from, log := field(2), field(4)
	switch {
	case field(1) != n.cfg.Cluster:
		return nil, nil, wrongCluster
	case field(3) != n.cfg.ID || from == n.cfg.ID || from == 0:
		return nil, nil, wrongReplica
	}
	p = n.peers[from]
	if p == nil || p.since != n.rep.Changed() || s != p.in && s != p.out {
		if p = n.admit(from, s); p == nil && n.outsider(s) {
			return nil, nil, otherRole
		} else if p == nil {
			return nil, nil, stranger
		}
	}
	if p.log == 0 {
		p.log = n.known.durable[from]
	}
	if p.log == 0 && n.cfg.Disk != nil {
		return p, nil, n.learn(from, log)
	}
	if p.log == 0 {
		p.log = log
	}
	if p.proved = p.log == log; !p.proved {
		return nil, nil, foreignLog
	}
	return p, b[headerSize:], taken
}

// checkRequest is check of a request, which counts if its sender suits.
func (n *Node) checkRequest(s *erpc.Session, b []byte) (p *peer, body []byte, verdict uint64) {
	p, body, verdict = n.check(s, b)
	if verdict == taken {
		verdict = n.heard(p, s, b[1]&(saysHello>>8) != 0)
	}
	return p, body, verdict
}

// maxStrangers bounds the peers that are no members (yet): one that joins hears from
// members before it knows them.
const maxStrangers = 64

// peer returns the peer of this id, nil if there are too many strangers.
func (n *Node) peer(id uint64) *peer {
	p := n.peers[id]
	if p == nil {
		if _, member := n.rep.Member(id); !member && len(n.peers) >= maxStrangers {
			return nil
		}
		p = &peer{n: n, id: id}
		p.done, p.alone = p.onDone, p.onAlone
		n.peers[id] = p
	}
	return p
}

func (p *peer) touch() {
	if !p.isOut {
		p.isOut = true
		p.n.touched = append(p.n.touched, p)
	}
}

// onRaft handles messages of a peer.
func (n *Node) onRaft(req erpc.ReqHandle) {
	b := req.Data()
	if len(b) >= headerSize && binary.LittleEndian.Uint64(b) == foreignLog {
		n.ask(binary.LittleEndian.Uint64(b[16:]))
	}
	p, body, verdict := n.checkRequest(req.Session(), b)
	if verdict != taken {
		n.refuse(req, verdict)
		return
	}
	if err := n.step(p, body); err != nil {
		n.refuse(req, malformed)
		return
	}
	p.open = append(p.open, req)
	p.touch()
	n.work()
}

// step steps the messages in body, all or none.
func (n *Node) step(p *peer, body []byte) error {
	for rest := body; len(rest) > 0; {
		m, after, err := n.parser.Parse(rest)
		if err != nil || m.GetFrom() != p.id || m.GetTo() != n.cfg.ID {
			return errors.Join(ErrBadMessage, err)
		}
		if len(rest) == len(body) && len(after) == 0 { // one, nearly always
			n.take(m)
			return nil
		}
		rest = after
	}
	for len(body) > 0 {
		m, after, _ := n.parser.Parse(body)
		n.take(m)
		body = after
	}
	return nil
}

// take steps one message.
func (n *Node) take(m *pb.Message) {
	switch m.GetType() {
	case pb.MsgApp:
		n.charge(StepAppend, len(m.Entries))
	case pb.MsgAppResp:
		n.charge(StepAck, 1)
	}
	n.rep.Step(m)
}

// refusalsEvery is how often refusals for one reason are told.
const refusalsEvery = 10 * time.Second

func (n *Node) refuse(req erpc.ReqHandle, verdict uint64) {
	n.moved = true
	level := slog.LevelWarn
	now := n.cfg.Clock()
	if often := now < n.refusals[verdict]; often || verdict == notYet ||
		verdict >= unsaid && verdict < otherRole {
		level = slog.LevelDebug // who sends much does not fill the log; mismatches are told by meet
	} else {
		n.refusals[verdict] = now.Add(refusalsEvery)
	}
	n.cfg.Logger.Log(context.Background(), level, "peer refused", "replica", n.cfg.ID,
		"reason", verdicts[verdict], "from", req.Peer().String())
	_ = req.RespondBytes(n.appendHeader(nil, verdict, 0))
}

// Send implements replica.Host.
func (n *Node) Send(m *pb.Message) {
	p := n.peer(m.GetTo())
	if p == nil {
		return
	}
	if m.GetType() == pb.MsgApp && p.appends.waits(m) {
		return
	}
	p.buf = replica.AppendMessage(p.buf, m)
	p.touch()
}

// maxOpen is how many requests of a peer may stay open while something is being saved. The
// peer has a bounded number under way, and heartbeats need some of them.
const maxOpen = 4

// flush sends what Process left: in the answer to a request of the peer if there is
// one, else in a request. While something is being saved, requests stay open for a while: the
// answer to their messages may come soon.
func (n *Node) flush() {
	n.follow()
	keep := n.touched[:0]
	for _, p := range n.touched {
		if len(p.buf) > 0 && len(p.open) == 0 && p.crowded() {
			keep = append(keep, p)
			continue
		}
		p.held = 0
		if len(p.buf) > 0 {
			n.moved = true
			if len(p.open) > 0 && !p.lone() {
				p.respond()
			} else {
				p.request()
			}
			p.buf, p.appends.size = p.buf[:0], 0
		}
		for n.rep.Saving() && len(p.open) > maxOpen {
			n.moved = true
			p.respond()
		}
		if n.rep.Saving() && len(p.open) > 0 {
			keep = append(keep, p)
			continue
		}
		for len(p.open) > 0 {
			n.moved = true
			p.respond()
		}
		p.isOut = false
	}
	clear(n.touched[len(keep):])
	n.touched = keep
}

// crowded reports whether as many requests are under way to the peer as its session carries. Then
// messages wait for the answer to one of them, and travel together: on a long path each request
// would carry one append, and the window bounds how many are under way. They wait for a tick at
// most, since heartbeats and votes are among them, and the peer may be silent or have moved.
func (p *peer) crowded() bool {
	if addr, ok := p.n.rep.Member(p.id); !ok || p.sess == nil || !p.sess.Connected() ||
		addr != p.addr || len(p.buf) > 2*pieceSize {
		return false
	}
	inFlight, _ := p.sess.Pending()
	if inFlight < min(p.sess.Window(), p.sess.Params().Slots) {
		return false
	}
	now := p.n.cfg.Clock()
	if p.held == 0 {
		p.held = now
	}
	return now >= p.held && now < p.held.Add(p.n.rep.TickTime())
}

// release answers, once a tick, the requests that are open since the last one or longer: a
// slow disk must not use up what the peer may have under way.
func (n *Node) release(now monotime.Time) {
	if !due(&n.nextTurn, now, n.rep.TickTime()) {
		return
	}
	n.tellRemoved()
	n.backup.expire(n, now)
	n.expire(now)
	for _, p := range n.touched {
		for p.old > 0 && len(p.open) > 0 { // respond counts
			n.moved = true
			p.respond()
		}
		p.old = len(p.open)
	}
}

// respond answers the oldest open request with what is in buf.
func (p *peer) respond() {
	req := p.open[0]
	p.old = max(0, p.old-1)
	p.open = append(p.open[:0], p.open[1:]...)
	buf, err := req.Alloc(headerSize + len(p.buf))
	if err != nil {
		return // the peer's request ends by its deadline
	}
	p.n.appendHeader(buf.Data()[:0], taken, p.id)
	copy(buf.Data()[headerSize:], p.buf)
	p.buf, p.appends.size = p.buf[:0], 0
	if req.Respond(buf) != nil {
		buf.Free()
	}
}

// session returns an open session, or starts to open one.
func (p *peer) session() *erpc.Session {
	addr, ok := p.n.rep.Member(p.id)
	if p.sess != nil && (p.sess.Err() != nil || ok && addr != p.addr) {
		if err := p.sess.Err(); err != nil {
			p.ended(err)
		} else {
			_ = p.n.rpc.CloseSession(p.sess)
		}
		p.sess = nil
	}
	if p.sess == nil && ok {
		s, err := p.n.rpc.CreateSession(addr)
		if err != nil {
			p.n.cfg.Logger.Warn("peer not reachable", "peer", p.id, "addr", addr, "error", err)
			return nil
		}
		p.sess, p.addr, p.greeting = s, addr, false
		p.greet()
	}
	return p.sess
}

// request sends what is in buf.
func (p *peer) request() {
	if s := p.session(); s == nil || !p.send(s) {
		p.lost()
	}
}

// send sends what is in buf in a session, or reports false.
func (p *peer) send(s *erpc.Session) bool {
	n := p.n
	if _, queued := s.Pending(); queued >= maxQueued || p.mute(s) {
		return false
	}
	req, err := n.rpc.Alloc(headerSize + len(p.buf))
	if err != nil {
		return false
	}
	n.appendHeader(req.Data()[:0], n.announce(), p.id)
	copy(req.Data()[headerSize:], p.buf)
	r := erpc.Request{Type: TypeRaft, Req: req, Done: p.done, Timeout: 2 * n.rep.ElectionTimeout()}
	lone := p.lone()
	if lone {
		r.Done, r.Timeout = p.alone, loneTicks*n.rep.TickTime()
	}
	if _, err = n.rpc.EnqueueRequest(s, r); err != nil {
		req.Free()
		return false
	}
	p.appends.alone = p.appends.alone || lone
	return true
}

// lost tells the replica that messages to the peer are lost. It sends appends again.
func (p *peer) lost() {
	p.appends.later = nil
	p.n.rep.Unreachable(p.id)
}

// onDone takes the answer to a request.
func (p *peer) onDone(c erpc.Completion) {
	n := p.n
	c.Req.Free()
	if c.Err != nil {
		p.lost()
		n.work()
		return
	}
	from, body, verdict := n.check(c.Session, c.Resp.Data())
	if verdict == taken && from == p {
		p.disowns, p.denial.err = false, nil
		if len(body) > 0 {
			if err := n.step(p, body); err == nil {
				n.work()
			}
		}
	} else {
		p.refused(c.Session, c.Resp.Data())
	}
	p.heed(c.Resp.Data())
	c.Resp.Free()
	if verdict == foreignLog {
		p.reject()
	}
}

// reject tells a peer that answers with another log than the one that is known. It may hear of
// it in no other way: as a follower it only answers.
func (p *peer) reject() {
	s := p.session()
	if s == nil {
		return
	}
	req, err := p.n.rpc.Alloc(headerSize)
	if err != nil {
		return
	}
	p.n.appendHeader(req.Data()[:0], foreignLog, p.id)
	_, err = p.n.rpc.EnqueueRequest(s, erpc.Request{Type: TypeRaft, Req: req,
		Timeout: p.n.rep.ElectionTimeout(),
		Done: func(c erpc.Completion) {
			c.Req.Free()
			if c.Err == nil {
				c.Resp.Free()
			}
		}})
	if err != nil {
		req.Free()
	}
}

// heed says hello again where the peer asks for it, or knows a format or a lease that has changed.
func (p *peer) heed(answer []byte) {
	if len(answer) < headerSize {
		return
	}
	switch binary.LittleEndian.Uint64(answer) {
	case unsaid, otherFormat, otherLease:
		p.greet()
	}
}

// refused takes a member's refusal, an answer in a session that this side has dialled. Only one of
// them means that this replica must not go on.
func (p *peer) refused(s *erpc.Session, b []byte) {
	n := p.n
	if len(b) < headerSize || binary.LittleEndian.Uint64(b[8:]) != n.cfg.Cluster ||
		binary.LittleEndian.Uint64(b[16:]) != p.id || n.admit(p.id, s) != p {
		return // what it says is of another cluster, or a stranger's word
	}
	switch binary.LittleEndian.Uint64(b) {
	case foreignLog:
		n.fail(ErrForeignLog)
	case stranger:
		p.disowns = true
	case otherRole:
		p.denied(ErrRole)
	}
}

// ask has a member say whether it knows this replica's log: somebody says that it does not. One
// question to each is under way at a time.
func (n *Node) ask(id uint64) {
	if _, member := n.rep.Member(id); !member || id == n.cfg.ID {
		return
	}
	p := n.peer(id)
	s := p.session()
	if p.asked || s == nil {
		return
	}
	req, err := n.rpc.Alloc(headerSize)
	if err != nil {
		return
	}
	n.moved = true
	n.appendHeader(req.Data()[:0], n.announce(), id)
	_, err = n.rpc.EnqueueRequest(s, erpc.Request{Type: TypeRaft, Req: req,
		Timeout: n.rep.ElectionTimeout(),
		Done:    func(c erpc.Completion) { p.asked = false; p.done(c) }})
	if err != nil {
		req.Free()
		return
	}
	p.asked = true
}
