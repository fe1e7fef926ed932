package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/transport/faulty"
)

var configs = map[string]server.Config{
	"one partition, a store":  {Store: mica.Config{Mode: mica.Store}},
	"three, one by one":       {Partitions: 3, OneByOne: true, Store: mica.Config{Mode: mica.Store}},
	"five, a cache with room": {Partitions: 5},
}

// TestOperations: the client finds what it wrote, and the errors of the partition, on two servers.
func TestOperations(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			a, b := serve(t, cfg), serve(t, cfg)
			c := connect(t, a.addrs[0], b.addrs[len(b.addrs)-1])
			ctx, r, model := t.Context(), rand.New(rand.NewPCG(1, 2)), map[string]message.Value{}
			steps := 2000
			if testing.Short() {
				steps = 300
			}
			for i := range steps {
				operate(t, ctx, c, r, model, i)
			}
			stats, errs := c.Stats(ctx)
			items := uint64(0)
			for _, list := range stats {
				if len(list) != a.Partitions() {
					t.Errorf("%d partitions", len(list))
				}
				for _, st := range list {
					items += st.Items
				}
			}
			if len(errs) != 0 || len(stats) != 2 || items != uint64(len(model)) {
				t.Errorf("%d items at %d servers, want %d: %v", items, len(stats), len(model), errs)
			}
		})
	}
}

// operate does one operation with the client and the model.
func operate(t *testing.T, ctx context.Context, c *client.Client, r *rand.Rand,
	model map[string]message.Value, i int,
) {
	t.Helper()
	key := fmt.Appendf(nil, "key %d", r.IntN(200))
	old, there := model[string(key)]
	absent := func(err error) error {
		if !there {
			return mica.ErrNotFound
		}
		return err
	}
	wants := func(err, want error) bool {
		t.Helper()
		if err != want {
			t.Fatalf("step %d, %q: %v, want %v", i, key, err, want)
		}
		return err == nil
	}
	switch r.IntN(8) {
	case 0, 1, 2:
		w := message.Item{Key: key, Value: bytes.Repeat(key, r.IntN(400)), Flags: uint32(i % 3)}
		w.If = mica.Condition(r.IntN(4))
		w.Version = old.Version + uint64(r.IntN(2))
		want := error(nil)
		switch {
		case w.If == mica.IfAbsent && there:
			want = mica.ErrExists
		case w.If == mica.IfVersion && there && w.Version != old.Version:
			want = mica.ErrVersion
		case w.If >= mica.IfPresent:
			want = absent(nil)
		}
		if v, err := c.Write(ctx, w); wants(err, want) {
			model[string(key)] = message.Value{Value: w.Value, Version: v, Flags: w.Flags}
		}
	case 3:
		if wants(c.Delete(ctx, key, 0), absent(nil)) {
			delete(model, string(key))
		}
	case 4:
		_, err := c.Increment(ctx, key, 1, false)
		wants(err, absent(mica.ErrNumber))
	case 5:
		got, err := c.Touch(ctx, key, 0)
		if wants(err, absent(nil)) && !bytes.Equal(got.Value, old.Value) {
			t.Fatalf("%q: %d bytes", key, len(got.Value))
		}
	case 6:
		sameMulti(t, ctx, c, r, model)
	default:
		got, err := c.Get(ctx, key)
		if wants(err, absent(nil)) && (!bytes.Equal(got.Value, old.Value) ||
			got.Version != old.Version || got.Flags != old.Flags) {
			t.Fatalf("%q: %+v, want %+v", key, got, old)
		}
	}
}

func sameMulti(t *testing.T, ctx context.Context, c *client.Client, r *rand.Rand,
	model map[string]message.Value,
) {
	t.Helper()
	keys := make([][]byte, r.IntN(200))
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key %d", r.IntN(200))
	}
	for i, got := range c.GetMulti(ctx, keys) {
		want, there := model[string(keys[i])]
		if there != (got.Err == nil) || !there && got.Err != mica.ErrNotFound ||
			!bytes.Equal(got.Value.Value, want.Value) || got.Version != want.Version {
			t.Fatalf("%q: %+v, want %+v", keys[i], got, want)
		}
	}
}

// TestLargeItems: values of a MiB, alone and so many that an answer leaves some for later.
func TestLargeItems(t *testing.T) {
	c := connect(t, serve(t, server.Config{Store: mica.Config{Memory: 16 << 20}}).addrs...)
	var keys [][]byte
	for i := range 5 {
		keys = append(keys, fmt.Append(nil, i))
		if _, err := c.Put(t.Context(), keys[i], bytes.Repeat(keys[i], mica.MaxValue)); err != nil {
			t.Fatal(err)
		}
	}
	for i, got := range c.GetMulti(t.Context(), append(keys, nil, []byte("x"))) {
		switch {
		case i == 5 && got.Err == mica.ErrKey, i == 6 && got.Err == mica.ErrNotFound:
		case i < 5 && got.Err == nil &&
			bytes.Equal(got.Value.Value, bytes.Repeat(keys[i], mica.MaxValue)):
		default:
			t.Errorf("key %d: %d bytes, %v", i, len(got.Value.Value), got.Err)
		}
	}
	long := make([]byte, mica.MaxValue+1)
	if _, err := c.Put(t.Context(), keys[0], long); err != mica.ErrValue {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), long[:256]); err != mica.ErrKey {
		t.Error(err)
	}
}

// TestFull: a store says that it is full, and keeps what it has.
func TestFull(t *testing.T) {
	s := serve(t, server.Config{Store: mica.Config{Mode: mica.Store, Memory: 64 << 10}})
	c := connect(t, s.addrs...)
	n := 0
	var err error
	for ; err == nil; n++ {
		_, err = c.Put(t.Context(), fmt.Append(nil, n), make([]byte, 1000))
	}
	if err != mica.ErrFullItems || n < 20 {
		t.Errorf("%d items: %v", n, err)
	}
	for i := range n - 1 {
		if _, err := c.Get(t.Context(), fmt.Append(nil, i)); err != nil {
			t.Errorf("item %d of %d: %v", i, n, err)
		}
	}
	if _, err := c.Put(t.Context(), []byte("large"), make([]byte, 100_000)); err != mica.ErrTooLarge {
		t.Error(err)
	}
}

// TestFullIndex: a store that was told of much larger items says that memory is left.
func TestFullIndex(t *testing.T) {
	s := serve(t, server.Config{Store: mica.Config{Mode: mica.Store, Memory: 64 << 10,
		ItemSize: mica.MaxValue}})
	c := connect(t, s.addrs...)
	var err error
	for n := 0; err == nil; n++ {
		_, err = c.Put(t.Context(), fmt.Append(nil, n), nil)
	}
	st, errs := c.Stats(t.Context())
	if err != mica.ErrFullIndex || len(errs) > 0 || st[s.addrs[0]][0].IndexFulls != 1 {
		t.Errorf("%v, %+v, %v", err, st, errs)
	}
}

// TestLife: an item goes when its life is over on the server's clock.
func TestLife(t *testing.T) {
	s := serve(t, server.Config{})
	c := connect(t, s.addrs...)
	lives := map[string]uint32{"short": 10, "long": 1<<32 - 1, "ever": 0, "touched": 10}
	for key, life := range lives {
		if _, err := c.Write(t.Context(), message.Item{Key: []byte(key), Life: life}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Touch(t.Context(), []byte("touched"), 100); err != nil {
		t.Error(err)
	}
	s.now.Add(10)
	for {
		_, err := c.Get(t.Context(), []byte("short"))
		if err == mica.ErrNotFound {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"long", "ever", "touched"} {
		if _, err := c.Get(t.Context(), []byte(key)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestBadRequests: each gets its name, and the server lives on.
func TestBadRequests(t *testing.T) {
	for _, oneByOne := range []bool{false, true} {
		s := serve(t, server.Config{Partitions: 2, OneByOne: oneByOne})
		rpc, err := newLoop(t, faulty.Faults{}, erpc.Timing{}).Dial(t.Context(), s.addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		long := make([]byte, 300)
		k := message.Keyed{Hash: 1 << 63, Key: []byte("k")} // of partition 1
		item := message.Item{Key: []byte("k"), Hash: 0}     // not its hash
		wrongHash, _ := item.Append(nil)
		item.Hash = 1 << 63
		wrongPart, _ := item.Append(nil)
		multi, _ := message.AppendKey(nil, 1<<63, []byte("k"))
		keyed := map[uint8][]byte{}
		for _, typ := range []uint8{message.Get, message.Delete, message.Increment, message.Touch} {
			keyed[typ], _ = k.Append(nil, typ)
		}
		for _, bad := range []struct {
			typ  uint8
			req  []byte
			want error
		}{{message.Get, keyed[message.Get], message.ErrPartition},
			{message.Delete, keyed[message.Delete], message.ErrPartition},
			{message.Increment, keyed[message.Increment], message.ErrPartition},
			{message.Touch, keyed[message.Touch], message.ErrPartition},
			{message.MultiGet, multi, message.ErrPartition},
			{message.Write, wrongPart, message.ErrPartition}, {message.Write, wrongHash, message.ErrHash},
			{message.Get, nil, message.ErrRequest}, {message.Get, long, mica.ErrKey},
			{message.Get, long[:8], mica.ErrKey}, {message.Delete, long[:15], message.ErrRequest},
			{message.Increment, long[:9], message.ErrRequest}, {message.Touch, long[:3], message.ErrRequest},
			{message.Write, long[:25], message.ErrRequest}, {message.Write, long, mica.ErrKey},
			{message.MultiGet, long[:7], message.ErrRequest}} {
			_, err := rpc.Call(t.Context(), bad.typ, bad.req)
			var e *erpc.Error
			if !errors.As(err, &e) || e.Code != erpc.CodeInvalidArgument ||
				!strings.HasPrefix(e.Text, bad.want.Error()) {
				t.Errorf("type %d with %d bytes: %v, want %v", bad.typ, len(bad.req), err, bad.want)
			}
		}
		if _, err := rpc.Call(t.Context(), 99, nil); !errors.Is(err, erpc.ErrNoHandler) {
			t.Errorf("unknown operation: %v", err)
		}
		list, err := s.Stats(t.Context())
		if err != nil || list[0].Items != 0 {
			t.Errorf("a bad request was applied: %v, %v", list, err)
		}
	}
}

// TestDeadServer: a server that dies costs its share only, and comes back empty.
func TestDeadServer(t *testing.T) {
	a, b := serve(t, server.Config{Partitions: 2}), serve(t, server.Config{Partitions: 2})
	timing := erpc.Timing{ConnectTimeout: 300 * time.Millisecond}
	c := connectOver(t, newLoop(t, faulty.Faults{}, timing), client.Config{
		Servers: []string{a.addrs[0], b.addrs[1]}, RetryAfter: time.Millisecond})
	keys := make([][]byte, 100)
	for i := range keys {
		keys[i] = fmt.Append(nil, i)
		if _, err := c.Put(t.Context(), keys[i], keys[i]); err != nil {
			t.Fatal(err)
		}
	}
	before, err := b.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.stop(t)
	failed := uint64(0)
	for i, got := range c.GetMulti(t.Context(), keys) {
		if got.Err != nil {
			failed++
		} else if !bytes.Equal(got.Value.Value, keys[i]) {
			t.Errorf("%q: %q", keys[i], got.Value.Value)
		}
	}
	if share := before[0].Items + before[1].Items; failed != share || share < 20 || share > 80 {
		t.Errorf("%d of %d keys failed, %d were at the dead server", failed, len(keys), share)
	}
	for _, key := range keys {
		_, err := c.Get(t.Context(), key)
		_, err2 := c.Put(t.Context(), key, key)
		if (err == nil) != (err2 == nil) || errors.Is(err, mica.ErrNotFound) {
			t.Errorf("%q: %v, %v", key, err, err2)
		}
	}
}

// TestResolver: servers come and go, and only their keys move.
func TestResolver(t *testing.T) {
	a, b := serve(t, server.Config{}), serve(t, server.Config{})
	var mu sync.Mutex
	names := []string{a.addrs[0]}
	failed := errors.New("no name service")
	cfg := client.Config{ResolveEvery: time.Millisecond,
		Resolver: func(context.Context) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			if names == nil {
				return nil, failed
			}
			return names, nil
		}}
	loop := newLoop(t, faulty.Faults{}, erpc.Timing{})
	c := connectOver(t, loop, cfg)
	keys := make([][]byte, 64)
	for i := range keys {
		keys[i] = fmt.Append(nil, i)
		if _, err := c.Put(t.Context(), keys[i], keys[i]); err != nil {
			t.Fatal(err)
		}
	}
	set := func(list []string) {
		mu.Lock()
		names = list
		mu.Unlock()
	}
	missing := func() (n int) {
		for i, got := range c.GetMulti(t.Context(), keys) {
			if got.Err == mica.ErrNotFound {
				n++
			} else if got.Err != nil || !bytes.Equal(got.Value.Value, keys[i]) {
				t.Fatalf("%+v", got)
			}
		}
		return n
	}
	set([]string{b.addrs[0], a.addrs[0], b.addrs[0]})
	for missing() == 0 {
	}
	if n := missing(); n < 10 || n > 54 {
		t.Errorf("%d of %d keys moved", n, len(keys))
	}
	set(nil) // the servers stay
	if _, err := client.New(t.Context(), loop, cfg); err != failed {
		t.Error(err)
	}
	set([]string{a.addrs[0]})
	for missing() != 0 {
	}
	for _, bad := range []client.Config{{}, {Servers: names, Resolver: cfg.Resolver}} {
		if _, err := client.New(t.Context(), loop, bad); !errors.Is(err, client.ErrConfig) {
			t.Error(err)
		}
	}
}

// TestLives: no version of one life of a server is one of another, whatever the clock shows: a swap
// with what the first one returned fails at the second one.
func TestLives(t *testing.T) {
	key := []byte("key")
	var before uint64
	for life := range 3 {
		r := serve(t, server.Config{}) // their clocks show the same
		c := connect(t, r.addrs[0])
		now, err := c.Put(t.Context(), key, []byte("value"))
		if err != nil {
			t.Fatal(err)
		}
		w := message.Item{Key: key, Value: []byte("old"), If: mica.IfVersion, Version: before}
		if _, err := c.Write(t.Context(), w); !errors.Is(err, mica.ErrVersion) {
			t.Errorf("life %d: version %d, and %d of before: %v", life, now, before, err)
		}
		before = now
	}
}

// TestServer: what New, Serve, Do and Close refuse.
func TestServer(t *testing.T) {
	for _, cfg := range []server.Config{{}, {Partitions: -1}, {Partitions: message.MaxLayout + 1},
		{Store: mica.Config{Memory: 1 << 20}, Advertise: []string{"a", "b"}},
		{Store: mica.Config{Memory: 1 << 20}, Rpc: erpc.Config{Slots: 3}}} {
		if _, err := server.New(cfg); !errors.Is(err, mica.ErrConfig) && !errors.Is(err, erpc.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	s, err := server.New(server.Config{Store: mica.Config{Memory: 1 << 20, NoHugepages: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(nil); !errors.Is(err, server.ErrTransports) {
		t.Error(err)
	}
	if err := s.Do(0, func(*mica.Partition) {}); err != erpc.ErrClosed {
		t.Error(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	r := serve(t, server.Config{})
	if err := r.Serve(r.trs); !errors.Is(err, erpc.ErrClosed) ||
		!errors.Is(err, erpc.ErrTransportInUse) {
		t.Errorf("served again: %v", err)
	}
	r.stop(t) // it has served all the time
	if err := r.Do(0, func(*mica.Partition) { t.Error("ran") }); err != erpc.ErrClosed {
		t.Error(err)
	}
	if _, err := r.Stats(t.Context()); err != erpc.ErrClosed {
		t.Error(err)
	}
}
