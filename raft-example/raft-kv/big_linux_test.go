package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

var (
	bigBytes   = flag.Int("big.bytes", 32<<20, "bytes of keys and values in TestBig")
	bigMembers = flag.Int("big.members", 4, "members of the cluster in TestBig")
	bigGaps    = flag.Bool("big.gaps", false, "TestBig fails if a PUT takes longer than 100 ms")
)

// bigKey is a key of 16 bytes.
func bigKey(i int) string { return fmt.Sprintf("big-%012d", i) }

// foundBig makes the folder of a replica whose store has so many bytes of keys and values.
func foundBig(t *testing.T, dir string, cluster uint64, addr string, bytes int) (keys int) {
	t.Helper()
	s := kv.NewStore()
	s.Apply(1, (&kv.Command{Op: kv.Open}).Append(nil))
	c := kv.Command{Op: kv.Put, Session: 1}
	c.Value, _ = kv.MakeValue(strings.Repeat("v", kv.MaxValue))
	keys = bytes / (kv.MaxKey + kv.MaxValue)
	var b []byte
	for i := range keys {
		c.Key, _ = kv.MakeKey(bigKey(i))
		c.Seq = uint64(i + 1)
		b = c.Append(b[:0])
		s.Apply(1, b)
	}
	head := binary.LittleEndian.AppendUint32(nil, 1) // one member
	head = binary.LittleEndian.AppendUint64(head, 1)
	head = append(append(head, byte(len(addr))), addr...)
	meta := &pb.SnapshotMetadata{Index: new(uint64(1)), Term: new(uint64(1)),
		ConfState: &pb.ConfState{Voters: []uint64{1}}}
	start := replica.Start{Snapshot: &pb.Snapshot{Metadata: meta}, State: s.Save(head)}
	if err := node.Found(dir, cluster, 1, start); err != nil {
		t.Fatal(err)
	}
	return keys
}

// memory returns what a process has in memory now, and had at most, in bytes.
func (c *child) memory(t *testing.T) (now, most int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		_, _ = fmt.Sscanf(line, "VmRSS: %d", &now)
		_, _ = fmt.Sscanf(line, "VmHWM: %d", &most)
	}
	return now << 10, most << 10
}

// forget has the most begin anew.
func (c *child) forget(t *testing.T) {
	t.Helper()
	name := fmt.Sprintf("/proc/%d/clear_refs", c.cmd.Process.Pid)
	if err := os.WriteFile(name, []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// bigPut is when a PUT ended, and how long it took.
type bigPut struct{ at, took time.Duration }

// puts overwrites keys at random until the context ends, and returns the PUTs, the longest last.
func (o *operator) puts(ctx context.Context, keys, writers int) (stop func() []bigPut) {
	c, err := o.cf.dial()
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []bigPut
	from := time.Now()
	for range writers {
		wg.Go(func() {
			var own []bigPut
			for ctx.Err() == nil {
				began := time.Now()
				err := c.Put(ctx, bigKey(rand.IntN(keys)), []byte(strings.Repeat("w", kv.MaxValue)))
				if ctx.Err() == nil {
					own = append(own, bigPut{time.Since(from), time.Since(began)})
					if err != nil {
						o.t.Error(err)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	return func() []bigPut {
		cancel()
		wg.Wait()
		c.Close()
		slices.SortFunc(took, func(a, b bigPut) int { return cmp.Compare(a.took, b.took) })
		return took
	}
}

// TestBig: the memory of members of a large store stays what it was while they make, send, take and
// read snapshots, and clients write all the time. make raft-big has a gibibyte.
func TestBig(t *testing.T) {
	addrs, err := freeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{t: t}
	first := &child{id: 1, addr: addrs[0], dir: filepath.Join(t.TempDir(), "1")}
	keys := foundBig(t, first.dir, 5, addrs[0], *bigBytes)
	debug.FreeOSMemory()
	o.cf = clientFlags{netFlags: netFlags{Transport: "udp", Cluster: 5}, Servers: addrs[0],
		Timeout: 60 * time.Second}
	o.flags = []string{"--servers=" + addrs[0], "--cluster=5", "--timeout=10m"}
	n := &founded{Cluster: 5, first: first, operator: o}
	n.start()
	loaded, most := first.memory(t)
	b := &big{t: t, what: "restart"}
	b.peak(first, loaded, most)
	all := []*child{first}
	// quiet returns the memory of each member after some writes.
	quiet := func() (before []int) {
		ctx, cancel := context.WithTimeout(testContext(t), time.Second)
		defer cancel()
		stop := o.puts(testContext(t), keys, 4)
		<-ctx.Done()
		b.what = "nothing"
		b.took(stop(), time.Second)
		for _, c := range all {
			now, _ := c.memory(t)
			before = append(before, now)
			c.forget(t)
		}
		return before
	}
	during := func(what string, do func()) {
		before := quiet()
		b.what = what
		stop := o.puts(testContext(t), keys, 4)
		began := time.Now()
		do()
		b.took(stop(), time.Since(began))
		for i, was := range before {
			_, most := all[i].memory(t)
			b.peak(all[i], was, most)
		}
	}
	during("backup", func() {
		o.want("backup "+filepath.Join(t.TempDir(), "store.bak"), cli.Done, "entry")
	})
	for id := uint64(2); id <= uint64(*bigMembers); id++ {
		during(fmt.Sprint("member ", id), func() {
			c := n.join(id, 5, "--join", "--dir="+filepath.Join(t.TempDir(), fmt.Sprint(id)))
			o.want(fmt.Sprintf("member add %d %s", id, c.addr), cli.Done, "ok\n")
			all = append(all, c)
		})
		c := all[len(all)-1]
		now, most := c.memory(t)
		b.peak(c, now, most)
	}
}

// big reports what was measured.
type big struct {
	t    *testing.T
	what string
}

// peak compares the most memory of a member with what it had.
func (b *big) peak(c *child, before, most int) {
	b.t.Helper()
	b.t.Logf("%s: replica %d had %d MiB, at most %d: %.2f", b.what, c.id, before>>20, most>>20,
		float64(most)/float64(before))
	if most > before*13/10+fixed {
		b.t.Errorf("%s: replica %d took too much memory", b.what, c.id)
	}
}

// fixed is the memory of a member for garbage, buffers and entries, in bytes.
const fixed = 160 << 20

func (b *big) took(list []bigPut, whole time.Duration) {
	b.t.Helper()
	if len(list) == 0 {
		b.t.Fatalf("%s: no writes", b.what)
	}
	most := list[len(list)-1]
	b.t.Logf("%s: %v, %d PUTs, p99 %v, the longest %v, after %v", b.what,
		whole.Round(time.Millisecond), len(list), list[len(list)*99/100].took, most.took,
		most.at.Round(time.Millisecond))
	if *bigGaps && most.took > 100*time.Millisecond {
		b.t.Errorf("%s: a PUT took %v", b.what, most.took)
	}
}
