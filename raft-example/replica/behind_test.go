package replica

import (
	"errors"
	"strings"
	"testing"
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
