package erpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// The request types of TestAuthorizeRequest, one for each kind of handler.
const (
	tInline = iota
	tWorker
	tBatch
	numKinds
)

// TestAuthorizeRequest: a handler of any kind runs for no request that its peer may not make,
// whatever the size of that. The client learns why, and that it did not run. Others run.
func TestAuthorizeRequest(t *testing.T) {
	for _, keys := range [][][]byte{nil, testPSK} {
		var ran [numKinds]int
		allowed := -1
		cfg := erpc.Config{PSK: keys}
		cfg.AuthorizeRequest = func(peer *erpc.ConnectionState, typ uint8) error {
			if (peer != nil) != (keys != nil) || peer != nil && !peer.PSK {
				t.Errorf("the peer is %+v", peer)
			}
			if int(typ) != allowed {
				return fmt.Errorf("not %w", &erpc.Error{Text: "yours", Details: []byte("ask")})
			}
			return nil
		}
		p := &errPair{}
		cfg.Simulation.Executor = p
		p.memPair = newMemPairOn(t, newMemNet(), cfg, func(n *erpc.Nexus) {
			serve := func(h erpc.ReqHandle) {
				ran[h.Type()]++
				_ = h.RespondBytes(nil)
			}
			is(t, "register", n.Register(tInline, erpc.Dispatch, serve), nil)
			is(t, "register", n.Register(tWorker, erpc.Background, serve), nil)
			is(t, "register", n.RegisterBatch(tBatch, func(all []erpc.ReqHandle) {
				for _, h := range all {
					serve(h)
				}
			}), nil)
		})
		call := func(typ uint8, n int) error {
			res := p.enqueue(typ, n, 0)
			p.until(func() bool { p.runTasks(); return res.ends > 0 })
			return res.err
		}
		for allowed = range numKinds {
			for _, n := range []int{0, 20, 10_000} {
				for typ := range uint8(numKinds) {
					err := call(typ, n)
					if int(typ) == allowed {
						is(t, "a call", err, nil)
						continue
					}
					var e *erpc.Error
					if is(t, "a call", err, erpc.ErrRemote, erpc.ErrNotRun); !errors.As(err, &e) ||
						e.Code != erpc.CodePermissionDenied || e.Reason != erpc.ReasonDenied ||
						e.Text != "not yours" || string(e.Details) != "ask" {
						t.Errorf("type %d: %+v", typ, e)
					}
				}
			}
		}
		if slices.Max(ran[:]) != 3 || slices.Min(ran[:]) != 3 {
			t.Errorf("handlers ran %v times", ran)
		}
		if st := p.server.Counters(); st.RequestsDenied != 3*3*2 || st.RequestsServed != 3*3 {
			t.Errorf("%d denied, %d served", st.RequestsDenied, st.RequestsServed)
		}
		is(t, "a type without a handler", call(99, 10), erpc.ErrNoHandler)
		p.close()
	}
}

// TestAuthorizeRequestNames: a Server tells peers apart by their certificates.
func TestAuthorizeRequestNames(t *testing.T) {
	ca := sectest.NewCA("ours")
	addr := secureServer(t, erpc.Config{
		TLS: ca.Config("127.0.0.1", ""),
		AuthorizeRequest: func(peer *erpc.ConnectionState, typ uint8) error {
			if id := peer.SPIFFE(); id == nil || id.Path != "/writer" || typ != 1 {
				return errors.New("for writers")
			}
			return nil
		},
	})
	_, err := ask(t, addr, erpc.Config{TLS: ca.Config("", "spiffe://test/writer")})
	is(t, "a writer's call", err, nil)
	_, err = ask(t, addr, erpc.Config{TLS: ca.Config("", "spiffe://test/reader")})
	if is(t, "a reader's call", err, erpc.ErrNotRun); erpc.CodeOf(err) != erpc.CodePermissionDenied {
		t.Error(err)
	}
	if want := "remote: request refused: for writers"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("a reader's call: %q, want %q", err, want)
	}
}

// TestAuthorizeRequestEnds: one that ends the session, which it should not do, breaks nothing.
func TestAuthorizeRequestEnds(t *testing.T) {
	for typ := range uint8(numKinds) {
		var p *errPair
		var denies error
		cfg := erpc.Config{AuthorizeRequest: func(*erpc.ConnectionState, uint8) error {
			is(t, "close", p.server.CloseSession(p.server.Served(p.sess)), nil)
			return denies
		}}
		for _, denies = range []error{nil, context.Canceled} {
			p = newErrPair(t, cfg)
			res := p.enqueue([]uint8{tEcho, tBackground, tHold}[typ], 20, 0)
			p.until(func() bool { p.runTasks(); return res.ends > 0 })
			is(t, "a call", res.err, erpc.ErrPeerClosed)
			p.close()
		}
	}
}

// TestAuthorizeRequestNoAllocations: to ask costs no memory.
func TestAuthorizeRequestNoAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	for _, keys := range [][][]byte{nil, testPSK} {
		asked := 0
		w := newStepper(t, erpc.Config{PSK: keys,
			AuthorizeRequest: func(*erpc.ConnectionState, uint8) error { asked++; return nil },
		}, 32, 32)
		for range 50 {
			w.rpc(t)
		}
		if n := testing.AllocsPerRun(200, func() { w.rpc(t) }); n != 0 || asked < 250 {
			t.Errorf("%v allocations for one RPC, asked %d times", n, asked)
		}
		w.req.Free()
		w.resp.Free()
		w.p.close()
	}
}
