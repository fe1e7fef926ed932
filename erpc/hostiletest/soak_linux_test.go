package hostiletest

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// The request types of handlers that behave badly, beside typeWorker and typeInline.
const (
	typeBlock = 3 // blocks until its request is given up, or for some time
	typePanic = 4
	typeTwice = 5 // answers twice
)

// groupServer is a server with two loops on one address.
type groupServer struct {
	*erpc.Server
	l      *lab
	book   *ledger
	addr   string
	served sync.WaitGroup
	twice  sync.Once // a second answer was taken
}

func serveGroup(l *lab, book *ledger, cfg erpc.Config) *groupServer {
	l.Helper()
	conns, err := udp.ListenGroup("127.0.0.1:0", 2, udp.Config{})
	if err != nil {
		l.Fatal(err)
	}
	g := &groupServer{l: l, book: book, addr: conns[0].LocalAddr().String()}
	if g.Server, err = erpc.NewServer(cfg); err == nil {
		err = g.handle()
	}
	if err != nil {
		l.Fatal(err)
	}
	trs := make([]transport.Transport, len(conns))
	for i, c := range conns {
		trs[i] = c
	}
	g.served.Go(func() {
		err := g.ServeGroup(trs)
		if !errors.Is(err, erpc.ErrClosed) || errors.Is(err, erpc.ErrBufferLeak) {
			l.Errorf("ServeGroup: %v", err)
		}
	})
	l.until("the group serves", func() bool { return len(g.Stats()) == len(trs) })
	return g
}

// handle registers the handlers.
func (g *groupServer) handle() error {
	run := func(req []byte) ([]byte, error) {
		g.book.ran(binary.LittleEndian.Uint64(req))
		return answer(1, req)
	}
	worker := func(_ context.Context, req []byte) ([]byte, error) { return run(req) }
	block := func(ctx context.Context, req []byte) ([]byte, error) {
		select { // for 0 to 15 ms, as the request says
		case <-ctx.Done():
		case <-time.After(time.Duration(req[0]%16) * time.Millisecond):
		}
		return run(req)
	}
	panics := func(_ context.Context, req []byte) ([]byte, error) {
		if resp, err := run(req); req[0]%2 == 0 {
			return resp, err
		}
		panic("as asked for")
	}
	inline := func(h erpc.ReqHandle, times int) {
		resp, err := run(h.Data())
		for i := range times {
			var failed error
			if err != nil {
				failed = h.RespondError(err)
			} else {
				failed = h.RespondBytes(resp)
			}
			if i > 0 && failed == nil {
				g.twice.Do(func() { g.l.Error("a second answer was taken") })
			}
		}
	}
	return errors.Join(
		g.Handle(typeWorker, worker), g.Handle(typeBlock, block), g.Handle(typePanic, panics),
		g.HandleInline(typeInline, func(h erpc.ReqHandle) { inline(h, 1) }),
		g.HandleInline(typeTwice, func(h erpc.ReqHandle) { inline(h, 2) }))
}

func (g *groupServer) stop() {
	if err := g.Close(); err != nil {
		g.l.Errorf("the server's Close: %v", err)
	}
	g.served.Wait()
}

// TestSoak: a thousand callers use Clients of one Loop and a Pool on it against two groups of
// loops, whose handlers block, panic and answer twice. Calls are cancelled and meet deadlines at
// any moment. Answered calls ran once, none ran twice, and at the end nothing is left.
func TestSoak(t *testing.T) { soak(begin(t), steady()) }

// TestSoakTLS: the same with mutual TLS, and other keys every second, in a short run more often.
func TestSoakTLS(t *testing.T) {
	l := begin(t)
	cfg := steady()
	cfg.TLS = sectest.NewCA("soak").Config("127.0.0.1", "spiffe://soak/all")
	cfg.KeyUpdate = time.Duration(l.pick(200, 1000)) * time.Millisecond
	updates := soak(l, cfg)
	if updates == 0 { // how many there are is up to the machine
		t.Error("the keys have not changed")
	}
	t.Logf("%d key updates", updates)
}

// soak returns how often the clients have changed keys.
func soak(l *lab, cfg erpc.Config) (updates uint64) {
	callers := 1000
	book := newLedger()
	groups := []*groupServer{serveGroup(l, book, cfg), serveGroup(l, book, cfg)}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		l.Fatal(err)
	}
	loop, err := erpc.NewLoop(tr, cfg)
	if err != nil {
		l.Fatal(err)
	}
	pool, err := erpc.NewPool(erpc.PoolConfig{Servers: []string{groups[0].addr, groups[1].addr}}, loop)
	if err != nil {
		l.Fatal(err)
	}
	list := []callee{pool}
	for i := range 4 {
		c, err := loop.Dial(context.Background(), groups[i%2].addr)
		if err != nil {
			l.Fatal(err)
		}
		list = append(list, c)
	}
	var all sync.WaitGroup
	end := time.Now().Add(l.span())
	for i := range callers {
		r := l.rng("soak", i)
		all.Go(func() {
			for first := true; first || time.Now().Before(end); first = false {
				soakCall(book, list[r.IntN(len(list))], r)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	l.within("the soak", done)
	for _, c := range list { // all goes on as before
		for range 20 {
			if !book.call(context.Background(), c, typeWorker, 20, 100) {
				l.Error("a call after the soak has no answer")
			}
		}
	}
	updates = loop.Stats().KeyUpdates
	if err := errors.Join(pool.Close(), loop.Close()); err != nil {
		l.Error(err)
	}
	for _, g := range groups {
		g.stop()
	}
	if s := book.check(l, true); s.Answered < callers/2 || s.Unknown+s.Unsent < callers/20 {
		l.Errorf("seed %d: %+v", l.seed, s)
	}
	return updates
}

// soakCall makes one call of any type; every third one is given up.
func soakCall(book *ledger, c callee, r *rand.Rand) {
	typ := uint8(typeWorker + r.IntN(typeTwice))
	if r.IntN(3) > 0 {
		size := r.IntN(100)
		if r.IntN(50) == 0 {
			size = r.IntN(10_000)
		}
		book.call(context.Background(), c, typ, size, 500)
		return
	}
	giveUp(book, c, r, between(r, 0, 30*time.Millisecond))
}
