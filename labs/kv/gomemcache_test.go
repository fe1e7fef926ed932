package main

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/userspace-rpc/erpc/kv/memcached"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// TestCaches: all caches have what they were filled with, and the figures are made.
func TestCaches(t *testing.T) {
	b := newBench(5000)
	caches, err := b.fill([]string{""})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range caches {
		for range 50 {
			b.get(c)
			b.put(c)
			if c.batch != nil {
				b.getBatch(c)
			}
			b.at += group
		}
		if c.missing > 800 { // of 1600; ristretto may refuse some
			t.Errorf("%s: %d missing", c.name, c.missing)
		}
	}
	if b.wrong > 0 {
		t.Errorf("%d wrong answers", b.wrong)
	}
}

// TestGomemcache: a client of memcached works unchanged.
func TestGomemcache(t *testing.T) {
	var parts []*mica.Partition
	for range 3 {
		p, err := mica.New(mica.Config{Memory: 4 << 20, NoHugepages: true})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := memcached.New(memcached.Config{Store: memcached.NewLocal(nil, parts...)})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	c := memcache.New(ln.Addr().String())
	c.Timeout = time.Minute
	use(t, c)
	err = errors.Join(c.Close(), s.Close())
	if e := <-ended; !errors.Is(e, memcached.ErrClosed) {
		t.Error(e)
	}
	for _, p := range parts {
		err = errors.Join(err, p.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// use calls all methods of a client.
func use(t *testing.T, c *memcache.Client) {
	t.Helper()
	must := func(err, want error) {
		t.Helper()
		if err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	must(c.Ping(), nil)
	must(c.Set(&memcache.Item{Key: "a", Value: []byte("x"), Flags: 7}), nil)
	must(c.Add(&memcache.Item{Key: "a"}), memcache.ErrNotStored)
	must(c.Replace(&memcache.Item{Key: "b"}), memcache.ErrNotStored)
	must(c.Append(&memcache.Item{Key: "a", Value: []byte("y")}), nil)
	must(c.Prepend(&memcache.Item{Key: "a", Value: []byte("w")}), nil)
	it, err := c.Get("a")
	if err != nil || string(it.Value) != "wxy" || it.Flags != 7 {
		t.Fatalf("%+v, %v", it, err)
	}
	stale := *it
	it.Value = []byte("z")
	must(c.CompareAndSwap(it), nil)
	must(c.CompareAndSwap(&stale), memcache.ErrCASConflict)
	must(c.Touch("a", 100), nil)
	must(c.Touch("b", 100), memcache.ErrCacheMiss)
	if it, err := c.GetAndTouch("a", 100); err != nil || string(it.Value) != "z" {
		t.Error(it, err)
	}
	must(c.Set(&memcache.Item{Key: "n", Value: []byte("5")}), nil)
	if n, err := c.Increment("n", 10); n != 15 || err != nil {
		t.Error(n, err)
	}
	if n, err := c.Decrement("n", 20); n != 0 || err != nil {
		t.Error(n, err)
	}
	var keys []string
	for i := range 300 {
		keys = append(keys, fmt.Sprint("key", i))
		must(c.Set(&memcache.Item{Key: keys[i], Value: []byte(keys[i])}), nil)
	}
	got, err := c.GetMulti(append(keys, "none"))
	if len(got) != len(keys) || err != nil {
		t.Errorf("%d items, %v", len(got), err)
	}
	for k, it := range got {
		if string(it.Value) != k {
			t.Errorf("%q: %q", k, it.Value)
		}
	}
	must(c.Delete("a"), nil)
	must(c.Delete("a"), memcache.ErrCacheMiss)
	must(c.FlushAll(), nil)
	if _, err := c.Get("n"); err != memcache.ErrCacheMiss {
		t.Error(err)
	}
}
