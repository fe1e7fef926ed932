package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
)

// TestShared: functions of other goroutines and requests of clients change the same items, and none
// of the changes is lost. The functions wait for no loop.
func TestShared(t *testing.T) {
	s, err := server.New(server.Config{Shared: true, Store: mica.Config{Memory: 1 << 20,
		NoHugepages: true}, Clock: func() uint32 { return 7 }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Do(0, func(p *mica.Partition) { // before there is a loop
		if p.Now() != 7 {
			t.Errorf("the time is %d", p.Now())
		}
	}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	r := serve(t, server.Config{Partitions: 2, Shared: true})
	c := connect(t, r.addrs[0])
	const keys, rounds = 4, 100
	key := func(i int) []byte { return fmt.Append(nil, "key ", i) }
	for i := range keys {
		if _, err := c.Put(context.Background(), key(i), []byte("0")); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	var ended atomic.Bool
	var here [keys]atomic.Int64 // increments in this process, which go on as long as the others
	for range 2 {
		all.Go(func() {
			for n := 0; !ended.Load(); n++ {
				here[n%keys].Add(1)
				h := mica.Hash(key(n % keys))
				err := r.Do(mica.PartitionOf(h, 2), func(p *mica.Partition) {
					if _, _, err := p.Increment(p.Hash(key(n%keys)), key(n%keys), 1, false, 0); err != nil {
						t.Error(err)
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range rounds * keys {
		if _, err := c.Touch(context.Background(), key(n%keys), 0); err != nil {
			t.Error(err)
		}
		if _, err := c.Increment(context.Background(), key(n%keys), 1, false); err != nil {
			t.Error(err)
		}
	}
	ended.Store(true)
	all.Wait()
	for i := range keys {
		want := fmt.Sprint(rounds + here[i].Load())
		it, err := c.Get(context.Background(), key(i))
		if err != nil || string(it.Value) != want {
			t.Errorf("key %d: %q, %v, want %s", i, it.Value, err, want)
		}
	}
	r.stop(t)
	err = r.Do(0, func(*mica.Partition) { t.Error("it has been closed") })
	if !errors.Is(err, erpc.ErrClosed) {
		t.Error(err)
	}
}
