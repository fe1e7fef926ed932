package hostiletest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestMiddle puts a man in the middle between some clients and a server, and now and then starts
// the server or a client again, or cuts the network.
func TestMiddle(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rules rules
	}{
		// Faults of a network without a mind of its own.
		{"checksums", rules{checksum: true, damage: true}},
		{"whole packets", rules{}},
		// Damage that nothing can notice. Requests may run twice, or be others than were sent.
		{"damage without checksums", rules{damage: true}},
		{"forged packets", rules{checksum: true, damage: true, forge: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := begin(t)
			tc.rules.late = 150 * time.Millisecond
			if l.long() {
				tc.rules.late = 3 * time.Second
			}
			m := newMiddle(l, tc.rules)
			m.trouble()
			m.settle()
		})
	}
}

// callers is how many clients there are, and how many goroutines each has.
const (
	callers    = 3
	goroutines = 6
)

// maxMemory bounds the message buffers of a server that has few clients, whatever they ask for.
const maxMemory = 256 << 20

type middle struct {
	l       *lab
	r       *rand.Rand
	book    *ledger
	server  *server
	net     *network
	clients [callers]atomic.Pointer[erpc.Client]
	binds   [callers]string
}

func newMiddle(l *lab, r rules) *middle {
	m := &middle{l: l, r: l.rng("driver", 0), book: newLedger()}
	m.server = serve(l, quick(r.checksum), m.book, nil)
	m.net = newNetwork(l, m.server.addr, r)
	for i := range m.clients {
		m.binds[i] = "127.0.0.1:0"
		m.redial(i)
	}
	return m
}

// redial puts a new incarnation of a client in the place of the one before, at its address.
func (m *middle) redial(i int) {
	if c := m.clients[i].Load(); c != nil {
		shut(m.l, c)
	}
	c, local := dial(m.l, m.binds[i], m.net.addr(), quick(m.net.rules.checksum))
	m.binds[i] = local
	m.clients[i].Store(c)
}

// trouble lets clients call while the driver makes trouble.
func (m *middle) trouble() {
	m.l.step("the clients have sessions")
	var stop atomic.Bool
	var workers sync.WaitGroup
	for i := range callers * goroutines {
		r := m.l.rng("worker", i)
		workers.Go(func() {
			for !stop.Load() {
				m.call(m.clients[i%callers].Load(), r)
			}
		})
	}
	var order []int
	for end := time.Now().Add(m.l.span()); time.Now().Before(end); order = order[1:] {
		if len(order) == 0 {
			order = m.r.Perm(6)
		}
		m.net.weather.Store(newWeather(m.r))
		switch order[0] {
		case 0:
			m.redial(m.r.IntN(callers))
			m.net.weather.Store(echoes)
		case 1:
			m.net.dark.Store(m.r.IntN(2) == 0) // if so nobody hears that the server ends
			m.server.stop()
			m.server.start()
			m.net.weather.Store(echoes)
			m.net.dark.Store(false)
		case 2:
			m.net.dark.Store(true)
			<-time.After(between(m.r, 0, min(2*m.net.rules.late, 2*time.Second)))
			m.net.dark.Store(false)
		}
		<-time.After(between(m.r, 50*time.Millisecond, 400*time.Millisecond))
	}
	stop.Store(true)
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	m.l.within("calls with deadlines", done)
}

// call makes one call of any kind. Each has a deadline.
func (m *middle) call(c *erpc.Client, r *rand.Rand) {
	size, most := r.IntN(200), 500
	switch r.IntN(16) {
	case 0, 1, 2:
		size, most = r.IntN(12_000), 12_000
	case 3:
		size, most = r.IntN(100_000), 100_000
	}
	ctx, cancel := context.WithTimeout(context.Background(),
		between(r, 10*time.Millisecond, 1500*time.Millisecond))
	defer cancel()
	if !m.book.call(ctx, c, uint8(typeWorker+r.IntN(2)), size, most) {
		<-time.After(5 * time.Millisecond) // a Client without a session fails at once
	}
}

// settle ends the trouble and wants everything to be as before.
func (m *middle) settle() {
	l := m.l
	l.step("the calls have ended")
	m.net.calm()
	l.step("the network is honest")
	for i := range m.clients {
		if m.net.rules.forge {
			m.redial(i) // the ends of a session may differ for ever
		}
		heals(l, m.book, m.clients[i].Load(), 20)
		l.step("calls of one more client are answered")
	}
	l.until("the server's sessions are those of its clients", func() bool {
		return m.server.stats().Sessions == callers
	})
	l.step("no other sessions are left")
	st := m.server.stats()
	if st.Memory > maxMemory {
		l.Errorf("the server has %d bytes of message buffers", st.Memory)
	}
	l.Logf("the server's last incarnation of %d: %d bytes of buffers, %+v",
		m.server.incarnation, st.Memory, st.Protocol)
	for i := range m.clients {
		shut(l, m.clients[i].Load())
	}
	l.until("the server has no session", func() bool { return m.server.stats().Sessions == 0 })
	m.server.stop()
	m.net.close()
	l.step("all is closed")
	s := m.book.check(l, m.net.rules.strict())
	if s.Answered < 100 || m.net.touched.Load() < 100 {
		l.Errorf("seed %d: %d calls answered, %d packets touched", l.seed, s.Answered,
			m.net.touched.Load())
	}
}

// TestCrossed lets the packets of each client come from the address of another one, all other
// things right. A session stays where it is, so that nothing of it runs.
func TestCrossed(t *testing.T) {
	l := begin(t)
	book := newLedger()
	s := serve(l, quick(true), book, nil)
	n := newNetwork(l, s.addr, rules{checksum: true})
	clients := make([]*erpc.Client, 3)
	for i := range clients {
		clients[i], _ = dial(l, "127.0.0.1:0", n.addr(), quick(true))
		heals(l, book, clients[i], 10)
	}
	l.step("crossed")
	n.crossed.Store(true)
	first := uint64(len(book.runs))
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for i := range 8 {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				book.call(ctx, c, uint8(typeWorker+i%2), 1000*i, 100)
				cancel()
			}
		})
	}
	all.Wait()
	n.drain()
	l.step("honest again")
	n.calm()
	for _, c := range clients {
		heals(l, book, c, 10)
		l.step("calls of one more client are answered")
	}
	for _, c := range clients {
		shut(l, c)
	}
	s.stop()
	n.close()
	l.step("all is closed")
	book.check(l, true)
	if ran := book.ranOf(first, 8*len(clients)); ran != 0 {
		t.Errorf("%d requests ran that came from other addresses", ran)
	}
}
