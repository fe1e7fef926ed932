package erpc

import (
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// The times of a Client.
const (
	// sessionIdle is how long a further session stays without a call at least; twice that at most.
	sessionIdle = 10 * time.Second
	// A server that refused a further session is asked for one again after minGrow, then less and
	// less often.
	minGrow, maxGrow = 50 * time.Millisecond, 5 * time.Second
	// Calls that a server refused for its limits are tried again after minHold, then less and less
	// often.
	minHold, maxHold = time.Millisecond, 100 * time.Millisecond
)

// While manyBytes of requests of largeCall and more have not arrived further ones use no slot: they
// wait for the network, and slots are left to small calls. While as many of smaller ones have not
// arrived no further session opens, since each has credits of its own. It is looked every
// arriveWait.
const (
	manyBytes  = 4 << 20
	largeCall  = 16 << 10
	arriveWait = time.Millisecond
)

// clientSession is a session of a Client. Like everything in this file it belongs to the loop.
type clientSession struct {
	s      *Session
	client *Client
	slots  int  // 0 while it is not open
	busy   int  // calls in it
	ahead  int  // of those, calls ahead
	keeps  int  // slots for calls ahead
	at     int  // place in sessionSet.free, from 1; 0 if it is not there
	used   bool // since the last trim
	out    bool // its server takes no new calls
	more   bool // it was opened beside others
}

// sessionSet holds the sessions of a Client, and the calls that wait for one. A call takes a free
// slot of the session that had one last, so that sessions which are not needed stay idle. If there
// is none it waits in the queue, and further sessions open: at most as many at a time as there are.
//
// A server may refuse a call for its limits: too many requests at work, no memory. Such a call goes
// back to the head of the queue, and the Client holds: each call that ends lets one go. Beside that
// some are tried now and then, less and less often while all of them are refused. It holds until
// the queue is empty.
type sessionSet struct {
	all        []*clientSession // except those that are out
	retired    []*clientSession // that are out, and have calls under way
	free       []*clientSession // open, with free slots
	keeper     *clientSession   // of all: the one that keeps slots; nil if there is none
	keep       int              // how many slots are kept for calls ahead, if a session has so many
	connecting int              // of all
	growAt     monotime.Time
	growWait   time.Duration
	queue      callQueue
	large      callQueue // large calls that are not in queue yet: others have not arrived
	calls      int       // in sessions, queue and large
	bytes      int       // of requests in sessions
	holding    bool
	refused    bool // a call was refused since some were tried again
	holdFor    time.Duration
}

// callQueue is a line of calls. Those that go ahead are before all others.
type callQueue struct {
	first, last *goCall
	ahead       *goCall // the last of those that go ahead; nil if there is none
	n           int
	bytes       int // of the large ones
}

// pushBack puts k behind the others of its kind.
func (q *callQueue) pushBack(k *goCall) {
	if k.ahead {
		q.insert(q.ahead, k)
		q.ahead = k
	} else {
		q.insert(q.last, k)
	}
}

// pushFront puts k before the others of its kind.
func (q *callQueue) pushFront(k *goCall) {
	if !k.ahead {
		q.insert(q.ahead, k)
		return
	}
	q.insert(nil, k)
	if q.ahead == nil {
		q.ahead = k
	}
}

// insert puts k behind prev; nil stands for the beginning of the line.
func (q *callQueue) insert(prev, k *goCall) {
	k.prev, k.next, k.line = prev, *q.behind(prev), q
	*q.behind(prev), *q.before(k.next) = k, k
	q.n++
	if k.size >= largeCall {
		q.bytes += k.size
	}
}

func (q *callQueue) remove(k *goCall) {
	if q.ahead == k {
		q.ahead = k.prev
	}
	*q.behind(k.prev), *q.before(k.next) = k.next, k.prev
	k.prev, k.next, k.line = nil, nil, nil
	q.n--
	if k.size >= largeCall {
		q.bytes -= k.size
	}
}

// behind returns the place of the call behind k; of the first one for nil.
func (q *callQueue) behind(k *goCall) **goCall {
	if k == nil {
		return &q.first
	}
	return &k.next
}

// before returns the place of the call before k; of the last one for nil.
func (q *callQueue) before(k *goCall) **goCall {
	if k == nil {
		return &q.last
	}
	return &k.prev
}

// pickFor returns a session with a free slot for k, nil if there is none.
func (c *Client) pickFor(k *goCall) *clientSession {
	if l := c.keeper; k.ahead && l != nil && l.free() > 0 && l.s.Connected() && !l.s.Draining() {
		return l
	}
	return c.pick()
}

// pick returns a session with a slot that is free and not kept, nil if there is none.
func (c *Client) pick() *clientSession {
	for n := len(c.free); n > 0; n-- {
		l := c.free[n-1]
		if l.s.Connected() && !l.s.Draining() {
			return l
		}
		c.unlist(l) // an event that says why is on its way
	}
	return nil
}

// list notes that a session has free slots.
func (c *Client) list(l *clientSession) {
	c.free = append(c.free, l)
	l.at = len(c.free)
}

// unlist undoes list, if it was done.
func (c *Client) unlist(l *clientSession) {
	if l.at == 0 {
		return
	}
	n := len(c.free) - 1
	c.free[l.at-1] = c.free[n]
	c.free[l.at-1].at = l.at
	c.free[n] = nil
	c.free = c.free[:n]
	l.at = 0
}

// free returns how many slots of a session are not in use. A call that was given up uses one until
// its handler has returned.
func (l *clientSession) free() int { return l.slots - l.busy - l.s.conn.Client.Held() }

// full reports whether all slots of a session are in use or kept.
func (l *clientSession) full() bool { return l.free() <= max(l.keeps-l.ahead, 0) }

// keepSlots has one of the open sessions keep slots for calls ahead, if there are any.
func (c *Client) keepSlots() {
	for i := 0; c.keeper == nil && i < len(c.all); i++ {
		if c.all[i].slots > 0 {
			c.keeper = c.all[i]
		}
	}
	if l := c.keeper; l != nil {
		l.keeps = min(c.keep, l.slots/4)
		if l.full() {
			c.unlist(l)
		} else if l.at == 0 {
			c.list(l)
		}
	}
}

// occupy notes that a call has a slot of l.
func (c *Client) occupy(l *clientSession, k *goCall) {
	l.used = true
	if k.ahead {
		l.ahead++
	}
	if l.busy++; l.full() {
		c.unlist(l)
	}
}

// vacate undoes occupy.
func (c *Client) vacate(l *clientSession, k *goCall) {
	if k.ahead {
		l.ahead--
	}
	l.busy--
	switch {
	case !l.s.Connected():
	case l.out && l.busy == 0:
		c.rpc.drop(l.s)
	case l.at == 0 && !l.out && !l.full():
		c.list(l)
	}
}

// freed follows a slot of l that a call had used which was given up.
func (c *Client) freed(l *clientSession) {
	if l.s.Connected() && l.at == 0 && !l.out && !l.full() {
		c.list(l)
	}
	if c.queue.n > 0 {
		c.serveNext()
	}
}

// open takes a session that is being opened, beside others or alone.
func (c *Client) open(s *Session, more bool) {
	l := &clientSession{s: s, client: c, more: more}
	s.ofClient = l
	c.all = append(c.all, l)
	c.connecting++
}

// opened takes a session that has been opened.
func (c *Client) opened(l *clientSession) {
	l.slots = l.s.Params().Slots
	c.connecting--
	c.growAt, c.growWait, c.failure = 0, 0, nil
	c.list(l)
	c.keepSlots()
	if !l.more {
		c.won(l)
	}
	c.arrived(l)
	if c.member != nil {
		c.rpc.engine.Watch(&l.s.conn)
		c.member.opened()
	}
	if len(c.all) > 1 && c.alarms.trim == 0 {
		c.alarms.trim = c.rpc.readClock().Add(sessionIdle)
		c.arm()
	}
	c.tell(nil)
}

// detach forgets a session.
func (c *Client) detach(l *clientSession) {
	l.s.ofClient = nil
	c.unlist(l)
	c.leave(l)
	if i := slices.Index(c.retired, l); i >= 0 {
		c.retired = slices.Delete(c.retired, i, i+1)
	}
}

// leave takes a session out of all.
func (c *Client) leave(l *clientSession) {
	for i := range c.all {
		if c.all[i] == l {
			if l.slots == 0 {
				c.connecting--
			}
			last := len(c.all) - 1
			c.all[i] = c.all[last]
			c.all[last] = nil
			c.all = c.all[:last]
			if c.keeper == l {
				c.keeper = nil
				c.keepSlots()
			}
			return
		}
	}
}

// retire gives a session whose server shuts down no more calls. Those under way go on.
func (c *Client) retire(l *clientSession) {
	if l.out {
		return
	}
	l.out = true
	c.unlist(l)
	c.leave(l)
	switch {
	case l.s.ofClient == nil: // its session has ended
	case l.busy == 0 && l.s.Connected():
		c.rpc.drop(l.s)
	default:
		c.retired = append(c.retired, l)
	}
}

// retireAll retires the sessions with an incarnation of the server that is gone.
func (c *Client) retireAll(epoch uint64) {
	for i := len(c.all) - 1; i >= 0; i-- {
		if l := c.all[i]; l.slots > 0 && l.s.conn.Epoch() == epoch {
			c.retire(l)
		}
	}
}

// grow opens further sessions for the calls that wait, if there are not enough of them on their
// way.
func (c *Client) grow() {
	open := len(c.all) - c.connecting
	if c.holding || open == 0 || c.connecting >= open || c.queue.n == 0 {
		return
	}
	now := c.rpc.readClock()
	if now < c.growAt {
		return
	}
	slots := 1
	for _, l := range c.all {
		if slots = l.slots; slots > 0 {
			break
		}
	}
	need := min((c.queue.n+slots-1)/slots, open) - c.connecting
	if need <= 0 || c.crowds() {
		return
	}
	for range need {
		s, err := c.rpc.dial(c.all[0].s.Peer(), hostOf(c.text), c.rpc.cfg.Timing.ConnectTimeout)
		if err != nil {
			c.growLater()
			return
		}
		c.open(s, true)
	}
}

// crowds reports whether so many bytes of small calls have not arrived that no further session
// opens. Then grow is called again later.
func (c *Client) crowds() bool {
	if c.bytes < manyBytes {
		return false
	}
	small, _ := c.arriving()
	if small < manyBytes {
		return false
	}
	c.lookLater()
	return true
}

// lookLater has arriveDue called soon.
func (c *Client) lookLater() {
	if c.alarms.arrive == 0 {
		c.alarms.arrive = c.rpc.readClock().Add(arriveWait)
		c.arm()
	}
}

// arriveDue looks what has arrived.
func (c *Client) arriveDue() {
	c.admit()
	if !c.holding {
		c.serve(c.queue.n)
	}
}

// arriving returns how many bytes of requests have not arrived at the server, as far as it has
// said.
func (c *Client) arriving() (small, large int) {
	for _, l := range c.all {
		if l.busy > 0 {
			s, n := l.s.conn.Client.Arriving(largeCall)
			small, large = small+s, large+n
		}
	}
	return small, large
}

// room returns for how many bytes of large calls there is room in the queue and on the way: for
// none if it is not above 0.
func (c *Client) room() int {
	n := manyBytes - c.queue.bytes
	if n <= 0 || c.bytes < n {
		return n - c.bytes
	}
	_, large := c.arriving()
	return n - large
}

// holdsBack puts a large call behind others of which too many bytes have not arrived, if there are.
func (c *Client) holdsBack(k *goCall) bool {
	if k.ahead || c.large.n == 0 && c.room() > 0 {
		return false
	}
	c.large.pushBack(k)
	c.lookLater()
	return true
}

// admit puts large calls into the queue, as many as there is room for.
func (c *Client) admit() {
	if c.large.n == 0 {
		return
	}
	for room := c.room(); room > 0 && c.large.n > 0; {
		k := c.large.first
		c.large.remove(k)
		c.queue.pushBack(k)
		room -= k.size
	}
	if c.large.n > 0 {
		c.lookLater()
	}
}

// growLater puts off the next further session, for longer each time. That is no error. Sessions
// that were asked for at once and are all refused put it off once.
func (c *Client) growLater() {
	now := c.rpc.readClock()
	if now < c.growAt {
		return
	}
	c.growWait = min(max(2*c.growWait, minGrow), maxGrow)
	c.growAt = now.Add(c.growWait)
}

// trim closes sessions that had no call since the last trim, all but one.
func (c *Client) trim() {
	for i := len(c.all) - 1; i >= 0 && len(c.all)-c.connecting > 1; i-- {
		l := c.all[i]
		if l.slots > 0 && l.busy == 0 && !l.used {
			c.detach(l)
			c.rpc.drop(l.s)
		}
	}
	for _, l := range c.all {
		l.used = false
	}
	if len(c.all) > 1 {
		c.alarms.trim = c.rpc.readClock().Add(sessionIdle)
	}
}

// serve lets at most n calls of the queue go.
func (c *Client) serve(n int) {
	for ; n > 0 && c.queue.n > 0; n-- {
		k := c.queue.first
		l := c.pickFor(k)
		if l == nil {
			c.seek()
			break
		}
		c.queue.remove(k)
		k.send(l)
	}
	if c.queue.n == 0 {
		c.holding = false
	}
}

// serveNext lets the calls go that may after one has ended.
func (c *Client) serveNext() {
	c.admit()
	if c.holding {
		c.serve(1)
	} else {
		c.serve(c.queue.n)
	}
}

// seek has calls that wait get a session, or ends them.
func (c *Client) seek() {
	if err := c.want(); err != nil {
		c.tell(err)
	}
}

// again puts a call that certainly never ran back into the queue, if another try may help. L is
// the session that it came back from.
func (c *Client) again(k *goCall, l *clientSession, err error) bool {
	if c.over {
		return false
	}
	r, remote := err.(*Error)
	refused := remote && r.NotRun
	switch {
	case err == ErrDraining, refused && r.Reason == ReasonShutdown:
		c.retire(l)
		if c.member != nil {
			c.member.drain()
			return false
		}
	case err == engine.ErrNotTaken:
		c.retire(l) // it is ending
	case refused && r.Reason == ReasonExhausted:
		if k.elsewhere {
			return false
		}
		k.refusal = err
		c.hold()
	default:
		return false
	}
	c.queue.pushFront(k)
	if c.member != nil && len(c.all) == 0 {
		return true // its end, of which the member learns next, sends the calls elsewhere
	}
	if c.want() != nil {
		c.queue.remove(k)
		return false
	}
	if !c.holding {
		c.serve(c.queue.n)
	}
	return true
}

// hold begins to hold calls back, after a refusal.
func (c *Client) hold() {
	c.refused = true
	if !c.holding {
		c.holding, c.holdFor = true, minHold
		c.holdOn()
	}
}

// holdOn sets when calls are tried again. Chance keeps many clients apart.
func (c *Client) holdOn() {
	wait := c.holdFor + time.Duration(c.rpc.engine.Rand().Int64N(int64(c.holdFor)))
	c.alarms.hold = c.rpc.readClock().Add(wait)
	c.arm()
}

// try lets some calls go that were held back: one, or a quarter of those at the server.
func (c *Client) try() {
	if !c.holding {
		return
	}
	if c.refused {
		c.holdFor = min(2*c.holdFor, maxHold)
	} else {
		c.holdFor = minHold
	}
	c.refused = false
	c.serve(max(1, (c.calls-c.queue.n-c.large.n)/4))
	if c.holding {
		c.holdOn()
	}
}

// clientAlarms are the times at which a Client has something to do; 0 for none.
type clientAlarms struct {
	lookup, race, shut, hold, trim, redial, listen, arrive monotime.Time
}

// arm has onAlarm called when the first alarm is due.
func (c *Client) arm() {
	first := monotime.Never
	a := &c.alarms
	for _, at := range [...]monotime.Time{
		a.lookup, a.race, a.shut, a.hold, a.trim, a.redial, a.listen, a.arrive,
	} {
		if at != 0 {
			first = min(first, at)
		}
	}
	c.loop.set(&c.alarm, first)
}

// onAlarm does what is due.
func (c *Client) onAlarm() {
	now, a := c.rpc.readClock(), &c.alarms
	for _, due := range []struct {
		at *monotime.Time
		do func()
	}{
		{&a.lookup, c.lookupDue}, {&a.race, c.raceOn}, {&a.shut, c.shut}, {&a.hold, c.try},
		{&a.trim, c.trim}, {&a.redial, c.member.redial}, {&a.listen, c.member.listen},
		{&a.arrive, c.arriveDue},
	} {
		if *due.at != 0 && now >= *due.at {
			*due.at = 0
			due.do()
		}
	}
	c.arm()
}
