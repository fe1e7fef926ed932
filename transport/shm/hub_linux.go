package shm

import (
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// hub makes connections and notices their end, in goroutines of its own. It puts
// its news for the using goroutine into events. It never touches a ring in use.
type hub struct {
	c   *Conn
	cfg Config
	uid uint32

	dir      *directory
	name     string
	listener *net.UnixListener
	epoll    int      // ends of connections
	ends     *os.File // the same, known to the Go runtime: reading parks a goroutine
	slots    chan struct{}
	stopped  chan struct{}
	running  sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	events    []event
	spare     []event
	links     map[transport.Addr]*link
	tokens    map[int32]*peer // connections, by the tokens that epoll returns
	lastToken int32
	used      share            // by all links
	others    share            // of it, by those with other users, root aside
	users     map[uint32]share // and by each of these
	sockets   map[*net.UnixConn]struct{}
	newcomers []*newcomer // connections in the making of other users, the oldest first
}

// share is a part of Config.MaxPeers and MaxMemory.
type share struct {
	links  int
	memory int64 // bytes
}

// newcomer is a connection of another user whose handshake goes on.
type newcomer struct {
	user   uint32
	socket *net.UnixConn
	spoke  bool // its hello has come
}

// event goes from the hub to the using goroutine.
type event struct {
	kind int
	peer *peer          // of eventOpen and eventGone
	addr transport.Addr // of eventFailed
}

const (
	eventOpen = iota
	eventFailed
	eventGone
)

// link is the hub's record of another endpoint: there is one at most for an address.
type link struct {
	addr   transport.Addr
	state  int
	peer   *peer // open
	dial   *net.UnixConn
	memory int64
	wanted bool          // this side asked for it too, and hears if it fails
	done   chan struct{} // closed when it is open or failed
	err    error         // why it failed; set before done is closed
}

// States of a link.
const (
	dialing   = iota // we asked
	accepting        // they asked and we are about to say yes
	open
	failed
)

func (h *hub) init(c *Conn, name string, cfg Config) (err error) {
	*h = hub{c: c, cfg: cfg, name: name, uid: uint32(os.Geteuid()), epoll: -1,
		slots: make(chan struct{}, maxHandshakes), stopped: make(chan struct{}),
		links: map[transport.Addr]*link{}, tokens: map[int32]*peer{},
		users: map[uint32]share{}, sockets: map[*net.UnixConn]struct{}{}}
	if h.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	_ = unix.SetNonblock(h.epoll, true) // tells NewFile to ask the runtime's poller
	h.ends = os.NewFile(uintptr(h.epoll), "epoll")
	if h.dir, err = openDirectory(cfg); err != nil {
		h.ends.Close()
		return err
	}
	mode := uint32(0o600)
	if cfg.AllowOtherUsers {
		mode = 0o666
	}
	if h.listener, err = h.dir.claim(c.local, name, mode); err != nil {
		h.dir.close()
		h.ends.Close()
		return err
	}
	h.running.Go(h.acceptAll)
	h.running.Go(h.watchEnds)
	return nil
}

// stop ends all goroutines.
func (h *hub) stop() {
	h.mu.Lock()
	h.closed = true
	close(h.stopped)
	for s := range h.sockets {
		s.Close()
	}
	h.mu.Unlock()
	h.dir.release(h.c.local, h.name)
	h.listener.Close()
	h.ends.Close()
	h.running.Wait()
}

// free frees all connections, after stop. Nobody uses them any more.
func (h *hub) free() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for token, p := range h.tokens {
		p.free()
		delete(h.tokens, token)
	}
	clear(h.links)
	h.dir.close()
}

// take returns the events since the last call. They are valid until the next.
func (h *hub) take() []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.c.news.Store(false)
	h.spare, h.events = h.events, h.spare[:0]
	return h.spare
}

// tell adds an event. The caller holds mu.
func (h *hub) tell(e event) {
	h.events = append(h.events, e)
	h.c.news.Store(true)
	h.c.Wake()
}

// watchEnds waits for the ends of connections.
func (h *hub) watchEnds() {
	raw, err := h.ends.SyscallConn()
	if err != nil {
		return
	}
	var events [32]unix.EpollEvent
	for {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = unix.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		if err != nil {
			return // closed
		}
		h.mu.Lock()
		for _, ev := range events[:n] {
			if p := h.tokens[ev.Fd]; p != nil {
				h.gone(p)
			}
		}
		h.mu.Unlock()
	}
}

// gone notes the end of a connection. The caller holds mu.
func (h *hub) gone(p *peer) {
	if l := h.links[p.addr]; l != nil && l.peer == p {
		h.drop(l)
		h.tell(event{kind: eventGone, peer: p})
	}
}

// drop forgets a link, but not its memory. The caller holds mu.
func (h *hub) drop(l *link) {
	if h.links[l.addr] == l {
		delete(h.links, l.addr)
		h.charge(l.addr, -1, 0)
	}
}

// release frees a connection for good, at a time when the using goroutine has no packet
// of it any more.
func (h *hub) release(p *peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.links[p.addr]; l != nil && l.peer == p {
		h.drop(l)
	}
	if h.tokens[p.token] == p {
		delete(h.tokens, p.token)
		h.charge(p.addr, 0, -p.memory())
		p.free()
	}
}

// lookup returns the address that a name stands for, dead or alive.
func (h *hub) lookup(t *target) (transport.Addr, error) {
	h.mu.Lock() // the directory is open until free
	defer h.mu.Unlock()
	if h.closed {
		return transport.Addr{}, transport.ErrClosed
	}
	return h.dir.lookupOf(t)
}

// connect connects to an endpoint unless there is a connection, and waits for it.
func (h *hub) connect(a transport.Addr) error {
	l := h.begin(a)
	if l == nil {
		return transport.ErrClosed
	}
	select {
	case <-l.done:
		return l.err
	case <-h.stopped:
		return transport.ErrClosed
	}
}

// begin begins to connect to an endpoint unless there is a link. nil means closed.
func (h *hub) begin(a transport.Addr) *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if l := h.links[a]; l != nil {
		l.wanted = true
		return l
	}
	l := &link{addr: a, state: dialing, wanted: true, done: make(chan struct{})}
	if err := h.admit(l, h.cfg.Ring); err != nil {
		l.state, l.err = failed, err
		close(l.done)
		h.tell(event{kind: eventFailed, addr: a})
		return l
	}
	h.running.Go(func() { h.dial(l) })
	return l
}

// admit records a new link if there is room. The caller holds mu.
func (h *hub) admit(l *link, ring int) error {
	l.memory = peerMemory(ring)
	if !h.room(l) {
		return ErrLimit
	}
	h.links[l.addr] = l
	h.charge(l.addr, 1, l.memory)
	return nil
}

// room reports whether there is room for a link. Another user has a quarter at most, and all others
// together three quarters: some is left for this user and root. The caller holds mu.
func (h *hub) room(l *link) bool {
	all := share{h.cfg.MaxPeers, h.cfg.MaxMemory}
	quarter := share{all.links / 4, all.memory / 4}
	others := share{all.links - quarter.links, all.memory - quarter.memory}
	if user := userOf(l.addr); h.cfg.AllowOtherUsers && !h.trusts(user) {
		if !quarter.holds(h.users[user], l) || !others.holds(h.others, l) {
			return false
		}
	}
	return all.holds(h.used, l)
}

// holds reports whether there is room for l beside what is used.
func (s share) holds(used share, l *link) bool {
	return used.links < s.links && used.memory+l.memory <= s.memory
}

// charge notes what links of an address use more, or less. The caller holds mu.
func (h *hub) charge(a transport.Addr, links int, memory int64) {
	add := func(s share) share { return share{s.links + links, s.memory + memory} }
	h.used = add(h.used)
	user := userOf(a)
	if !h.cfg.AllowOtherUsers || h.trusts(user) {
		return
	}
	h.others = add(h.others)
	if h.users[user] = add(h.users[user]); h.users[user] == (share{}) {
		delete(h.users, user)
	}
}

// fail ends the making of a link.
func (h *hub) fail(l *link, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.state == open || l.state == failed {
		return
	}
	l.state, l.err = failed, err
	h.charge(l.addr, 0, -l.memory)
	h.drop(l)
	if l.wanted {
		h.tell(event{kind: eventFailed, addr: l.addr})
	}
	close(l.done)
}

// established makes a link of the given state an open one. The hub owns p then; if
// it returns an error the caller does.
func (h *hub) established(l *link, state int, p *peer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return transport.ErrClosed
	case l.state != state:
		return fmt.Errorf("%w: another connection was faster", ErrHandshake)
	}
	h.lastToken++
	p.token = h.lastToken
	if err := h.c.waiter.watch(p.fd); err != nil {
		return err
	}
	ev := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: p.token}
	if err := unix.EpollCtl(h.epoll, unix.EPOLL_CTL_ADD, p.fd, &ev); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	h.tokens[p.token] = p
	l.state, l.peer = open, p
	h.tell(event{kind: eventOpen, peer: p})
	close(l.done) // after the event: who sends next finds the peer
	return nil
}

// guard bounds the life of a socket in the making: it is closed by Close, and when its
// time is over. The caller calls the function that it returns, which closes it too.
func (h *hub) guard(s *net.UnixConn) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		s.Close()
		return func() {}
	}
	h.sockets[s] = struct{}{}
	timer := time.AfterFunc(handshakeTime, func() { s.Close() })
	return func() {
		timer.Stop()
		s.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.sockets, s)
	}
}

// enter counts a connection of another user while its handshake goes on. All those users have
// maxNewcomers places, each of them a quarter at most. Where no place is left, the oldest
// connection that has said nothing makes room: of the user with most of them, or of this one if it
// has as many or its quarter.
func (h *hub) enter(user uint32, s *net.UnixConn) *newcomer {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, silent := map[uint32]int{}, map[uint32]int{}
	for _, n := range h.newcomers {
		all[n.user]++
		if !n.spoke {
			silent[n.user]++
		}
	}
	full := all[user] >= maxNewcomers/4
	if full || len(h.newcomers) >= maxNewcomers {
		loser := user
		for u, n := range silent {
			if !full && n > silent[loser] {
				loser = u
			}
		}
		i := slices.IndexFunc(h.newcomers,
			func(n *newcomer) bool { return n.user == loser && !n.spoke })
		if i < 0 {
			return nil
		}
		h.newcomers[i].socket.Close() // its handshake ends
		h.newcomers = slices.Delete(h.newcomers, i, i+1)
	}
	n := &newcomer{user: user, socket: s}
	h.newcomers = append(h.newcomers, n)
	return n
}

// leave ends what enter began.
func (h *hub) leave(n *newcomer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newcomers = slices.DeleteFunc(h.newcomers, func(x *newcomer) bool { return x == n })
}

// heard notes that a newcomer's hello has come. It reports whether it still has its place.
func (h *hub) heard(n *newcomer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n.spoke = true
	return slices.Contains(h.newcomers, n)
}
