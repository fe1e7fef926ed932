package secure

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// drill has two servers and two clients, each of which calls both servers all the time.
type drill struct {
	t                *testing.T
	ctx              context.Context
	servers, clients []*process
	addrs            []string
	loops            []*erpc.Loop
	callers          []chan struct{} // a word for each call; closed when one has failed
	lost             atomic.Int64    // sessions, but those that a client has closed
	over             atomic.Bool
	calls            sync.WaitGroup
}

// newDrill starts processes, each with files of its own.
func newDrill(t *testing.T, texts func() map[string]string) *drill {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	d := &drill{t: t, ctx: ctx}
	for range 2 {
		p := newProcess(t, texts())
		d.servers, d.addrs = append(d.servers, p), append(d.addrs, d.serve(p))
	}
	for range 2 {
		p := newProcess(t, texts())
		loop, err := erpc.NewLoop(listen(t), d.config(p))
		if err != nil {
			t.Fatal(err)
		}
		d.clients, d.loops = append(d.clients, p), append(d.loops, loop)
		for _, addr := range d.addrs {
			c, err := loop.Dial(ctx, addr)
			if err != nil {
				t.Fatal(err)
			}
			word := make(chan struct{})
			d.callers = append(d.callers, word)
			d.calls.Go(func() { d.call(c, word) })
		}
	}
	return d
}

func listen(t *testing.T) transport.Transport {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// config is that of a process.
func (d *drill) config(p *process) erpc.Config {
	cfg := erpc.Config{OnSession: func(_ *erpc.Rpc, _ *erpc.Session, ev erpc.SessionEvent) {
		if ev == erpc.SessionLost || ev == erpc.SessionRestarted {
			d.lost.Add(1)
		}
	}}
	p.flags.Apply(&cfg)
	return cfg
}

// serve runs a server until the test ends.
func (d *drill) serve(p *process) (addr string) {
	srv, err := erpc.NewServer(d.config(p))
	if err == nil {
		err = srv.Handle(1, func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
	}
	if err != nil {
		d.t.Fatal(err)
	}
	tr := listen(d.t)
	addr = tr.LocalAddr().String()
	ended := make(chan struct{})
	go func() { _ = srv.Serve(tr); close(ended) }()
	d.t.Cleanup(func() { _ = srv.Close(); <-ended })
	return addr
}

// call calls until the drill is over.
func (d *drill) call(c *erpc.Client, word chan struct{}) {
	defer close(word)
	for !d.over.Load() {
		if _, err := c.Call(d.ctx, 1, []byte("x")); err != nil {
			if !d.over.Load() {
				d.t.Errorf("a call: %v", err)
			}
			return
		}
		select {
		case word <- struct{}{}:
		default:
		}
	}
}

// end ends the calls, and looks at what became of the sessions.
func (d *drill) end() {
	d.over.Store(true)
	d.calls.Wait()
	for _, l := range d.loops {
		if s := l.Stats(); s.SessionsOpened != 2 || s.SessionsEnded != 0 || s.Failed != 0 {
			d.t.Errorf("a client opened %d sessions, %d ended, %d calls failed", s.SessionsOpened,
				s.SessionsEnded, s.Failed)
		}
		_ = l.Close()
	}
	if n := d.lost.Load(); n != 0 {
		d.t.Errorf("%d sessions were lost", n)
	}
}

// dial calls a server in a session of a new endpoint.
func (d *drill) dial(p *process, addr string) error {
	cfg := erpc.Config{MaxSessions: 1 << 10} // which no other Client's endpoint serves
	p.flags.Apply(&cfg)
	c, err := erpc.Dial(d.ctx, listen(d.t), addr, cfg)
	if err != nil {
		return err
	}
	_, err = c.Call(d.ctx, 1, []byte("x"))
	return errors.Join(err, c.Close())
}

// each changes the files of processes, one after the other. After each of them all calls go on, and
// new endpoints of all clients reach all servers.
func (d *drill) each(list []*process, texts func() map[string]string) {
	d.t.Helper()
	for _, p := range list {
		p.change(texts())
		for i, word := range d.callers {
			for range 10 {
				if _, ok := <-word; !ok {
					d.t.Fatalf("caller %d has ended", i)
				}
			}
		}
		for i, c := range d.clients {
			for j, addr := range d.addrs {
				if err := d.dial(c, addr); err != nil {
					d.t.Errorf("client %d, server %d: %v", i, j, err)
				}
			}
		}
	}
}

// refused checks that a new endpoint is not served, and why.
func (d *drill) refused(p *process, addr, why string) {
	d.t.Helper()
	err := d.dial(p, addr)
	if !errors.Is(err, erpc.ErrDenied) || !strings.Contains(err.Error(), why) {
		d.t.Errorf("%v, want a refusal with %q", err, why)
	}
}

// text returns a function of a file's text, which stays the same.
func text(flag, s string) func() map[string]string {
	return func() map[string]string { return map[string]string{flag: s} }
}

// TestDrillCA: an authority is replaced in three steps, one process after the other, while all
// call. No call fails and no session ends. What the old one has signed is refused afterwards.
func TestDrillCA(t *testing.T) {
	before, after := sectest.NewCA("before"), sectest.NewCA("after")
	issue := func(ca *sectest.CA) func() map[string]string {
		return func() map[string]string {
			cert, key := ca.IssuePEM("127.0.0.1")
			return map[string]string{"cert": cert, "key": key}
		}
	}
	first := func() map[string]string { return merged(issue(before)(), text("ca", before.PEM())()) }
	d := newDrill(t, first)
	defer d.end()
	all := append(append([]*process{}, d.servers...), d.clients...)

	d.each(all, text("ca", before.PEM()+after.PEM()))
	d.each(all, issue(after))
	stale := newProcess(t, merged(issue(before)(), text("ca", before.PEM()+after.PEM())()))
	if err := d.dial(stale, d.addrs[0]); err != nil {
		t.Errorf("before the old authority is dropped: %v", err)
	}
	d.each(all, text("ca", after.PEM()))

	d.refused(stale, d.addrs[0], "the server asks for other certificates than this side has")
	d.refused(d.clients[0], d.serve(stale), "unknown authority")
}

// TestDrillPSK: the same of a shared key.
func TestDrillPSK(t *testing.T) {
	const before, after = "11111111111111111111111111111111\n", "22222222222222222222222222222222\n"
	d := newDrill(t, text("psk", before))
	defer d.end()
	all := append(append([]*process{}, d.servers...), d.clients...)

	d.each(all, text("psk", before+after))
	d.each(all, text("psk", after+before))
	stale := newProcess(t, map[string]string{"psk": before})
	if err := d.dial(stale, d.addrs[0]); err != nil {
		t.Errorf("before the old key is dropped: %v", err)
	}
	d.each(all, text("psk", after))

	d.refused(stale, d.addrs[0], "the shared keys differ")
	d.refused(d.clients[0], d.serve(stale), "the shared keys differ")
}
