package replica

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// TestBehind: the leader knows who has its log, but for few entries; nobody else does.
func TestBehind(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	if err := l.Change(Learner, 4, "d", 1); err != nil {
		t.Fatal(err)
	}
	m.settle()
	want := func(id uint64, text string) {
		t.Helper()
		if err := l.Behind(id); text == "" && err != nil ||
			text != "" && (!errors.Is(err, ErrBehind) || !strings.Contains(err.Error(), text)) {
			t.Errorf("replica %d: %v; want %q", id, err, text)
		}
	}
	want(1, "")
	want(2, "")
	want(4, "has not had the log yet")
	want(9, "has not had the log yet")
	m.cut[3] = true
	has := l.committed
	for l.committed < has+maxLag {
		l.Propose(putBytes(s, l.committed, "v"), 2)
		m.settle()
	}
	want(2, "")
	want(3, "")
	l.Propose(putBytes(s, l.committed, "v"), 2)
	m.settle()
	want(3, "lacks 1001 entries")
	if err := m.posts[2].Behind(1); !errors.Is(err, ErrLeader) {
		t.Error(err)
	}
}

// TestFarBehind: a follower that lacks much gets it in steps of about a MiB, and not all that there
// is at once.
func TestFarBehind(t *testing.T) {
	m := newMesh(t, Config{KeepEntries: 1 << 20}, 1, 2, 3)
	l, f := m.posts[1], m.posts[3]
	s := m.session(l)
	m.cut[3] = true
	bytes := 0
	for seq := uint64(1); bytes < 4*maxInflightBytes; {
		for range 100 {
			b := putBytes(s, seq, strings.Repeat("v", kv.MaxValue))
			l.Propose(b, seq)
			bytes += len(b)
			seq++
		}
		m.settle()
	}
	m.cut[3] = false
	most := 0
	for range 100 {
		m.now = m.now.Add(20 * time.Millisecond)
		l.Tick(m.now)
		for again := true; again; again = m.carry() {
			l.Process()
			step := 0
			for _, msg := range l.out {
				if msg.GetTo() == 3 {
					step += len(AppendMessage(nil, msg))
				}
			}
			most = max(most, step)
		}
	}
	if f.applied != l.applied || most < maxInflightBytes/2 || most > maxInflightBytes+2*maxMessage {
		t.Errorf("applied %d of %d, by up to %d bytes in a step", f.applied, l.applied, most)
	}
}
