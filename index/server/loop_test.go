package server_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/index/message"
	"github.com/userspace-rpc/erpc/index/server"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// looped is an event loop with sessions, run by the test's goroutine.
type looped struct {
	t   *testing.T
	rpc *erpc.Rpc
	*client.Loop
}

// loopTo connects a Loop to servers, each of which has the keys from one on.
func loopTo(t *testing.T, froms, addrs []string) *looped {
	t.Helper()
	connected := 0
	cfg := erpc.Config{NoHugepages: true}
	cfg.OnSession = func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if ev == erpc.SessionConnected {
			connected++
		}
	}
	nexus, err := erpc.NewNexus(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := nexus.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rpc.Close(), nexus.Close()); err != nil {
			t.Error(err)
		}
	})
	var ranges client.Ranges[*erpc.Session]
	for i, addr := range addrs {
		s, err := rpc.CreateSession(addr)
		if err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, client.Range[*erpc.Session]{From: []byte(froms[i]), Server: s})
	}
	l, err := client.NewLoop(rpc, ranges)
	if err != nil {
		t.Fatal(err)
	}
	x := &looped{t, rpc, l}
	x.until(func() bool { return connected == len(addrs) })
	return x
}

func (l *looped) until(ended func() bool) {
	l.t.Helper()
	if err := l.rpc.Run(ended); err != nil {
		l.t.Fatal(err)
	}
}

// wait starts an operation and runs the loop until it has ended.
func (l *looped) wait(start func(done client.Done) error) (r client.Result) {
	l.t.Helper()
	ended := false
	err := start(func(got client.Result) { r, ended = got, true })
	if err != nil {
		return client.Result{Err: err}
	}
	l.until(func() bool { return ended })
	return r
}

// scan returns the entries that a scan visits, as in a page.
func (l *looped) scan(from []byte, n uint64, enough int) (entries []byte, r client.Result) {
	l.t.Helper()
	r = l.wait(func(done client.Done) error {
		return l.Scan(from, n, 7, func(key []byte, value uint64) bool {
			entries = message.AppendEntry(entries, key, value)
			enough--
			return enough != 0
		}, done)
	})
	return entries, r
}

// TestLoop: an event loop with three servers answers like a map, its scans cross borders.
func TestLoop(t *testing.T) {
	froms := []string{"", "key 3", "key 6"}
	var addrs []string
	for range froms {
		addrs = append(addrs, serve(t, index.NewMap(), server.Config{}))
	}
	l, m, r := loopTo(t, froms, addrs), index.NewMap(), rand.New(rand.NewPCG(1, 2))
	for i := range uint64(2000) {
		key := fmt.Appendf(nil, "key %d", r.IntN(1000))
		var want, got client.Result
		switch r.IntN(6) {
		case 0, 1:
			want.Value, want.Found, _ = m.Put(key, i)
			got = l.wait(func(d client.Done) error { return l.Put(key, i, i, d) })
		case 2:
			want.Value, want.Found, _ = m.PutIfAbsent(key, i)
			got = l.wait(func(d client.Done) error { return l.PutIfAbsent(key, i, i, d) })
		case 3:
			want.Value, want.Found = m.Delete(key)
			got = l.wait(func(d client.Done) error { return l.Delete(key, i, d) })
		default:
			want.Value, want.Found = m.Get(key)
			got = l.wait(func(d client.Done) error { return l.Get(key, i, d) })
		}
		if got.Err != nil || got.Value != want.Value || got.Found != want.Found || got.Tag != i {
			t.Fatalf("key %s: %+v, want %+v", key, got, want)
		}
		if i%100 == 0 {
			sameLoopScan(l, m, key, r.Uint64N(500))
		}
	}
	sameLoopScan(l, m, nil, 1e9)
	sameLoopScan(l, m, []byte("x"), 1e9)
	if got, res := l.scan(nil, 1e9, 5); len(got) == 0 || res.Err != nil || res.Count != 5 {
		t.Errorf("a scan that was enough after 5 keys: %+v", res)
	}
	if _, res := l.scan(make([]byte, index.MaxKey+1), 1, 0); !errors.Is(res.Err, index.ErrKeyTooLong) {
		t.Errorf("a key too long: %v", res.Err)
	}
	if l.Pending() != 0 {
		t.Errorf("%d operations are left", l.Pending())
	}
}

func sameLoopScan(l *looped, m *index.Map, from []byte, n uint64) {
	l.t.Helper()
	var want []byte
	count := m.Scan(from, int(n), func(key []byte, value uint64) bool {
		want = message.AppendEntry(want, key, value)
		return true
	})
	got, r := l.scan(from, n, 0)
	if r.Err != nil || r.Count != uint64(count) || r.Tag != 7 || !bytes.Equal(got, want) {
		l.t.Fatalf("scan of %d from %q: %+v, want %d keys", n, from, r, count)
	}
}

// TestLoopPages: a scan of more keys than an answer has goes on by itself.
func TestLoopPages(t *testing.T) {
	const n = 2*message.MaxEntries + 5
	m := index.NewMap()
	for i := range uint64(n) {
		_, _, _ = m.Put(binary.BigEndian.AppendUint64(nil, i), i) // keys are short
	}
	sameLoopScan(loopTo(t, []string{""}, []string{serve(t, m, server.Config{})}), m, nil, 1e9)
}

// TestLoopBadServer: answers of a server that is broken end a scan with an error, and its keys are
// not visited for ever.
func TestLoopBadServer(t *testing.T) {
	entry := func(flags byte, keys ...string) []byte {
		page := []byte{flags}
		for _, k := range keys {
			page = message.AppendEntry(page, []byte(k), 1)
		}
		return page
	}
	for name, page := range map[string][]byte{
		"back": entry(message.More, "a"), "too many": entry(0, "x", "y", "z"), "cut": {0, 9},
		"empty before others": {message.More}, "flags": {9},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serveWith(t, func(srv *erpc.Server) error {
				return srv.HandleInline(message.Scan, func(h erpc.ReqHandle) { _ = h.RespondBytes(page) })
			})
			l := loopTo(t, []string{""}, []string{addr})
			entries, r := l.scan([]byte("b"), 2, 0)
			if !errors.Is(r.Err, message.ErrResponse) || len(entries) > 2*10 || l.Pending() != 0 {
				t.Errorf("%q: %+v", entries, r)
			}
		})
	}
}
