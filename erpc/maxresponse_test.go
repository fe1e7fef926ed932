package erpc_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

const (
	maxLimit = 32 << 20 // the server's MemoryLimit
	maxSize  = 4 << 20  // of a response of cMade
	cMade    = 8
)

// maxRig is a hogRig whose server declares the responses of cMade.
type maxRig struct {
	*hogRig
	ran     atomic.Int64
	refused atomic.Int64 // answers that the server refused, at the handler
	later   []erpc.ReqHandle
	ends    [3]int // of calls: with a response; not run; otherwise
	open    int
	text    string // of the last one that did not run
}

// answer answers with size bytes, by a buffer of the library or one of the handler.
func (m *maxRig) answer(h erpc.ReqHandle, size int) {
	m.ran.Add(1)
	if h.Session().Peer().Port%2 == 0 {
		if h.RespondBytes(make([]byte, size)) != nil {
			m.refused.Add(1)
		}
		return
	}
	b, err := h.Alloc(size)
	if err == nil {
		if err = h.Respond(b); err != nil {
			b.Free()
		}
	}
	if err != nil {
		m.refused.Add(1)
		_ = h.RespondError(err)
	}
}

// places are where handlers of cMade run.
var places = map[string]func(m *maxRig, n *erpc.Nexus, size int) error{
	"background": func(m *maxRig, n *erpc.Nexus, size int) error {
		return n.Register(cMade, erpc.Background, func(h erpc.ReqHandle) { m.answer(h, size) })
	},
	"loop": func(m *maxRig, n *erpc.Nexus, size int) error {
		return n.Register(cMade, erpc.Dispatch, func(h erpc.ReqHandle) { m.answer(h, size) })
	},
	"batch": func(m *maxRig, n *erpc.Nexus, size int) error {
		return n.RegisterBatch(cMade, func(hs []erpc.ReqHandle) {
			for _, h := range hs {
				m.answer(h, size)
			}
		})
	},
	"loop, later": func(m *maxRig, n *erpc.Nexus, size int) error {
		return n.Register(cMade, erpc.Dispatch, func(h erpc.ReqHandle) {
			m.later = append(m.later, h)
		})
	},
}

func newMaxRig(
	t *testing.T, place func(*maxRig, *erpc.Nexus, int) error, declared, size int,
) *maxRig {
	m := new(maxRig)
	cfg := erpc.Config{MemoryLimit: maxLimit, NoHugepages: true}
	m.hogRig = newHogRig(t, cfg, func(n *erpc.Nexus) {
		is(t, "declare", n.MaxResponse(cMade, declared), nil)
		is(t, "register", place(m, n, size), nil)
	})
	return m
}

// ask makes n calls of cMade in each session, all at a time.
func (m *maxRig) ask(client int, in []*erpc.Session, n int) {
	r := m.clients[client]
	for _, s := range in {
		for range n {
			req, err := r.Alloc(32)
			if err != nil {
				m.tb.Fatal(err)
			}
			m.open++
			if _, err = r.EnqueueRequest(s, erpc.Request{Type: cMade, Req: req, Done: m.ended}); err != nil {
				m.tb.Fatal(err)
			}
		}
	}
}

func (m *maxRig) ended(c erpc.Completion) {
	m.open--
	c.Req.Free()
	switch {
	case c.Err == nil:
		m.ends[0]++
		c.Resp.Free()
	case errors.Is(c.Err, erpc.ErrExhausted) && errors.Is(c.Err, erpc.ErrNotRun):
		m.ends[1]++
		m.text = c.Err.Error()
	default:
		m.ends[2]++
		m.tb.Logf("a call ended with %v", c.Err)
	}
}

// finish runs all until no call is open, and answers those that wait.
func (m *maxRig) finish(size int) (most int64) {
	m.until(func() bool {
		most = max(most, m.to.mapped.Load())
		for _, h := range m.later {
			m.answer(h, size)
		}
		m.later = m.later[:0]
		return m.open == 0
	})
	return most
}

// TestMaxResponse: 144 calls of 4 MB at once, of one client or of three, at a server that may have
// 32 MiB and has been told how large the responses are. No handler runs in vain, from the first
// request on; each other call says that it did not run, and why; memory stays within the limit.
func TestMaxResponse(t *testing.T) {
	for name, place := range places {
		for clients := 1; clients <= 3; clients += 2 {
			t.Run(name, func(t *testing.T) {
				m := newMaxRig(t, place, maxSize, maxSize)
				const calls = 144
				in := make([][]*erpc.Session, clients)
				for c := range in {
					in[c] = m.hogRig.open(c, calls/8/clients)
				}
				for c := range in {
					m.ask(c, in[c], 8)
				}
				most := m.finish(maxSize)
				if m.ends[0] == 0 || m.ends[0]+m.ends[1] != calls || m.refused.Load() != 0 ||
					m.ran.Load() != int64(m.ends[0]) {
					t.Errorf("%d answered, %d did not run, %d failed otherwise; %d handlers ran, %d in vain",
						m.ends[0], m.ends[1], m.ends[2], m.ran.Load(), m.refused.Load())
				}
				if !strings.Contains(m.text, "not run") || !strings.Contains(m.text, "MemoryLimit") {
					t.Errorf("those that did not run say %q", m.text)
				}
				if most > maxLimit {
					t.Errorf("the server had %d bytes", most)
				}
				m.checkEnd(t)
			})
		}
	}
}

// TestMaxResponseOther: responses are smaller than declared, down to nothing, or larger. Those that
// are larger count as they are: where they fit they come, else the call ends with ErrExhausted and
// says nothing of not run. Nothing stays behind, and slots that were not to have the memory go on.
func TestMaxResponseOther(t *testing.T) {
	for name, place := range places {
		for _, c := range []struct{ declared, size int }{
			{100, 100}, {100, maxSize}, {2 << 20, 0}, {2 << 20, 100}, {2 << 20, 40_000},
			{2 << 20, 1 << 20}, {2 << 20, maxSize}, {0, 40_000},
		} {
			t.Run(name, func(t *testing.T) {
				m := newMaxRig(t, place, c.declared, c.size)
				in := m.hogRig.open(0, 1)
				for range 3 { // one after the other, in the same slots
					m.ask(0, in, 1)
					m.finish(c.size)
				}
				if m.ends != [3]int{3} {
					t.Errorf("%+v: %v", c, m.ends)
				}
				m.ask(0, in, 8)
				m.finish(c.size)
				if m.ends[0] < 3+1 || c.size <= c.declared && m.ends[2] != 0 {
					t.Errorf("%+v, eight at a time: %v", c, m.ends)
				}
				m.checkEnd(t)
			})
		}
	}
}

// TestMaxResponseUnanswered: requests whose client or session ends while their handlers run, and
// errors in place of a response, leave nothing behind.
func TestMaxResponseUnanswered(t *testing.T) {
	for _, end := range []string{"session", "call", "error"} {
		m := newMaxRig(t, places["loop, later"], maxSize, maxSize)
		in := m.hogRig.open(0, 3)
		m.ask(0, in, 1)
		m.until(func() bool { return len(m.later) == 3 })
		if all, _ := m.server.Accounted(); all < 3*maxSize {
			t.Errorf("%s: %d bytes count while three handlers run", end, all)
		}
		switch end {
		case "session":
			is(t, "close", m.clients[0].CloseSession(in[0]), nil)
			m.until(func() bool { return m.server.Sessions() == 2 })
		case "call":
			is(t, "close a client", m.clients[0].Close(), nil)
			m.clients = m.clients[1:]
			m.until(func() bool { return m.server.Sessions() == 0 })
		case "error":
			for _, h := range m.later {
				is(t, "respond", h.RespondError(erpc.ErrExhausted), nil)
			}
			m.later = m.later[:0]
		}
		for _, h := range m.later {
			if b, err := h.Alloc(maxSize); err == nil {
				b.Free()
				_ = h.RespondError(erpc.ErrExhausted)
			} else if err != erpc.ErrResponded {
				t.Errorf("%s: %v", end, err)
			}
		}
		m.later = m.later[:0]
		if end != "call" {
			m.until(func() bool { return m.open == 0 })
		}
		m.checkEnd(t)
	}
}

// TestMaxResponseErrors: what cannot be declared is said so.
func TestMaxResponseErrors(t *testing.T) {
	n, err := erpc.NewNexus(erpc.Config{MemoryLimit: maxLimit, MaxMessage: 20 << 20})
	is(t, "nexus", err, nil)
	for _, c := range []struct {
		typ   uint8
		bytes int
		want  error
	}{
		{255, 1, erpc.ErrReqType}, {1, -1, erpc.ErrConfig}, {1, 20<<20 + 1, erpc.ErrConfig},
		{1, maxLimit/2 + 1, erpc.ErrConfig}, {1, maxLimit / 2, nil}, {1, 0, nil},
	} {
		is(t, "declare", n.MaxResponse(c.typ, c.bytes), c.want)
	}
	r, err := n.NewRpc(newMemNet().end(true))
	is(t, "rpc", err, nil)
	is(t, "declare late", n.MaxResponse(1, 1), erpc.ErrConfig)
	is(t, "close", r.Close(), nil)
	is(t, "close", n.Close(), nil)
}
