package erpc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// goCall is one Client.Call between two goroutines. The caller fills it and waits for
// ended; the loop writes the result. After a call that was given up the struct is
// left to the garbage collector, since the loop may still meet it.
type goCall struct {
	client  *Client
	req     []byte // nil for a request that is in msg alone
	size    int    // of the request
	resp    []byte // appended to
	err     error
	typ     uint8
	timeout time.Duration // the time that the context has left; 0: it has no deadline
	msg     *MsgBuffer    // a request that the caller wrote in the loop's memory; or nil
	into    *MsgBuffer    // the room behind resp, where the response is received; or nil
	large   *MsgBuffer    // a response that the caller copies, with the loop's memory
	place   InPlace       // writes the request and reads the response; or nil
	spare   [2][]byte     // memory for small ones of both, for calls with a place
	// Of a Pool's call: another server may have room.
	elsewhere bool
	ahead     bool // of StartInLoop: it goes ahead of calls that wait
	// True when the call has ended; false before, if it lasts and its context counts from now on.
	ended   chan bool
	leads   bool                // the caller runs the loop
	led     bool                // ... and has, until the call had ended
	patient bool                // the caller waits for ended alone at first
	finish  Continuation        // k.onDone, bound once
	done    func([]byte, error) // of Start; nil for a Call
	told    atomic.Bool         // done has been called, or never will be

	// In the loop only.
	id         RequestID
	trace      *CallTrace     // or nil
	deadline   monotime.Time  // 0 if none
	session    *clientSession // of the session that it is in
	line       *callQueue     // that it waits in, or nil
	prev, next *goCall        // in that
	began      monotime.Time
	slow       bool     // its type was unhurried when it began
	freshAt    **goCall // what points to it in freshCalls; nil if it is not there
	fresher    *goCall  // the next one there
	refusal    error    // why the server of a Pool refused it last
	started    bool
	over       bool
}

var calls = sync.Pool{New: func() any {
	k := &goCall{ended: make(chan bool, 2)}
	k.finish = k.onDone
	return k
}}

// Call sends request to the server's handler for reqType and returns its response,
// in memory of its own. It may be called from any number of goroutines. When ctx
// ends first the error matches ErrDeadline or ErrCancelled and the context's own; the server
// learns ctx's deadline and its end. Other errors: see ErrNotRun and its neighbours; the
// server's are *Error. The server may or may not have run the request, unless the error matches
// ErrNotRun. If there is no session or no free slot the call waits for one, see Client.
//
// The loop notices the end of ctx up to 3 ms late. A callback that blocks the loop (OnSession, done
// of StartInLoop) delays it by as long.
//
// Until Call returns the library reads request, which must not change: one of 4 KiB and more is
// sent from where it lies.
func (c *Client) Call(ctx context.Context, reqType uint8, request []byte) ([]byte, error) {
	return c.call(ctx, nil, reqType, request, false)
}

// AppendCall is Call with the response appended to buf, for callers that reuse memory. The response
// is received there if it fits in the capacity of buf, of which 4 KiB or more are free and not part
// of the request. After an error these bytes are undefined, and the result is buf.
func (c *Client) AppendCall(
	ctx context.Context, buf []byte, reqType uint8, request []byte,
) ([]byte, error) {
	return c.call(ctx, buf, reqType, request, false)
}

// call is AppendCall. Elsewhere says that another server may be asked if this one has no room.
func (c *Client) call(
	ctx context.Context, buf []byte, reqType uint8, request []byte, elsewhere bool,
) ([]byte, error) {
	k, err := c.newCall(ctx, reqType)
	if err != nil {
		return buf, err
	}
	k.req, k.size, k.resp, k.elsewhere = request, len(request), buf, elsewhere
	reusable, err := k.run(ctx)
	if err != nil {
		return buf, err
	}
	k.fetch()
	resp, err := k.resp, k.err
	if reusable {
		k.recycle()
	}
	return resp, err
}

// newCall returns a call without a request.
func (c *Client) newCall(ctx context.Context, reqType uint8) (*goCall, error) {
	if ctx.Err() != nil {
		return nil, unsent(contextError(ctx))
	}
	if c.closed.Load() {
		return nil, c.closedError()
	}
	k := calls.Get().(*goCall)
	k.client, k.typ = c, reqType
	k.err, k.started, k.over = nil, false, false
	k.timeout, k.elsewhere, k.refusal = 0, false, nil
	if k.trace = traceOf(ctx); k.trace != nil {
		*k.trace = CallTrace{Called: c.rpc.clock()}
	}
	if at, ok := ctx.Deadline(); ok {
		k.timeout = max(monotime.Until(at), 1)
	}
	return k, nil
}

// run gives the call to the loop and waits for its end. The result is in k unless run returns an
// error. Reusable says that the loop does not meet k again.
func (k *goCall) run(ctx context.Context) (reusable bool, err error) {
	c, gone := k.client, ctx.Done()
	free := c.rpc.isVacant()
	if k.patient = (gone != nil || free) && k.waitsForEnd(); !c.rpc.push(command{c: k}) {
		return false, unsent(ErrClosed)
	}
	if free && k.patient && c.rpc.state.CompareAndSwap(vacant, awake) {
		if k.runLoop() {
			return true, nil
		}
	} else if !c.rpc.pushed() {
		return false, unsent(ErrClosed)
	}
	if (gone == nil || k.patient) && <-k.ended {
		return true, nil
	}
	select {
	case <-k.ended:
		return true, nil
	case <-gone:
	}
	// The second time means cancel. Until the call has ended, or the loop, that has the request and
	// the place of the response.
	_ = c.rpc.post(command{c: k})
	select {
	case <-k.ended:
	case <-c.loop.done:
		return false, ErrClosed
	}
	switch {
	case errors.Is(k.err, ErrNotRun):
		return false, unsent(contextError(ctx))
	case k.err != nil:
		return false, contextError(ctx)
	}
	return false, nil // it ended just before
}

// Start is Call without waiting: done is called once, in the loop, with the response or an error.
// The response belongs to the library when done has returned; the request is the library's until
// done is called. Done must not block, nor close the Client; it uses StartInLoop. The call has no
// deadline and cannot be cancelled: it is for requests that the server answers some time or other.
// The error is ErrClosed, and then done is never called.
//
// While done runs, its loop does nothing else. All Clients there wait, those of Dial that share it
// too: their calls neither begin nor end, Call and Dial do not return though their contexts have
// ended, nor does Close. So done returns within some microseconds, and leaves long work to another
// goroutine.
func (c *Client) Start(
	reqType uint8, request []byte, done func(response []byte, err error),
) error {
	if c.closed.Load() {
		return c.closedError()
	}
	k := newStart(c, reqType, request, done)
	if !c.rpc.post(command{c: k}) && !k.told.Swap(true) {
		return unsent(ErrClosed)
	}
	return nil
}

// StartInLoop is Start for callbacks of the loop, such as the done of another call: it does not
// wait for room in the ring that leads into the loop. It must be called nowhere else. The call goes
// on with what the loop is doing, so it is ahead of calls that wait, and Config.MaxQueue does not
// stop it: twice as many do.
func (c *Client) StartInLoop(
	reqType uint8, request []byte, done func(response []byte, err error),
) error {
	if c.closed.Load() || c.over {
		return unsent(ErrClosed)
	}
	k := newStart(c, reqType, request, done)
	k.ahead = true
	k.onLoop(c.rpc)
	return nil
}

// KeepSlots has the Client leave n slots to calls of StartInLoop, at most a quarter of the slots of
// one session: they go on when other calls use all the other slots. It is 0 at first. The error is
// ErrClosed.
func (c *Client) KeepSlots(n int) error {
	return c.rpc.Post(func(*Rpc) {
		c.keep = max(n, 0)
		c.keepSlots()
	})
}

func newStart(c *Client, reqType uint8, request []byte, done func([]byte, error)) *goCall {
	k := &goCall{client: c, typ: reqType, req: request, size: len(request), done: done}
	k.finish = k.onDone
	return k
}

// recycle gives the struct of a call back that has ended.
func (k *goCall) recycle() {
	k.client, k.req, k.resp, k.trace, k.place = nil, nil, nil, nil, nil
	calls.Put(k)
}

// onLoop starts the call, or cancels it if it has been started.
func (k *goCall) onLoop(r *Rpc) {
	switch {
	case !k.started:
		k.started = true
		k.begin(r)
	case k.over:
	case k.line != nil:
		k.line.remove(k)
		k.end(unsent(ErrCancelled))
	default:
		r.cancel(k.id, ErrCancelled)
	}
}

// begin sends the request, or lets it wait for a session or a slot.
func (k *goCall) begin(r *Rpc) {
	c := k.client
	if m := c.member; m != nil && m.state != ServerReady && (k.done == nil || m.silent == 0) {
		k.deliver(m.away())
		return
	}
	k.leadBegin(r.engine.Now())
	if k.began = r.engine.Now(); k.patient {
		r.fresh.add(k)
	}
	most := r.cfg.MaxQueue
	if k.ahead {
		most *= 2
	}
	if c.calls >= most {
		k.leadEnd(r.engine.Now())
		k.deliver(unsent(ErrExhausted))
		return
	}
	c.calls++
	if k.deadline = 0; k.timeout > 0 {
		k.deadline = r.engine.Now().Add(k.timeout)
	}
	if k.size >= largeCall && c.holdsBack(k) {
		return
	}
	if c.queue.n == 0 || k.ahead && c.queue.ahead == nil {
		if l := c.pickFor(k); l != nil {
			k.send(l)
			return
		}
	}
	c.queue.pushBack(k)
	if err := c.want(); err != nil {
		c.queue.remove(k)
		k.end(unsent(err))
	}
}

// send sends the request in a session that has a free slot.
func (k *goCall) send(l *clientSession) {
	r := k.client.rpc
	req, err := k.request(r)
	if err != nil {
		k.end(unsent(err))
		return
	}
	k.makeRoom(r)
	k.id, err = r.start(l.s, &Request{
		Type: k.typ, Req: req, Resp: k.into, Done: k.finish, Trace: k.trace,
	}, k.deadline)
	if err != nil {
		req.Free()
		k.leaveRoom()
		k.end(unsent(err))
		return
	}
	k.session = l
	k.client.bytes += k.size
	k.client.occupy(l, k)
}

// onDone is the call's continuation.
func (k *goCall) onDone(d Completion) {
	c, l := k.client, k.session
	k.session = nil
	c.bytes -= k.size
	c.vacate(l, k)
	if d.Err != nil && k.req == nil {
		k.keep(d.Req) // it may be sent again
	} else {
		d.Req.Free()
	}
	if d.Err == nil {
		k.take(&d)
	}
	if k.into != nil {
		if d.Resp == k.into {
			d.Resp = nil
		}
		k.leaveRoom()
	}
	if d.Err == nil || !c.again(k, l, d.Err) {
		k.end(d.Err)
		if c.queue.n+c.large.n > 0 {
			c.serveNext()
		}
	}
	if d.Resp != nil {
		d.Resp.Free()
	}
}

// take takes the response.
func (k *goCall) take(d *Completion) {
	switch {
	case d.Resp == k.into:
		k.resp = k.resp[:len(k.resp)+d.Resp.Size()]
	case k.done != nil:
		k.resp = d.Resp.Data()
	case d.Resp.Size() >= largeMessage:
		k.large, d.Resp = d.Resp, nil
		k.client.loop.copies.hold(k.large)
	default:
		k.resp = append(k.resp, d.Resp.Data()...)
	}
}

// end ends a call that has begun.
func (k *goCall) end(err error) {
	c := k.client
	c.calls--
	k.leadEnd(c.rpc.engine.Now())
	k.deliver(err)
	if c.member != nil && c.calls == 0 {
		c.member.emptied()
	}
}

// deliver hands the result to the caller.
func (k *goCall) deliver(err error) {
	if msg := k.takeMsg(); msg != nil {
		msg.Free()
	}
	k.err = err
	k.over = true
	r := k.client.rpc
	k.stopWaiting(r)
	if k.leads {
		return
	}
	r.engine.Handed++
	if k.done != nil {
		if !k.told.Swap(true) {
			k.done(k.resp, err)
		}
		return
	}
	r.handout.ended = append(r.handout.ended, k)
}

// contextError gives a context's end the library's name; it matches both.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrDeadline, ctx.Err())
	}
	return fmt.Errorf("%w: %w", ErrCancelled, ctx.Err())
}

// Client calls one server from any number of goroutines. It shares the event loop of its sessions,
// with a goroutine and a transport, with others (Dial, Loop.Dial), or has one of its own (Dial).
// As many calls are under way as there are callers: it opens further sessions when the slots of
// those that it has are in use, and closes them when they had no call for some seconds. Calls wait
// for a slot while a server refuses further sessions, and while 4 MiB of small requests have not
// arrived. Requests of 16 KiB and more take no slot while 4 MiB of such have not arrived: they wait
// in their order, and small calls do not wait for them. All calls, under way and waiting, are
// Config.MaxQueue at most.
//
// A call that was given up uses its slot until its handler has returned at the server. Others do
// not wait behind it: further sessions open, as many as Config.MaxSessions here and at the server
// and its Shares allow. Then they wait for a slot, at most to their deadlines.
//
// A call that the server refused for its limits, or because it shuts down, or that it had not taken
// when it ended its session, certainly never ran. The Client tries it again, after a while, or at
// another server under the same name. It never repeats a call that may have run.
//
// When no session is left it opens a new one. Before, it looks the server's name up again, in
// another goroutine. Calls wait meanwhile, for name and session together at most
// Timing.ConnectTimeout. If the network says that nobody listens they wait 150 ms, since the server
// may be starting, and calls that come after that end at once, until it is there.
// Of several addresses that which worked last is tried first, and the next one when one has failed,
// or has not answered in 250 ms (RFC 8305). After half a second without an answer from an address
// it is asked from another port, if the transport has one (Renew): see package udp.
//
// If the lookup fails, or takes more than half of that time, the addresses found last are tried. If
// that is in vain too, the calls' errors match ErrResolve beside ErrConnect or ErrRefused.
type Client struct {
	loop   *Loop
	rpc    *Rpc          // of the loop
	alone  bool          // the loop ends with the Client
	shared *sharedLoop   // it is one of Dial, and ends some time after its last Client; or nil
	given  *claim        // of that one: to the transport that Dial was given; or nil
	text   string        // the server's address as Dial was given it
	done   chan struct{} // the Client has ended
	closed atomic.Bool
	lasts  [256]atomic.Bool // calls of these types did last; see freshCalls

	// In the loop only.
	sessionSet
	unhurried [256]bool        // types of calls; see Unhurried
	at        int              // place in loop.clients
	addrs     []transport.Addr // what text was resolved to last, in the order to try
	good      transport.Addr   // the address that worked last
	redial    redial
	alarms    clientAlarms
	alarm     loopAlarm    // the first of them
	waiting   []chan error // Dial and Ready, which wait for a session
	over      bool         // it is ending
	failedAt  monotime.Time
	failure   error
	member    *member // of a Pool; nil if it is in none
}

// Dial makes a Client of the server at addr (text that tr resolves) and waits until
// the session is open. It tries all addresses that the text has, and fails at once if the network
// says that nobody listens at any. Dial owns tr.
//
// Clients share a Loop if their transports differ in nothing but a port that the system chose, as
// of udp.Listen(":0"), and their configurations are equal: with the same TLS, Keyring and Logger,
// by pointer, and without OnSession, Authorize, AuthorizeRequest, KeyLog, Congestion.Custom,
// Simulation, LockThread, WaitSpin, MaxSessions and MemoryLimit. Then tr is closed at once, if it
// does not become that Loop's. There are up to GOMAXPROCS of them. They end 200 ms after the last
// Client, so that a program which dials again and again finds socket and keys in place. Other
// Clients have a Loop of their own, which ends with them. Use NewLoop to have one in any case.
//
// A callback of Start keeps all Clients of its Loop waiting, whoever they belong to. New ones get a
// Loop that goes on, if there is one: no callback has kept it for more than a millisecond or two.
// If all are kept they get the one that went on last; Dial returns when that goes on again, also if
// ctx ends before.
//
// Errors: a *ConfigError, ErrTransportInUse as of Nexus.NewRpc, or a *DialError with all addresses
// and ErrResolve with the cause that tr gave, ErrRefused, ErrConnect, or the context's as in Call.
// If ctx ends while tr.Resolve is at work, Dial closes tr and returns; a goroutine stays until
// Resolve does.
func Dial(ctx context.Context, tr transport.Transport, addr string, cfg Config) (*Client, error) {
	owned, err := take(tr)
	if err != nil {
		return nil, err
	}
	if sort, ok := sortOf(tr, &cfg); ok {
		return shared.dial(ctx, owned, addr, sort, cfg)
	}
	to, err := resolve(ctx, tr, addr)
	if err != nil {
		return nil, errors.Join(dialError(addr, tr, to, err), owned.close())
	}
	l, err := newLoop(owned, cfg)
	if err != nil {
		return nil, err
	}
	c, err := l.dial(ctx, addr, to)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c.alone = true
	return c, nil
}

// Ready waits until a session to the server is open, opening one if there is none. Errors
// are those of a call that could not be sent.
func (c *Client) Ready(ctx context.Context) error {
	ready := make(chan error, 1)
	err := c.rpc.Post(func(*Rpc) {
		var err error
		if c.pick() == nil && len(c.all) == c.connecting {
			err = c.want()
			if err == nil {
				c.waiting = append(c.waiting, ready)
				return
			}
		}
		ready <- err
	})
	if err != nil {
		return err
	}
	select {
	case err = <-ready:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	case <-c.done:
		return ErrClosed
	}
}

// Close ends the Client's sessions, and its loop if that is its own. Calls under way end with
// ErrClosed, and the server is told. It does not wait for a lookup of the server's name, which
// cannot be ended: the lookup's goroutine ends when the transport's Resolve returns. It must not be
// called in the loop, by OnSession.
func (c *Client) Close() error {
	if c.alone {
		c.closed.Store(true)
		return c.loop.Close()
	}
	first := !c.closed.Swap(true)
	if first {
		_ = c.rpc.Post(func(*Rpc) { c.finish() }) // in vain only if the loop has ended
	}
	select {
	case <-c.done:
	case <-c.loop.done:
	}
	if first && c.shared != nil {
		c.shared.leave(c.given, false)
	}
	return nil
}

// closedError returns the error of a call after Close.
func (c *Client) closedError() error {
	if c.member != nil && !c.member.once {
		return errNotSent
	}
	return unsent(ErrClosed)
}

// Stats returns the counters of the Rpc of the Client's loop.
func (c *Client) Stats() Stats { return c.rpc.Stats() }

// DialError says between which addresses Dial could not open a session, and what the likely cause
// is. It matches what its Err matches.
type DialError struct {
	Server string         // as Dial was given it
	Local  transport.Addr // of the transport
	Remote transport.Addr // the address of Server; zero if that is not known
	Hint   string         // the likely cause, "" if there is none to name
	Err    error
	// Remotes are the addresses of Server in the order of trying; Remote is the first.
	Remotes []transport.Addr
}

func (e *DialError) Error() string {
	text := "dial " + e.Server
	if isIP(e.Server) {
		if to := join(e.Remotes, e.Remote); e.Remote.IsValid() && to != e.Server {
			text += " (" + to + ")"
		}
		text += " from " + e.Local.String()
	}
	text += ": " + e.Err.Error()
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns Err.
func (e *DialError) Unwrap() error { return e.Err }

// join writes addresses one behind the other, or the one if there are none.
func join(all []transport.Addr, one transport.Addr) string {
	if len(all) == 0 {
		return one.String()
	}
	text := all[0].String()
	for i := range all[1:] {
		text += ", " + all[1+i].String()
	}
	return text
}

// dialError makes an error of Dial one that names all addresses.
func dialError(server string, tr transport.Transport, to []transport.Addr, err error) error {
	e := &DialError{Server: server, Local: tr.LocalAddr(), Remotes: to, Err: err}
	if len(to) > 0 {
		e.Remote = to[0]
	}
	if isIP(server) {
		local, known := e.Local.AddrPort().Addr(), e.Remote.IsValid()
		e.Hint = hintFor(server, local, e.Remote.AddrPort(), known, err)
	}
	return e
}

// isIP reports whether the address of a server is one of an IP transport.
func isIP(server string) bool { return !strings.HasPrefix(server, "shm:") }

// hintFor names the likely cause of an error of Dial; known says that the server's name has an
// address.
func hintFor(
	server string, local netip.Addr, remote netip.AddrPort, known bool, err error,
) string {
	if !known {
		if to, perr := netip.ParseAddrPort(server); perr == nil && local.Is4() != to.Addr().Is4() {
			return "the local address is " + family(local) + " and the server's " + family(to.Addr()) +
				`: listen on an address of the same kind, or on all (":0")`
		}
		return ""
	}
	if !errors.Is(err, ErrConnect) && !errors.Is(err, ErrDeadline) {
		return ""
	}
	switch to := remote.Addr(); {
	case to.IsUnspecified():
		return "that address stands for all of a host's own: name one of them"
	case remote.Port() == 0:
		return "port 0 is nobody's: name the server's port"
	case to.Is6() && to.IsLinkLocalUnicast() && to.Zone() == "":
		return "a link-local address needs its interface, as in [fe80::1%eth0]:31850"
	case local.IsLoopback() && !to.IsLoopback():
		return "the local address is a loopback one, which other machines cannot answer: listen on " +
			`an address of the network, or on all (":0")`
	case to.IsLoopback():
		return "no server listens there"
	case errors.Is(err, engine.ErrPortClosed):
		return "no server listens there, or a firewall rejects UDP on the way"
	}
	return "no server listens there, or a firewall drops UDP on the way"
}

// family names the version of an IP address.
func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

const (
	// redialAfter is how long a Client fails calls at once after it could not connect.
	redialAfter = 20 * time.Millisecond
	// startingFor is how long calls wait for a server where nobody listens: it may be starting.
	startingFor = 150 * time.Millisecond
)

// redial is a Client's way to its next session. It belongs to the loop.
//
// A server that was started again may have another address under the same name, so the name
// is looked up first: in a goroutine of its own, of which there is one at most. Meanwhile the
// old address, which may be somebody else's by now, gets nothing. If the lookup fails, or has
// no answer after half of ConnectTimeout, the old address is tried: a name service that is
// down does not keep a Client from a server that has not moved. An answer that comes after
// that still counts while the session is not open.
//
// The lookup may come before a server that has died is back: a peer in shared memory is missed at
// once. So the name is looked up again while the session is not open, and once more when it is. If
// the name leads elsewhere by then, a session opens there and takes the place of the others.
type redial struct {
	dialed     bool          // there was a session before this one
	resolving  bool          // the goroutine is at work
	awaiting   bool          // its answer is waited for
	unknown    bool          // there was no answer so far: no address is known
	began      monotime.Time // what goes on now; ConnectTimeout later it ends
	resolveErr error         // why the address may be an old one
	pause      time.Duration // until the next lookup while the session is not open
	check      bool          // there is to be one more when it is
	following  bool          // a session opens where the last one led
	race       race          // between the addresses of the name
	shut       error         // nobody has listened for a while, and who calls does not wait
}

// Pauses between lookups while a session is not open. Each is twice as long as the one before.
const (
	minPause = 20 * time.Millisecond
	maxPause = 800 * time.Millisecond
)

// want makes sure that a session for the calls that wait is open or on its way. An error says that
// none can be.
func (c *Client) want() error {
	d := &c.redial
	switch {
	case c.over:
		return ErrClosed
	case d.shut != nil && c.unopened():
		return d.shut
	case len(c.all) > 0:
		c.grow()
		return nil
	case d.awaiting:
		return nil
	case d.dialed && c.member != nil && c.member.once:
		return c.member.away()
	case c.failure != nil && c.rpc.readClock().Sub(c.failedAt) < redialAfter:
		return c.failure
	}
	d.began = c.rpc.readClock()
	d.shut, c.alarms.shut = nil, 0
	if d.dialed {
		c.resolve()
		return nil
	}
	d.dialed = true // Dial has just looked the name up
	return c.connect()
}

// resolve begins to look the name up, and to wait for the answer.
func (c *Client) resolve() {
	d := &c.redial
	d.awaiting, d.check, d.pause = true, true, minPause
	c.alarms.lookup = d.began.Add(c.rpc.cfg.Timing.ConnectTimeout / 2)
	c.arm()
	c.lookup()
}

// lookup looks the name up, if no earlier lookup is under way, whose answer will do.
func (c *Client) lookup() {
	d := &c.redial
	if d.resolving {
		return
	}
	d.resolving = true
	go func() {
		to, err := lookupAll(c.rpc.tr, c.text)
		_ = c.rpc.Post(func(*Rpc) { c.resolved(to, err) }) // in vain only if the loop has ended
	}()
}

// lookupDue ends a wait for an answer that has lasted too long, or looks up again.
func (c *Client) lookupDue() {
	switch {
	case c.redial.awaiting:
		c.tooLate()
	case c.unopened():
		c.lookup()
	}
}

// unopened reports whether sessions are being opened and none is open.
func (c *Client) unopened() bool { return len(c.all) > 0 && len(c.all) == c.connecting }

// tooLate ends a wait that has lasted too long.
func (c *Client) tooLate() {
	c.redial.resolveErr = fmt.Errorf("%w: no answer yet for %s", ErrResolve, c.text)
	c.proceed()
}

// resolved takes the answer to a lookup, which may have been given up.
func (c *Client) resolved(to []transport.Addr, err error) {
	d := &c.redial
	d.resolving = false
	if c.over {
		return
	}
	if err == nil {
		c.addrs, d.resolveErr, d.unknown = to, nil, false
	} else {
		d.resolveErr = resolveError(err)
	}
	switch {
	case d.awaiting:
		c.proceed()
	case err != nil:
		if c.unopened() && c.rpc.tr.IsPrivate(c.addrs[0]) {
			c.unreachable() // it would be found
		}
	case c.unopened():
		c.rerace()
	case len(c.all) > 0 && !slices.ContainsFunc(c.all, c.leads):
		c.follow()
	}
	if d.check && c.unopened() {
		c.alarms.lookup = c.rpc.readClock().Add(d.pause)
		d.pause = min(2*d.pause, maxPause)
		c.arm()
	}
}

// follow opens a session where the name leads now, beside those that are open elsewhere.
func (c *Client) follow() {
	s, err := c.rpc.dial(c.addrs[0], hostOf(c.text), c.rpc.cfg.Timing.ConnectTimeout)
	if err != nil {
		return // the others are open
	}
	c.redial.following = true
	c.open(s, true)
}

// arrived acts on a session that has been opened: the name is looked up once more, or the session
// is where that led, and those elsewhere get no calls any more.
func (c *Client) arrived(l *clientSession) {
	d := &c.redial
	if d.check {
		d.check = false
		c.lookup()
	}
	if !d.following || !c.leads(l) {
		return
	}
	d.following = false
	for i := len(c.all) - 1; i >= 0; i-- {
		if o := c.all[i]; o.slots > 0 && !c.leads(o) {
			c.retire(o)
		}
	}
}

// proceed opens a session at the addresses that are known now.
func (c *Client) proceed() {
	c.resolveDone()
	if err := c.connect(); err != nil {
		c.tell(err)
		if c.member != nil {
			c.member.fail(err)
		}
	}
}

func (c *Client) resolveDone() {
	c.redial.awaiting = false
	c.alarms.lookup = 0
	c.arm()
}

// onSession follows the fate of a session.
func (c *Client) onSession(s *Session, ev SessionEvent) {
	l := s.ofClient
	if l == nil {
		return
	}
	switch ev {
	case SessionConnected:
		c.opened(l)
		return
	case SessionDraining:
		c.retire(l)
	case SessionRestarted:
		c.detach(l)
		c.retireAll(s.conn.Epoch())
	default:
		c.detach(l)
	}
	switch {
	case ev == SessionRefused && !l.more && c.lost(l):
	case ev == SessionRefused && len(c.all) > 0:
		c.growLater()
	case c.member != nil:
		c.member.onSession(l, ev)
	case ev == SessionRefused && !l.more: // else the name may lead elsewhere by now
		c.failure, c.failedAt = c.redial.cause(s.Err()), c.rpc.readClock()
		c.tell(c.failure)
	case len(c.all) == 0 && c.queue.n+len(c.waiting) > 0:
		c.seek()
	}
}

// tell answers all that wait for a session: nil lets them go on, an error ends them.
func (c *Client) tell(err error) {
	for _, w := range c.waiting {
		w <- err
	}
	c.waiting = c.waiting[:0]
	if err == nil {
		if !c.holding {
			c.serve(c.queue.n)
		}
		return
	}
	c.holding = false
	for _, q := range [...]*callQueue{&c.queue, &c.large} {
		for q.n > 0 {
			k := q.first
			q.remove(k)
			k.end(unsent(err))
		}
	}
}

// resolve is lookupAll, but returns when ctx ends. Then a goroutine is left behind; it ends
// when Resolve returns.
func resolve(ctx context.Context, tr transport.Transport, text string) ([]transport.Addr, error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	var to []transport.Addr
	answer := make(chan error, 1)
	go func() {
		var err error
		to, err = lookupAll(tr, text)
		answer <- err
	}()
	select {
	case err := <-answer:
		return to, resolveError(err)
	case <-ctx.Done():
		return nil, contextError(ctx)
	}
}

// lookupAll returns all addresses of text, in the order to try.
func lookupAll(tr transport.Transport, text string) ([]transport.Addr, error) {
	to, err := tr.Resolve(text)
	if err != nil {
		return nil, err
	}
	all := tr.Addrs(text)
	if !slices.Contains(all, to) { // Resolve is that of a decorator, which knows better
		return []transport.Addr{to}, nil
	}
	return all[:min(len(all), transport.MaxAddrs)], nil
}

// resolveError gives an error of Resolve the library's name, or returns nil.
func resolveError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrResolve, err)
}
