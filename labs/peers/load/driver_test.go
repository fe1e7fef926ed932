package load

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

// fakeStream answers in polls of a few, the newest first, and now and then in none.
type fakeStream struct {
	sent   []sentRequest
	polls  int
	most   int // in flight so far
	closed int
	left   int                                            // in flight when it was closed
	answer func(s *fakeStream, r sentRequest) (a answers) // nil: an echo
	fail   error
}

type sentRequest struct {
	id      uint64
	request []byte
}

type answers []sentRequest

func (s *fakeStream) NewCall() echo.Call { return nil }
func (s *fakeStream) Close() error       { s.closed++; s.left = len(s.sent); return nil }

func (s *fakeStream) Send(id uint64, request []byte) {
	s.sent = append(s.sent, sentRequest{id, bytes.Clone(request)})
	s.most = max(s.most, len(s.sent))
}

func (s *fakeStream) Poll(got func(uint64, []byte) error) (busy bool, err error) {
	if s.polls++; s.polls%3 == 0 || s.fail != nil {
		return false, s.fail
	}
	for range min(2, len(s.sent)) {
		busy = true
		r := s.sent[len(s.sent)-1]
		s.sent = s.sent[:len(s.sent)-1]
		list := answers{r}
		if s.answer != nil {
			list = s.answer(s, r)
		}
		for _, a := range list {
			if err := got(a.id, a.request); err != nil {
				return true, err
			}
		}
	}
	return busy, nil
}

// streams is a peer whose connections are the streams, in turn.
func streams(list ...*fakeStream) echo.Peer {
	var mu sync.Mutex
	dial := func(context.Context, string, echo.Sizes) (echo.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		s := list[0]
		list = list[1:]
		return s, nil
	}
	return echo.Peer{Name: "fake", Streams: true, Dial: dial}
}

// TestStreams: the window is in flight in all, each stream has its share, every request
// differs, and none is in flight at the end.
func TestStreams(t *testing.T) {
	for _, tt := range []struct {
		window, conns int
		want          []int
	}{{1, 1, []int{1}}, {7, 1, []int{7}}, {7, 3, []int{3, 2, 2}}, {2, 5, []int{1, 1}}} {
		var list []*fakeStream
		seen := make([]map[string]int, len(tt.want))
		for i := range tt.want {
			seen[i] = map[string]int{}
			list = append(list, &fakeStream{answer: func(_ *fakeStream, r sentRequest) answers {
				seen[i][string(r.request)]++
				return answers{r}
			}})
		}
		c := config(streams(list...))
		c.Window, c.Conns = tt.window, tt.conns
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rpcs < int64(tt.window) || r.Rpcs != r.Hist.TotalCount() || r.Elapsed <= 0 ||
			r.Conns != len(tt.want) {
			t.Errorf("%+v: %d RPCs, %v, %d connections", tt, r.Rpcs, r.Elapsed, r.Conns)
		}
		all := map[string]int{}
		for i, s := range list {
			if s.most != tt.want[i] || s.left != 0 || s.closed != 1 {
				t.Errorf("%+v: stream %d: %d in flight, %d at the end, closed %d times",
					tt, i, s.most, s.left, s.closed)
			}
			for request, n := range seen[i] {
				if all[request] += n; all[request] > 1 {
					t.Fatalf("%+v: request %x twice", tt, request)
				}
			}
		}
	}
}

// TestStreamLatency: from Send until the poll that brings the response.
func TestStreamLatency(t *testing.T) {
	const least = 2 * time.Millisecond
	s := &fakeStream{answer: func(_ *fakeStream, r sentRequest) answers {
		for begin := time.Now(); time.Since(begin) < least; {
		}
		return answers{r}
	}}
	c := config(streams(s))
	c.Window, c.Duration = 1, 10*time.Millisecond
	r, err := Run(t.Context(), c)
	if err != nil || r.Hist.Min() < int64(least)*99/100 {
		t.Errorf("%v, at least %d ns", err, r.Hist.Min())
	}
}

func TestStreamErrors(t *testing.T) {
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		stream *fakeStream
		resp   int // bytes in a response
		want   string
	}{
		"no connection": {&fakeStream{fail: boom}, 16, "boom"},
		"wrong id": {&fakeStream{answer: func(_ *fakeStream, r sentRequest) answers {
			return answers{{r.id + 4, r.request}}
		}}, 16, "not in flight"},
		"id of no request": {&fakeStream{answer: func(_ *fakeStream, r sentRequest) answers {
			return answers{{0, r.request}}
		}}, 16, "response to RPC 0, which is not"},
		"another's": {&fakeStream{answer: func(s *fakeStream, r sentRequest) answers {
			return answers{{s.sent[0].id, r.request}}
		}}, 16, "differs"},
		"twice": {&fakeStream{answer: func(s *fakeStream, r sentRequest) answers {
			return answers{r, r}
		}}, 16, "not in flight"},
		"short": {&fakeStream{answer: func(_ *fakeStream, r sentRequest) answers {
			return answers{{r.id, r.request[1:]}}
		}}, 16, "15 bytes"},
		"echo in place of fixed": {&fakeStream{}, 17, "16 bytes, want 17"},
	} {
		c := config(streams(tt.stream))
		c.Sizes.Response = tt.resp
		c.Duration = time.Minute // it ends early
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if tt.stream.closed != 1 {
			t.Errorf("%s: closed %d times", name, tt.stream.closed)
		}
	}
}

// TestStreamTwiceAtTheEnd: once nothing new is sent a second response has no slot either.
func TestStreamTwiceAtTheEnd(t *testing.T) {
	s := &fakeStream{answer: func(_ *fakeStream, r sentRequest) answers { return answers{r, r} }}
	c := config(streams(s))
	c.Warmup = 0
	d := newDriver(c.Sizes, 0, s, 1)
	err := all(t.Context(), []worker{d}, 0, true)
	if err == nil || !strings.Contains(err.Error(), "not in flight") {
		t.Error(err)
	}
}

// TestStreamCancelled: a server that is silent does not hold the driver up.
func TestStreamCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &fakeStream{}
	s.answer = func(*fakeStream, sentRequest) answers { cancel(); return nil }
	_, err := Run(ctx, config(streams(s)))
	if !errors.Is(err, context.Canceled) || s.closed != 1 {
		t.Errorf("%v, closed %d times", err, s.closed)
	}
}

// TestNoStream: a peer that promises streams and has none.
func TestNoStream(t *testing.T) {
	f := &fake{call: right}
	p := f.peer(false)
	p.Streams = true
	_, err := Run(t.Context(), config(p))
	if err == nil || !strings.Contains(err.Error(), "no stream") || f.closed.Load() != 1 {
		t.Errorf("%v, closed %d times", err, f.closed.Load())
	}
}

// TestStreamGoesOn: each response makes room for the next request, until over.
func TestStreamGoesOn(t *testing.T) {
	const window, total = 5, 1000
	var over atomic.Bool
	answered := 0
	s := &fakeStream{answer: func(_ *fakeStream, r sentRequest) answers {
		if answered++; answered == total {
			over.Store(true)
		}
		return answers{r}
	}}
	d := newDriver(echo.Sizes{Request: 16, Response: 16}, 0, s, window)
	if err := d.run(t.Context(), &over, true); err != nil {
		t.Fatal(err)
	}
	n := d.latencies().TotalCount()
	if answered != total+window-1 || n != int64(answered) || s.most != window {
		t.Errorf("%d answers, %d latencies, %d in flight", answered, n, s.most)
	}
}
