package hraft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
)

// fsm keeps all that it was given.
type fsm struct {
	mu  sync.Mutex
	all [][]byte
}

func (f *fsm) Apply(l *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, bytes.Clone(l.Data))
	return len(f.all)
}

func (f *fsm) digest() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := uint64(0)
	for _, b := range f.all {
		for _, c := range b {
			sum = sum*31 + uint64(c)
		}
	}
	return fmt.Sprintf("%d entries %x", len(f.all), sum)
}

func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return frozen(append([][]byte(nil), f.all...)), nil
}

func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	var all [][]byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		b := make([]byte, binary.LittleEndian.Uint32(size[:]))
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		all = append(all, b)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = all
	return nil
}

type frozen [][]byte

func (f frozen) Persist(s raft.SnapshotSink) error {
	for _, b := range f {
		size := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
		if _, err := s.Write(append(size, b...)); err != nil {
			return err
		}
	}
	return s.Close()
}

func (frozen) Release() {}

// member is a replica.
type member struct {
	*raft.Raft
	fsm *fsm
	tr  *Transport
	id  raft.ServerID
}

func newMember(t *testing.T, i int) *member {
	t.Helper()
	tr, err := NewUDPTransport("127.0.0.1:0", Config{Timeout: 5 * time.Second,
		Erpc: erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true}})
	if err != nil {
		t.Fatal(err)
	}
	m := &member{fsm: &fsm{}, tr: tr, id: raft.ServerID(fmt.Sprint(i))}
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = m.id, hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout = time.Second, time.Second
	c.LeaderLeaseTimeout, c.CommitTimeout = 900*time.Millisecond, 5*time.Millisecond
	c.TrailingLogs, c.MaxAppendEntries = 5, 16
	store := raft.NewInmemStore()
	snaps := raft.NewInmemSnapshotStore()
	if m.Raft, err = raft.NewRaft(c, m.fsm, store, store, snaps, tr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Shutdown().Error(); err != nil {
			t.Error(err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *member) server() raft.Server { return raft.Server{ID: m.id, Address: m.tr.LocalAddr()} }

// leader waits for one.
func leader(t *testing.T, list []*member) *member {
	t.Helper()
	for {
		for _, m := range list {
			if m.State() == raft.Leader && m.VerifyLeader().Error() == nil {
				return m
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatal("no leader")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// agree waits until all members have the same state.
func agree(t *testing.T, list []*member) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		same := true
		for _, m := range list {
			same = same && m.fsm.digest() == list[0].fsm.digest()
		}
		if same {
			return
		}
		if time.Now().After(end) {
			for _, m := range list {
				t.Errorf("member %s: %s", m.id, m.fsm.digest())
			}
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// write applies n entries, many at a time.
func write(t *testing.T, l *member, n, size int) {
	t.Helper()
	var list []raft.ApplyFuture
	for i := range n {
		list = append(list, l.Apply(bytes.Repeat([]byte{byte(i)}, size), 20*time.Second))
	}
	for _, f := range list {
		if err := f.Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCluster: an unmodified hashicorp/raft over this transport replicates (through its
// pipeline), elects another leader, and brings a new member up with a snapshot.
func TestCluster(t *testing.T) {
	list := []*member{newMember(t, 1), newMember(t, 2), newMember(t, 3)}
	var conf raft.Configuration
	for _, m := range list {
		conf.Servers = append(conf.Servers, m.server())
	}
	if err := list[0].BootstrapCluster(conf).Error(); err != nil {
		t.Fatal(err)
	}
	l := leader(t, list)
	write(t, l, 500, 1000)
	agree(t, list)

	if err := l.LeadershipTransfer().Error(); err != nil { // TimeoutNow
		t.Error(err)
	}
	l = leader(t, list)
	write(t, l, 100, 20_000) // more than a packet each
	agree(t, list)

	if err := l.Shutdown().Error(); err != nil {
		t.Fatal(err)
	}
	var rest []*member
	for _, m := range list {
		if m != l {
			rest = append(rest, m)
		}
	}
	l = leader(t, rest)
	write(t, l, 50, 100)
	if err := l.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	fresh := newMember(t, 4)
	if err := l.AddVoter(fresh.id, fresh.tr.LocalAddr(), 0, 20*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	write(t, l, 10, 10)
	agree(t, append(rest, fresh))
	if n := fresh.LastIndex(); n < 600 || len(fresh.fsm.all) != 660 {
		t.Errorf("last index %d, %d entries", n, len(fresh.fsm.all))
	}
}
