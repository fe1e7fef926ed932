package hostiletest

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// mtu is the size of packets, bytes. Messages of some kilobytes are many packets.
const mtu = 1472

// quick is a config whose sessions notice dead peers soon. A session that its peer has forgotten
// alone is noticed after 200 heartbeats.
func quick(checksum bool) erpc.Config {
	return erpc.Config{MTU: mtu, Checksum: checksum, Timing: erpc.Timing{
		Heartbeat: 25 * time.Millisecond, FailureTimeout: time.Second, ConnectTimeout: time.Second,
	}}
}

// steady is a config whose sessions outlive a busy machine.
func steady() erpc.Config {
	return erpc.Config{MTU: mtu, Timing: erpc.Timing{
		FailureTimeout: patience, ConnectTimeout: patience,
	}}
}

// server is one incarnation after the other of a server at one address.
type server struct {
	l           *lab
	cfg         erpc.Config
	book        *ledger
	hold        func() // inside each handler in a goroutine, if it is set
	addr        string
	incarnation uint32
	*erpc.Server
	served sync.WaitGroup
}

// serve starts the first incarnation.
func serve(l *lab, cfg erpc.Config, book *ledger, hold func()) *server {
	l.Helper()
	s := &server{l: l, cfg: cfg, book: book, hold: hold, addr: "127.0.0.1:0"}
	s.start()
	return s
}

// run is the handler.
func (s *server) run(incarnation uint32, req []byte) ([]byte, error) {
	if len(req) < least { // only forged requests are so short
		return nil, errors.New("too short")
	}
	s.book.ran(binary.LittleEndian.Uint64(req))
	return answer(incarnation, req)
}

func (s *server) start() {
	s.l.Helper()
	s.incarnation++
	now := s.incarnation
	var err error
	if s.Server, err = erpc.NewServer(s.cfg); err != nil {
		s.l.Fatal(err)
	}
	err = errors.Join(
		s.Handle(typeWorker, func(_ context.Context, req []byte) ([]byte, error) {
			if s.hold != nil {
				s.hold()
			}
			return s.run(now, req)
		}),
		s.HandleInline(typeInline, func(h erpc.ReqHandle) {
			resp, err := s.run(now, h.Data())
			if err != nil {
				_ = h.RespondError(err)
			} else {
				_ = h.RespondBytes(resp)
			}
		}))
	if err != nil {
		s.l.Fatal(err)
	}
	tr, err := udp.Listen(s.addr, udp.Config{})
	if err != nil {
		s.l.Fatal(err)
	}
	s.addr = tr.LocalAddr().String()
	srv := s.Server
	s.served.Go(func() {
		if err := srv.Serve(tr); !errors.Is(err, erpc.ErrClosed) || errors.Is(err, erpc.ErrBufferLeak) {
			s.l.Errorf("Serve: %v", err)
		}
	})
	s.l.until("the server serves", func() bool { return len(srv.Stats()) == 1 })
}

// stop ends the incarnation.
func (s *server) stop() {
	s.l.Helper()
	if err := s.Close(); err != nil {
		s.l.Errorf("the server's Close: %v", err)
	}
	s.served.Wait()
}

// stats returns the counters of the incarnation.
func (s *server) stats() erpc.Stats { return s.Stats()[0] }

// dial opens a client of the server at addr. It binds to bind, and returns what that became.
func dial(l *lab, bind, addr string, cfg erpc.Config) (c *erpc.Client, local string) {
	l.Helper()
	cfg.MaxSessions = 1 << 14 // an endpoint of its own, which ends with it
	var err error
	for range 20 { // the network may be bad
		tr, lerr := udp.Listen(bind, udp.Config{})
		if lerr != nil {
			l.Fatal(lerr)
		}
		local = tr.LocalAddr().String()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		c, err = erpc.Dial(ctx, tr, addr, cfg)
		cancel()
		if err == nil {
			return c, local
		}
	}
	l.Fatalf("seed %d: no session to %s: %v", l.seed, addr, err)
	return nil, ""
}

// shut closes a client, which has all its buffers back then.
func shut(l *lab, c *erpc.Client) {
	l.Helper()
	if err := c.Close(); err != nil {
		l.Errorf("the client's Close: %v", err)
	}
}

// maxTries is how many calls may fail after trouble has ended, before some in a row succeed.
const maxTries = 40

// heals makes calls until as many in a row as wanted have been answered.
func heals(l *lab, book *ledger, c *erpc.Client, want int) {
	l.Helper()
	row := 0
	for tries := 0; row < want; tries++ {
		if tries == maxTries+want {
			l.Fatalf("seed %d: after the trouble %d calls were made, the last %d were answered",
				l.seed, tries, row)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if book.call(ctx, c, typeWorker, 1000*(tries%5), 10_000) {
			row++
		} else {
			row = 0
		}
		cancel()
	}
}

// must makes calls that must all be answered at once.
func must(l *lab, book *ledger, c *erpc.Client, calls int) {
	l.Helper()
	for i := range calls {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		ok := book.call(ctx, c, uint8(typeWorker+i%2), 37*i%5000, 5000)
		cancel()
		if !ok {
			l.Errorf("seed %d: call %d was not answered", l.seed, i)
			return
		}
	}
}
