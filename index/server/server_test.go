package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/index/message"
	"github.com/userspace-rpc/erpc/index/server"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server of m over UDP until the test ends, and returns its address.
func serve(t *testing.T, m *index.Map, cfg server.Config) string {
	t.Helper()
	return serveWith(t, server.New(m, cfg).Handle)
}

func serveWith(t *testing.T, handle func(*erpc.Server) error) string {
	t.Helper()
	srv, err := erpc.NewServer(erpc.Config{NoHugepages: true})
	if err == nil {
		err = handle(srv)
	}
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(tr) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, erpc.ErrClosed) {
			t.Error(err)
		}
	})
	return tr.LocalAddr().String()
}

func dial(t *testing.T, addr string) *erpc.Client {
	t.Helper()
	return dialOver(t, addr, faulty.Faults{})
}

// dialOver is dial with faults both ways.
func dialOver(t *testing.T, addr string, faults faulty.Faults) *erpc.Client {
	t.Helper()
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var tr transport.Transport = conn
	if faults != (faulty.Faults{}) {
		if tr, err = faulty.New(conn, faulty.Config{Seed: 1, TX: faults, RX: faults}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := erpc.Dial(t.Context(), tr, addr, erpc.Config{NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

var configs = map[string]server.Config{
	"workers, batches": {}, "in the loop, one by one": {ScanInLoop: true, OneByOne: true},
}

// TestOperations: what the map answers, the client of the server answers too.
func TestOperations(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			c, err := client.New(client.One[client.Caller](dial(t, serve(t, index.NewMap(), cfg))))
			if err != nil {
				t.Fatal(err)
			}
			sameAsMap(t, c)
		})
	}
}

// TestChanges: what may change the map counts as a change, by the time of its answer; reads do not.
func TestChanges(t *testing.T) {
	s := server.New(index.NewMap(), server.Config{})
	c, err := client.New(client.One[client.Caller](dial(t, serveWith(t, s.Handle))))
	if err != nil {
		t.Fatal(err)
	}
	key, ctx := []byte("key"), t.Context()
	for i, do := range []func() error{
		func() error { _, _, err := c.Put(ctx, key, 1); return err },
		func() error { _, _, err := c.PutIfAbsent(ctx, key, 2); return err },
		func() error { _, _, err := c.Delete(ctx, key); return err },
		func() error { _, _, err := c.Get(ctx, key); return err },
	} {
		before := s.Changes()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if writes := i < 3; s.Changes() > before != writes {
			t.Errorf("request %d: a change: %v", i, !writes)
		}
	}
}

// TestRanges: three servers with a static map of ranges answer like one, scans that cross borders
// too.
func TestRanges(t *testing.T) {
	var ranges client.Ranges[client.Caller]
	for _, from := range []string{"", "key 3", "key 6"} {
		addr := serve(t, index.NewMap(), server.Config{})
		ranges = append(ranges, client.Range[client.Caller]{From: []byte(from), Server: dial(t, addr)})
	}
	c, err := client.New(ranges)
	if err != nil {
		t.Fatal(err)
	}
	sameAsMap(t, c)
	ranges[1], ranges[2] = ranges[2], ranges[1]
	if _, err := client.New(ranges); !errors.Is(err, client.ErrRanges) {
		t.Errorf("out of order: %v", err)
	}
	if _, err := client.New(ranges[1:]); !errors.Is(err, client.ErrRanges) {
		t.Errorf("without the empty key: %v", err)
	}
}

// sameAsMap compares a client with a map under random operations.
func sameAsMap(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, m, r := t.Context(), index.NewMap(), rand.New(rand.NewPCG(1, 2))
	same := func(v uint64, ok bool, err error) func(uint64, bool, error) {
		return func(v2 uint64, ok2 bool, err2 error) {
			t.Helper()
			if v != v2 || ok != ok2 || err != nil || err2 != nil {
				t.Fatalf("%d %v %v, want %d %v %v", v2, ok2, err2, v, ok, err)
			}
		}
	}
	for i := range uint64(2000) {
		key := fmt.Appendf(nil, "key %d", r.IntN(1000))
		switch r.IntN(10) {
		case 0, 1, 2:
			same(m.Put(key, i))(c.Put(ctx, key, i))
		case 3, 4:
			same(m.PutIfAbsent(key, i))(c.PutIfAbsent(ctx, key, i))
		case 5:
			v, ok := m.Delete(key)
			same(v, ok, nil)(c.Delete(ctx, key))
		default:
			v, ok := m.Get(key)
			same(v, ok, nil)(c.Get(ctx, key))
		}
		if i%50 == 0 {
			sameScan(t, c, m, key, uint64(r.IntN(500)))
		}
	}
	sameScan(t, c, m, nil, 1e9)
	sameScan(t, c, m, []byte("x"), 1e9)
}

func sameScan(t *testing.T, c *client.Client, m *index.Map, key []byte, n uint64) {
	t.Helper()
	var got, want []byte
	seen, err := c.Scan(t.Context(), key, n, func(k []byte, v uint64) bool {
		got = message.AppendEntry(got, k, v)
		return true
	})
	expect := m.Scan(key, int(n), func(k []byte, v uint64) bool {
		want = message.AppendEntry(want, k, v)
		return true
	})
	if err != nil || seen != uint64(expect) || !bytes.Equal(got, want) {
		t.Fatalf("scan of %d from %q: %d keys, %v, want %d", n, key, seen, err, expect)
	}
	sum, count := m.SumAfter(key, int(n))
	if s, k, err := c.SumAfter(t.Context(), key, n); err != nil || s != sum || k != uint64(count) {
		t.Fatalf("sum of %d after %q: %d of %d, %v, want %d of %d", n, key, s, k, err, sum, count)
	}
	if k, err := c.Len(t.Context()); err != nil || k != uint64(m.Len()) {
		t.Fatalf("%d keys, %v, want %d", k, err, m.Len())
	}
}

// TestPages: a scan of 10^9 comes in answers of bounded size, and finds all keys.
func TestPages(t *testing.T) {
	const n = 3*message.MaxSum + 5
	m := index.NewMap()
	var want uint64
	for i := range uint64(n) {
		m.Put(binary.BigEndian.AppendUint64(nil, i), i)
		want += i
	}
	m.Put(nil, 7) // the empty key comes after none
	rpc := dial(t, serve(t, m, server.Config{}))
	c, _ := client.New(client.One[client.Caller](rpc))
	if sum, count, err := c.SumAfter(t.Context(), nil, 1e9); sum != want || count != n || err != nil {
		t.Errorf("sum %d of %d, %v, want %d of %d", sum, count, err, want, n)
	}
	seen, err := c.Scan(t.Context(), nil, 1e9, func([]byte, uint64) bool { return true })
	if seen != n+1 || err != nil {
		t.Errorf("%d keys, %v, want %d", seen, err, n+1)
	}
	for _, ask := range []uint32{message.MaxEntries, message.MaxEntries + 1, 1e9} {
		req, _ := message.Page{Count: ask}.Append(nil)
		resp, err := rpc.Call(t.Context(), message.Scan, req)
		if err != nil || len(resp) > message.MaxPage {
			t.Fatalf("%d bytes, %v", len(resp), err)
		}
		e, err := message.ParseEntries(resp)
		if err != nil || e.More() != (ask > message.MaxEntries) {
			t.Errorf("%d asked for: more is %v, %v", ask, e.More(), err)
		}
	}
}

// TestBadRequests: each gets its name, and the server lives on.
func TestBadRequests(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			m := index.NewMap()
			rpc := dial(t, serve(t, m, cfg))
			long := make([]byte, index.MaxKey+1)
			for _, bad := range []struct {
				typ uint8
				req []byte
			}{{message.Get, long}, {message.Delete, long},
				{message.Put, append(long, make([]byte, 8)...)},
				{message.Put, long[:7]}, {message.Absent, nil}, {message.Sum, long[:4]},
				{message.Scan, []byte{1, 0, 0, 0, 2}}, {message.Sum, append(long, 1, 0, 0, 0, 0)},
				{message.Count, []byte{1}}} {
				_, err := rpc.Call(t.Context(), bad.typ, bad.req)
				var e *erpc.Error
				if !errors.As(err, &e) || e.Code != erpc.CodeInvalidArgument {
					t.Errorf("type %d with %d bytes: %v", bad.typ, len(bad.req), err)
				}
			}
			if _, err := rpc.Call(t.Context(), 99, nil); !errors.Is(err, erpc.ErrNoHandler) {
				t.Errorf("unknown operation: %v", err)
			}
			if resp, err := rpc.Call(t.Context(), message.Get, nil); err != nil || len(resp) != 0 {
				t.Errorf("the empty key: %d bytes, %v", len(resp), err)
			}
			if m.Len() != 0 {
				t.Error("a bad request was applied")
			}
		})
	}
}

// TestPutsAtMostOnce: packets are lost, repeated and overtaken, and each PUT runs once: it finds
// the value of the one before.
func TestPutsAtMostOnce(t *testing.T) {
	faults := faulty.Faults{Loss: 0.05, Dup: 0.05, Reorder: 0.05}
	rpc := dialOver(t, serve(t, index.NewMap(), server.Config{}), faults)
	c, _ := client.New(client.One[client.Caller](rpc))
	var all sync.WaitGroup
	for g := range uint64(8) {
		all.Go(func() {
			key := binary.BigEndian.AppendUint64(nil, g)
			for i := range uint64(100) {
				if old, _, err := c.Put(t.Context(), key, i+1); old != i || err != nil {
					t.Errorf("key %d had %d, want %d: %v", g, old, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if st := rpc.Stats(); st.Protocol.Retransmits == 0 {
		t.Error("nothing was sent again")
	}
}

// TestManyGoroutines: each counts its own keys up through the server.
func TestManyGoroutines(t *testing.T) {
	m := index.NewMap()
	c, _ := client.New(client.One[client.Caller](dial(t, serve(t, m, server.Config{}))))
	var all sync.WaitGroup
	for g := range uint64(16) {
		all.Go(func() {
			key := binary.BigEndian.AppendUint64(nil, g)
			for i := range uint64(200) {
				if old, _, err := c.Put(context.Background(), key, i+1); old != i || err != nil {
					t.Errorf("key %d had %d, want %d: %v", g, old, i, err)
					return
				}
				if v, _, err := c.Get(context.Background(), key); v != i+1 || err != nil {
					t.Errorf("key %d has %d, want %d: %v", g, v, i+1, err)
					return
				}
			}
		})
	}
	all.Wait()
	if sum, n := m.SumAfter(nil, 100); sum != 16*200 || n != 16 {
		t.Errorf("%d in %d keys", sum, n)
	}
}
