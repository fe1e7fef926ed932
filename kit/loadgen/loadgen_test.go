package loadgen_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/transport"
)

// TestListen: transports by name, a program's own too.
func TestListen(t *testing.T) {
	own := loadgen.Kind{Name: "own", Listen: func(string) (transport.Transport, error) {
		return nil, io.EOF
	}}
	if _, err := loadgen.Listen("own", "", own); err != io.EOF {
		t.Error(err)
	}
	_, err := loadgen.Listen("tcp", "", own)
	var unknown *loadgen.UnknownError
	const text = `transport "tcp" is unknown; there are udp, shm, auto and own`
	if !errors.As(err, &unknown) || err.Error() != text {
		t.Errorf("%v, want %s", err, text)
	}
	for _, name := range []string{"udp", "shm", "auto"} {
		tr, err := loadgen.Listen(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := loadgen.Local("auto", ""); err == nil {
		t.Error("auto is no local transport")
	}
	own.Listen = func(string) (transport.Transport, error) { return nil, &net.OpError{Err: io.EOF} }
	if _, err := loadgen.Listen("own", "", own); !errors.Is(err, io.EOF) ||
		!strings.Contains(err.Error(), "--addr") {
		t.Error(err)
	}
}

// TestEcho: an endpoint opens its sessions, and its requests come back; one to an address where
// nobody is fails.
func TestEcho(t *testing.T) {
	for _, network := range []string{"udp", "shm"} {
		tr, err := loadgen.Local(network, "erpc-loadgen-test-")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan *erpc.Rpc, 1)
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- loadgen.Echo(tr, 1, func(rpc *erpc.Rpc) func() bool {
				served <- rpc
				return func() bool {
					select {
					case <-stop:
						return true
					default:
						return false
					}
				}
			})
		}()
		rpc := <-served
		echo(t, network, tr.LocalAddr().String())
		close(stop)
		rpc.Wake()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func echo(t *testing.T, network, addr string) {
	t.Helper()
	tr, err := loadgen.Listen(network, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := loadgen.Open(tr, erpc.Config{NoHugepages: true,
		Timing: erpc.Timing{ConnectTimeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	var told error
	p.Failed = func(err error) { told = err }
	s, err := p.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := ""
	b, err := p.Rpc.Alloc(5)
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Data(), "hello")
	_, err = p.Rpc.EnqueueRequest(s, erpc.Request{Type: 1, Req: b, Done: func(c erpc.Completion) {
		c.Req.Free()
		if c.Err == nil {
			got = string(c.Resp.Data())
			c.Resp.Free()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Rpc.Run(func() bool { return got != "" }); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Dial(addr + "1"); err == nil { // nobody is there
		if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if told != nil {
		t.Error(told)
	}
}

// TestArrivals: each operation has a slot that nobody else has meanwhile, none begins before it is
// due, and a server that does not keep up is an error.
func TestArrivals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var a loadgen.Arrivals
	open := map[uint64]bool{}
	begun, ends := 0, true
	a = loadgen.Arrivals{Rate: 1e6, Until: monotime.Now().Add(10 * time.Millisecond),
		Over:    func() bool { return len(open) == 0 },
		Stopped: func() bool { return false },
		Issue: func(i uint64, due monotime.Time) {
			if open[i] || due > monotime.Now() {
				t.Errorf("slot %d", i)
			}
			open[i] = true
			begun++
		},
		Pass: func() error {
			for i := range open {
				if ends {
					delete(open, i)
					a.Ended(i)
				}
			}
			return nil
		}}
	began, end, err := a.Run(r)
	if err != nil || begun == 0 || len(open) > 0 || end < a.Until || began > end {
		t.Errorf("%d begun, %d open, %v", begun, len(open), err)
	}
	a.Until, a.Rate, ends = monotime.Never, 1e9, false
	if _, _, err := a.Run(r); err == nil || len(open) != loadgen.Most {
		t.Errorf("%d wait: %v", len(open), err)
	}
	a.Stopped = func() bool { return true }
	if _, _, err := a.Run(r); err != nil {
		t.Error(err)
	}
	a = loadgen.Arrivals{Rate: 1e-9, Until: monotime.Never, Over: func() bool { return true },
		Stopped: func() bool { return false }, Issue: func(uint64, monotime.Time) {},
		Pass: func() error { return io.EOF }}
	if _, _, err := a.Run(r); err != io.EOF {
		t.Error(err)
	}
}
