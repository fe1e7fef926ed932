package replica

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
)

func ids(p *post) []uint64 { return slices.Sorted(maps.Keys(p.Status().Members)) }

// TestJoint: two of three voters are replaced at once. In between both majorities are needed, and
// afterwards the new ones are enough.
func TestJoint(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	m.add(4, Start{})
	m.add(5, Start{})
	m.cut[4], m.cut[5] = true, true
	list := []Member{{Remove, 2, ""}, {Remove, 3, ""}, {Add, 4, "d"}, {Add, 5, "e"}}
	if err := l.Reconfigure(list, 1); err != nil {
		t.Fatal(err)
	}
	m.settle()
	if a := l.answers[1]; a.Status != kv.OK {
		t.Fatalf("the joint configuration is not entered: %+v", a)
	}
	got := l.Status()
	if !slices.Equal(got.Outgoing, []uint64{1, 2, 3}) ||
		!slices.Equal(ids(l), []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("%+v", got)
	}
	l.Propose(putBytes(s, 1, "v"), 2)
	m.pass(3 * tick20)
	if _, ok := l.answers[2]; ok {
		t.Error("committed without a majority of the new voters")
	}
	clear(m.cut)
	m.pass(40 * tick20) // they get a snapshot
	if a := l.answers[2]; a.Status != kv.OK {
		t.Errorf("%+v", a)
	}
	for _, id := range []uint64{1, 4, 5} {
		st := m.posts[id].Status()
		if !slices.Equal(ids(m.posts[id]), []uint64{1, 4, 5}) || len(st.Outgoing) > 0 {
			t.Errorf("replica %d: %+v", id, st)
		}
	}
	m.cut[2], m.cut[3] = true, true
	l.Propose(putBytes(s, 2, "w"), 3)
	m.settle()
	if a := l.answers[3]; a.Status != kv.OK {
		t.Errorf("without those that left: %+v", a)
	}
	if v, _ := m.posts[5].Store().Get(theKey()); v.String() != "w" {
		t.Errorf("a new member has %q", v)
	}
}

// TestJointTags: the entry that leaves the joint configuration takes the answer of no proposal
// beside it.
func TestJointTags(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	if err := l.Reconfigure([]Member{{Remove, 3, ""}}, 1000); err != nil {
		t.Fatal(err)
	}
	const n = 40
	i := uint64(0)
	m.after = func(p *post) { // as in a loop that handles the first event of a pass at once
		if p.Quick(); p == l && i < n { // those with an odd tag name no session
			l.Propose(putBytes(s+i%2*1000, i+1, "v"), i)
			if i++; i == n/2 {
				m.now = m.now.Add(tick20)
				l.Tick(m.now)
			}
		}
	}
	for m.carry() || i < n {
	}
	if st := l.Status(); len(st.Outgoing) > 0 || !slices.Equal(ids(l), []uint64{1, 2}) {
		t.Errorf("%+v", st)
	}
	for i := range uint64(n) {
		if a, want := l.answers[i].Status, []kv.Status{kv.OK, kv.Expired}[i%2]; a != want {
			t.Errorf("proposal %d: %v, want %v", i, a, want)
		}
	}
}

// TestJointRefused: bad changes have a typed error, and one during another is answered Busy.
func TestJointRefused(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	for _, list := range [][]Member{nil, make([]Member, MaxChanges+1), {{Add, 0, "x"}}, {{Add, 4, ""}},
		{{Change(9), 4, "x"}}, {{Add, 4, "x"}, {Remove, 4, ""}}, {{Add, 4, "x"}, {Add, 4, "y"}},
		{{Remove, 1, ""}, {Remove, 2, ""}, {Remove, 3, ""}},
		{{Remove, 1, ""}, {Remove, 2, ""}, {Learner, 3, "c"}}} {
		if err := l.Reconfigure(list, 1); !errors.Is(err, ErrMember) {
			t.Errorf("%v: %v", list, err)
		}
	}
	if err := m.posts[2].Reconfigure([]Member{{Add, 4, "d"}}, 1); !errors.Is(err, ErrLeader) {
		t.Error(err)
	}
	err := errors.Join(l.Reconfigure([]Member{{Add, 4, "d"}}, 2),
		l.Reconfigure([]Member{{Add, 5, "e"}}, 3))
	if err != nil {
		t.Fatal(err)
	}
	m.settle()
	if a, b := l.answers[2].Status, l.answers[3].Status; a != kv.OK || b != kv.Busy {
		t.Errorf("%v, then %v", a, b)
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}
