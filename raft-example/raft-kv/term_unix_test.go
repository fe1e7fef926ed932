//go:build unix

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// wire is a writer without the client's repetitions: one request at a time, each sent once.
type wire struct {
	b       *client.Blocking
	addrs   []string
	at      string // whom it asks
	session uint64
	seq     uint64
}

// write sends a write to who leads. It reports whether it was applied, or else whether that is
// known.
func (w *wire) write(ctx context.Context) (done, known bool) {
	cmd := kv.Command{Op: kv.Open, Cluster: 5}
	if w.session != 0 {
		cmd = kv.Command{Op: kv.Put, Cluster: 5, Session: w.session, Seq: w.seq, Key: numbered(1)}
	}
	body, err := w.b.Call(ctx, w.at, node.TypeKV, cmd.Append(nil))
	if err != nil {
		w.elsewhere()
		return false, errors.Is(err, erpc.ErrNotRun)
	}
	a, err := kv.ParseAnswer(body)
	switch {
	case err != nil || a.Status == kv.Retry:
		return false, false
	case a.Status == kv.NotLeader && a.Value.Len() > 0:
		w.at = a.Value.String()
	case a.Status == kv.NotLeader:
		w.elsewhere()
	case a.Status == kv.OK && w.session == 0:
		w.session, w.seq = a.Number, 1
	case a.Status == kv.OK:
		w.seq++
		return true, true
	}
	return false, true
}

// elsewhere has the next server asked.
func (w *wire) elsewhere() {
	for i, addr := range w.addrs {
		if addr == w.at {
			w.at = w.addrs[(i+1)%len(w.addrs)]
			return
		}
	}
}

// TestLeaderTerminated: the leader gets SIGTERM under load. It ends by itself, another one leads,
// and no request of a client that sends each one once ends without a known outcome.
func TestLeaderTerminated(t *testing.T) {
	for _, durable := range []bool{false, true} {
		dir := ""
		if durable {
			dir = t.TempDir()
		}
		f, cf := testFleet(t, dir)
		ctx := testContext(t)
		b, err := cf.dial()
		if err != nil {
			t.Fatal(err)
		}
		old, err := leaderOf(ctx, cf, f.addrs())
		if err != nil {
			t.Fatal(err)
		}
		var over atomic.Bool
		var writes, last, gap atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				w := wire{b: b, addrs: f.addrs(), at: old.Addr}
				for !over.Load() && ctx.Err() == nil {
					done, known := w.write(ctx)
					if !known {
						t.Errorf("durable %v: a write of unknown outcome", durable)
					}
					if now := int64(monotime.Now()); done {
						writes.Add(1)
						gap.Store(max(gap.Load(), now-last.Swap(now)))
					}
				}
			})
		}
		more := func() {
			for from := writes.Load(); writes.Load() < from+500; {
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
					t.Error("no more writes")
					return
				}
			}
		}
		more()
		gap.Store(0)
		victim := f.children[old.ID-1]
		if err := victim.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-victim.ended:
		case <-ctx.Done():
			t.Error("it does not end")
		}
		more()
		t.Logf("durable %v: %d writes, none for %v", durable, writes.Load(), time.Duration(gap.Load()))
		over.Store(true)
		wg.Wait()
		b.Close()
		if s := victim.cmd.ProcessState; s == nil || !s.Success() {
			t.Errorf("it ended with %v: %s", s, victim.text())
		}
	}
}
