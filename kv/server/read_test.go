package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
)

// TestRead: goroutines read partitions beside their loops while clients write, and see each write
// that was answered before. The server counts what they find.
func TestRead(t *testing.T) {
	r := serve(t, server.Config{Partitions: 2, Store: mica.Config{Readers: true}})
	if !r.CanRead() {
		t.Error("it cannot be read")
	}
	c := connect(t, r.addrs[0])
	const keys, rounds = 8, 50
	var written [keys]atomic.Uint64
	key := func(i int) []byte { return fmt.Append(nil, "key ", i) }
	begins := make(chan struct{}) // a write, and some reads beside it
	var hits atomic.Uint64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for n := 0; ; n++ {
				if n%(3*keys) == 0 {
					if _, ok := <-begins; !ok {
						return
					}
				}
				i := n % keys
				least := written[i].Load()
				h := mica.Hash(key(i))
				err := r.Read(mica.PartitionOf(h, 2), func(rd *mica.Reader) {
					it, ok := rd.Get(h, key(i))
					if !ok && least > 0 || ok && binary.LittleEndian.Uint64(it.Value) < least {
						t.Errorf("key %d: %v, %v, want %d at least", i, it.Value, ok, least)
					}
					if ok {
						hits.Add(1)
					}
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := uint64(1); n <= rounds; n++ {
		for i := range keys {
			begins <- struct{}{}
			value := binary.LittleEndian.AppendUint64(nil, n)
			if _, err := c.Put(context.Background(), key(i), value); err != nil {
				t.Fatal(err)
			}
			written[i].Store(n)
		}
	}
	close(begins)
	all.Wait()
	list, err := r.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := list[0].Hits + list[1].Hits; got != hits.Load() {
		t.Errorf("%d hits counted, want %d", got, hits.Load())
	}
}

// TestReadRefused: without readers, and after Close, there is nothing to read. Where
// lookups move items to the head they are the owner's.
func TestReadRefused(t *testing.T) {
	no := func(*mica.Reader) { t.Error("it was read") }
	r := serve(t, server.Config{})
	if err := r.Read(0, no); !errors.Is(err, mica.ErrConfig) || r.CanRead() {
		t.Error(err, r.CanRead())
	}
	lru := serve(t, server.Config{Store: mica.Config{Readers: true, MoveToHead: 1}})
	if lru.CanRead() {
		t.Error("lookups would move nothing to the head")
	}
	lru.stop(t)
	if err := lru.Read(0, no); !errors.Is(err, erpc.ErrClosed) {
		t.Error(err)
	}
}
