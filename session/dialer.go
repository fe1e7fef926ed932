package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// triesPerMTU is how many packets of one size go unanswered before the dialer
// believes that the path does not carry that size.
const triesPerMTU = 4

// fastTries is how many first Connects go out one ConnectRetry after the other. After that the time
// grows by a slowShare with each: a server under a flood of forged ones answers a random part of
// all, so an honest client is helped by asking often, but many that dial at once, and dial again,
// must not fill a slow link by that.
const fastTries, slowShare = 20, 16

// mtuLadder holds the packet sizes that a dialer tries below the offered one: what
// is left of common IP MTUs (1500, 1280) after IPv6 and UDP headers, and the least.
var mtuLadder = [...]uint32{1452, 1232, MinMTU}

// Dialer opens one session from the client's side:
//
//	C: Connect (no cookie)          small; the server keeps no state
//	S: Challenge (cookie)           proves that the client's address is its own
//	C: Connect (cookie, padded)     as large as a data packet: proves the path MTU
//	S: Accept (padded)              the session is open
//
// It repeats what is not answered until ConnectTimeout: the first Connect about each ConnectRetry
// for fastTries, then, like the other one, each time later. The times of first Connects vary by a
// quarter, so that they do not keep step with anything.
type Dialer struct {
	Connect  wire.Connect // what is sent; Offer.MTU falls if the path does not carry it
	Overhead int          // bytes that a packet of the session will be longer on the path
	Loop     uint8        // of the server, if it runs there; 0 for any
	Version  uint8        // of the packets, in which the session is opened
	// Ext are extensions behind the body of each Connect.
	Ext []byte
	// Pad writes into the padding of a Connect with a cookie, which is behind the body; nil for none.
	Pad func(padding []byte)
	// Persist makes it go on though nobody listens, and Told says that the owner knows.
	Persist, Told bool

	turns    uint8  // how often Version has changed; see OnVersion
	via      uint32 // the association on which it opens the session; 0: by Connects
	to       packet.Addr
	timing   Timing
	maxMTU   uint32 // the largest that was offered
	start    monotime.Time
	answered monotime.Time // when the first answer came; 0 before
	provedAt monotime.Time // when packets that prove the path's MTU began to leave
	deadline monotime.Time
	nextAt   monotime.Time
	retry    time.Duration
	maxRetry time.Duration
	tries    int
	sentAt   monotime.Time
	resent   bool
	renewAt  monotime.Time
	connects int    // sent in this attempt
	bounced  int    // of those: that came back from the network
	dice     uint64 // state of a generator of random numbers
}

// NewDialer starts to open a session with an endpoint, in wire.Version. The first packet goes out
// at the first Tick.
func NewDialer(to packet.Addr, c wire.Connect, t Timing, now monotime.Time) *Dialer {
	return &Dialer{
		Connect: c, Version: wire.Version, to: to, timing: t, maxMTU: c.Offer.MTU,
		start: now, deadline: now.Add(t.ConnectTimeout), nextAt: now,
		retry: t.ConnectRetry, maxRetry: max(t.RTOMax, t.ConnectRetry), dice: c.Nonce,
		renewAt: now.Add(renewAfter),
	}
}

// Tick sends what is due. It returns ErrTimeout when time is up.
func (d *Dialer) Tick(now monotime.Time, out *Out) error {
	if now >= d.deadline {
		return ErrTimeout
	}
	if now < d.nextAt {
		return nil
	}
	d.send(now, out)
	return nil
}

// NextAt returns when Tick wants to be called.
func (d *Dialer) NextAt() monotime.Time { return min(d.nextAt, d.deadline) }

// Proved reports whether the server believes the address: the packets that leave now, which prove
// the path's MTU, can open the session.
func (d *Dialer) Proved() bool {
	return d.via != 0 || d.Connect.Cookie != [wire.CookieSize]byte{}
}

func (d *Dialer) send(now monotime.Time, out *Out) {
	size := 0
	if d.Proved() {
		if d.tries > 0 && d.tries%triesPerMTU == 0 {
			d.stepDown()
		}
		size = int(d.Connect.Offer.MTU)
	}
	d.resent = d.tries > 0
	d.tries++
	d.sentAt = now
	d.plan(now)
	if d.via != 0 {
		out.Mgmt(&d.to, d.via, d.Version, wire.OpOpen, wire.NoSession, 0, wire.ConnectSize, size,
			d.Connect.Put)
		return
	}
	d.connects++
	field := wire.FirstOf(d.Loop) | wire.NoSession
	out.Mgmt(&d.to, 0, d.Version, wire.OpConnect, field, 0, wire.ConnectSize+len(d.Ext),
		size+d.Overhead, d.put)
}

func (d *Dialer) put(b []byte) {
	d.Connect.Put(b)
	padding := b[wire.ConnectSize+copy(b[wire.ConnectSize:], d.Ext):]
	if d.Pad != nil && d.Proved() {
		d.Pad(padding)
	}
}

// Unanswered reports whether the next packet is due and several of this kind before it had no
// answer.
func (d *Dialer) Unanswered(now monotime.Time) bool {
	return d.tries >= triesPerMTU && d.nextAt <= now
}

// Restart begins anew as another attempt, with a nonce of its own, by Connects.
func (d *Dialer) Restart(nonce uint64, now monotime.Time) {
	d.Connect.Nonce, d.Connect.Cookie, d.Connect.Offer.MTU = nonce, [wire.CookieSize]byte{}, d.maxMTU
	d.via, d.tries, d.retry = 0, 0, d.timing.ConnectRetry
	d.connects, d.bounced = 0, 0
	d.start, d.answered, d.nextAt = now, 0, now
}

// Open opens the session on an association from now on, in place of Connects.
func (d *Dialer) Open(via uint32, now monotime.Time, out *Out) {
	d.via, d.Connect.Cookie, d.tries = via, [wire.CookieSize]byte{}, 0
	d.again(now)
	d.send(now, out)
}

// Hears notes that the server works on the Connect with the cookie: the path carries it.
func (d *Dialer) Hears(now monotime.Time) {
	d.tries = 1
	d.nextAt = max(d.nextAt, now.Add(d.retry))
}

// Rest makes the dialer send nothing before a time. ConnectTimeout can still end it.
func (d *Dialer) Rest(until monotime.Time) { d.nextAt = until }

// plan sets the time of the next try.
func (d *Dialer) plan(now monotime.Time) {
	wait := d.retry
	if !d.Proved() {
		d.dice = d.dice*6364136223846793005 + 1442695040888963407 // Knuth's, of MMIX
		wait += time.Duration(float64(wait) * (float64(d.dice>>40)/(1<<25) - 0.25))
	}
	d.nextAt = now.Add(wait)
	switch {
	case d.Proved():
		d.retry = min(d.retry*3/2, d.maxRetry)
	case d.tries >= fastTries:
		d.retry = min(d.retry+d.retry/slowShare, d.maxRetry)
	}
}

// bounceRetry is when a first Connect is repeated that came back. Hosts send few messages, Linux
// six at once and then one a second to each address, so those that count are asked for at once.
const bounceRetry = 2500 * time.Microsecond

// Bounced notes that a packet of this attempt came back from the network: nobody listens at the
// port. It reports false if it cannot be: more have come back than have left. Again asks for the
// next one soon.
func (d *Dialer) Bounced(again bool, now monotime.Time) bool {
	if d.bounced >= d.connects {
		return false
	}
	d.bounced++
	if again && !d.Proved() {
		d.nextAt = min(d.nextAt, now.Add(bounceRetry))
	}
	return true
}

// A server that has not answered for renewAfter is sent to from another port, and again in
// renewEvery. On a path that is longer the first answers are lost, if at all, and no later ones.
const renewAfter, renewEvery = 500 * time.Millisecond, 2 * time.Second

// Renews reports, each time once, whether the server has not answered for so long that it is time
// to try from another port.
func (d *Dialer) Renews(now monotime.Time) bool {
	if now < d.renewAt || d.Answered() || d.connects < 2 || d.via != 0 {
		return false
	}
	d.renewAt = now.Add(renewEvery)
	return true
}

// Waited returns how long the server had time to answer.
func (d *Dialer) Waited(now monotime.Time) time.Duration {
	if d.connects == 0 && d.via == 0 {
		return 0
	}
	return now.Sub(d.start)
}

// Proving returns for how long it has sent packets that prove the path's MTU, since the first one.
func (d *Dialer) Proving(now monotime.Time) time.Duration { return now.Sub(d.provedAt) }

// Answered reports whether the server has answered.
func (d *Dialer) Answered() bool { return d.answered != 0 }

// Repeats reports whether the next Tick would repeat a first Connect.
func (d *Dialer) Repeats(now monotime.Time) bool {
	return d.tries > 0 && !d.Proved() && d.nextAt <= now && now < d.deadline
}

// Skip counts the repetition that is due as sent and lost.
func (d *Dialer) Skip(now monotime.Time) {
	d.tries++
	d.plan(now)
}

// stepDown lowers the offered MTU to the next rung.
func (d *Dialer) stepDown() {
	for _, mtu := range mtuLadder {
		if mtu < d.Connect.Offer.MTU {
			d.Connect.Offer.MTU = mtu
			return
		}
	}
}

// OnChallenge takes the server's cookie and answers with it.
func (d *Dialer) OnChallenge(c *wire.Challenge, now monotime.Time, out *Out) {
	if c.Nonce == d.Connect.Nonce && !d.Answers(c) {
		d.Proceed(c, now, out)
	}
}

// Answers reports whether the Connect that was sent last answers a Challenge.
func (d *Dialer) Answers(c *wire.Challenge) bool {
	return d.Proved() && c.Cookie == d.Connect.Cookie
}

// Proceed sends a Connect with the cookie of a Challenge to this dialer now, also if one has left
// before: its padding says something else, or its timer was put off.
func (d *Dialer) Proceed(c *wire.Challenge, now monotime.Time, out *Out) {
	d.Connect.Cookie = c.Cookie
	d.tries = 0
	d.again(now)
	d.send(now, out)
}

// again sets the times between the packets that prove the path's MTU. On a long path those that
// are still under way must not look lost, or the MTU would fall for nothing. But there must be time
// for every rung of the ladder. The first answer of the server says how long the path is.
func (d *Dialer) again(now monotime.Time) {
	if d.answered == 0 {
		d.answered = now
	}
	d.provedAt = now
	rung := d.deadline.Sub(now) / (triesPerMTU * (time.Duration(len(mtuLadder)) + 1))
	d.retry = max(d.timing.ConnectRetry, min(2*d.answered.Sub(d.start), rung))
	d.maxRetry = max(d.retry, min(d.timing.RTOMax, rung))
}

// OnAccept checks the server's answer. It returns the agreed params and the
// handshake's RTT (0 if a repetition makes it unsure). ok is false if the
// packet answers something else and is to be ignored.
func (d *Dialer) OnAccept(a *wire.Accept, now monotime.Time) (
	p Params, rtt time.Duration, ok bool, err error,
) {
	if a.Nonce != d.Connect.Nonce || !d.Proved() {
		return Params{}, 0, false, nil
	}
	mine := &d.Connect.Offer
	o := &a.Offer
	if o.MTU > mine.MTU && o.MTU <= d.maxMTU {
		return Params{}, 0, false, nil // to an earlier offer: the answer to the last one follows
	}
	if o.Credits > mine.Credits || o.Slots > mine.Slots || o.MTU > mine.MTU ||
		o.MaxMessage > mine.MaxMessage || o.Features&^(mine.Features|eitherSide) != 0 ||
		mine.Features&eitherSide&^o.Features != 0 {
		return Params{}, 0, true, ErrBadOffer
	}
	p, err = ParamsOf(*o, d.Version)
	if !d.resent {
		rtt = max(now.Sub(d.sentAt), 1)
	}
	return p, rtt, true, err
}

// maxTurns is how often an attempt changes its version: down where the server speaks only the old
// one, and up again. A forged refusal costs time, and no attempt goes on for ever.
const maxTurns = 2

// OnVersion takes a refusal of the version of this attempt. If the peer speaks another one that
// this side speaks too, oldest to newest, it begins anew with that, under another nonce; else it
// returns an error. Ok is false if the refusal answers something else.
func (d *Dialer) OnVersion(
	r *wire.VersionRefusal, oldest, newest uint8, nonce uint64, now monotime.Time,
) (err error, ok bool) {
	if r.Nonce != d.Connect.Nonce || r.Asked != d.Version || r.Least > r.Most ||
		r.Least <= r.Asked && r.Asked <= r.Most {
		return nil, false
	}
	version := min(r.Most, newest)
	if version < max(r.Least, oldest) || d.turns == maxTurns {
		return fmt.Errorf("%w: the peer speaks %d to %d, this side %d to %d",
			ErrVersion, r.Least, r.Most, oldest, newest), true
	}
	d.turns++
	d.Version = version
	d.Restart(nonce, now)
	return nil, true
}

// OnRefuse turns a refusal into an error; ok is false if it answers something else. A reason that
// no server of this version gives is named by its number: a newer one may have it, and whoever
// forges refusals chooses it.
func (d *Dialer) OnRefuse(r *wire.Refuse) (err error, ok bool) {
	if r.Nonce != d.Connect.Nonce || r.Code == wire.CodeOK {
		return nil, false
	}
	err = fmt.Errorf("%w: %s", ErrRefused, r.Code)
	switch r.Code {
	case wire.CodeExhausted:
		err = errors.Join(err, ErrExhausted)
	case wire.CodeBadOffer:
		err = errors.Join(err, ErrBadOffer)
	case wire.CodeShutdown:
		err = errors.Join(err, ErrDraining)
	case wire.CodeNoHandler:
		err = fmt.Errorf("%w: the endpoint there takes no sessions, it only dials", ErrRefused)
	case wire.CodeInsecure, wire.CodeDenied:
	default:
		err = fmt.Errorf("%w: for a reason that this version does not know, %d", ErrRefused, r.Code)
	}
	return err, true
}
