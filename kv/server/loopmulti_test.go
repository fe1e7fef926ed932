package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
)

// TestLoopMulti: a multi-get of an event loop tells once of each key, whichever partitions of
// whichever servers have it, and also where not all values fit an answer.
func TestLoopMulti(t *testing.T) {
	a := serve(t, server.Config{Partitions: 3, Store: mica.Config{Memory: 16 << 20}})
	b := serve(t, server.Config{Partitions: 2, Store: mica.Config{Memory: 16 << 20}})
	rpc, l := loopOf(t, a, b)
	wait := func() {
		t.Helper()
		if err := rpc.Run(func() bool { return l.Pending() == 0 }); err != nil {
			t.Fatal(err)
		}
	}
	const n = message.MaxMulti
	for _, size := range []int{10, 900_000} {
		value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, size+i) }
		var keys [][]byte
		there := n
		if size > 1000 {
			there = 16
		}
		for i := range n {
			keys = append(keys, fmt.Appendf(nil, "key %d of %d", i, size))
			if i%4 > 0 && i < there {
				if err := l.Put(keys[i], value(i), 0, func(r client.Result) {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		wait()
		for _, k := range []int{0, 1, 7, n} {
			told := make([]int, k)
			err := l.GetMulti(keys[:k], 1000, func(r client.Result) {
				i := int(r.Tag - 1000)
				told[i]++
				if i%4 == 0 || i >= there {
					if r.Err != mica.ErrNotFound {
						t.Errorf("key %d: %v", i, r.Err)
					}
				} else if r.Err != nil || !bytes.Equal(r.Value.Value, value(i)) {
					t.Errorf("key %d: %d bytes, %v", i, len(r.Value.Value), r.Err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			wait()
			for i, times := range told {
				if times != 1 {
					t.Errorf("%d keys of %d bytes: told %d times of key %d", k, size, times, i)
				}
			}
		}
	}
}

// TestLoopMultiFails: bad keys are refused as a whole; after the end of a session each key has its
// error.
func TestLoopMultiFails(t *testing.T) {
	a := serve(t, server.Config{})
	rpc, l := loopOf(t, a)
	never := func(r client.Result) { t.Errorf("%+v", r) }
	if err := l.GetMulti(make([][]byte, message.MaxMulti+1), 0, never); !errors.Is(err,
		client.ErrConfig) {
		t.Error(err)
	}
	for _, key := range [][]byte{nil, make([]byte, mica.MaxKey+1)} {
		if err := l.GetMulti([][]byte{[]byte("a"), key}, 0, never); err != mica.ErrKey {
			t.Error(err)
		}
	}
	if err := rpc.Close(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	err := l.GetMulti([][]byte{[]byte("a"), []byte("b")}, 0, func(r client.Result) {
		if failed++; !errors.Is(r.Err, erpc.ErrClosed) {
			t.Error(r.Err)
		}
	})
	if err != nil || failed != 2 || l.Pending() != 0 {
		t.Errorf("%v, %d keys failed, %d pending", err, failed, l.Pending())
	}
}
