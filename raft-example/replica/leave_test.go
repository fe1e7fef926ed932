package replica

import (
	"errors"
	"slices"
	"testing"
)

// leaders returns which of the replicas lead.
func (m *mesh) leaders(ids ...uint64) (lead []uint64) {
	for _, id := range ids {
		if m.posts[id].Leads() {
			lead = append(lead, id)
		}
	}
	return lead
}

// ticks lets n ticks pass, with what goes on in the background.
func (m *mesh) ticks(n int) {
	for range n {
		m.pass(tick20)
		for _, p := range m.posts {
			p.Background()
		}
	}
}

// TestLeaderLeaves: a leader that is to go with another voter, which has failed already, hands over
// before the joint configuration ends. Those that stay need neither of them then.
func TestLeaderLeaves(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	m.cut[3] = true
	m.add(4, Start{})
	m.add(5, Start{})
	list := []Member{{Remove, 1, ""}, {Remove, 3, ""}, {Add, 4, "d"}, {Add, 5, "e"}}
	if err := m.posts[1].Reconfigure(list, 1); err != nil {
		t.Fatal(err)
	}
	m.ticks(100)
	if lead := m.leaders(1, 2, 4, 5); len(lead) != 1 || lead[0] == 1 {
		t.Fatalf("%v lead", lead)
	}
	m.cut[1] = true
	m.ticks(100)
	for _, id := range []uint64{2, 4, 5} {
		st := m.posts[id].Status()
		if !slices.Equal(ids(m.posts[id]), []uint64{2, 4, 5}) || len(st.Outgoing) > 0 {
			t.Errorf("replica %d: %+v", id, st)
		}
	}
	if lead := m.leaders(2, 4, 5); len(lead) != 1 {
		t.Errorf("%v lead", lead)
	}
}

// TestLeaderStays: a leader that is asked to remove itself hands over, and its successor does it.
// If nobody was heard of there is none, and it does it itself.
func TestLeaderStays(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	if err := m.posts[1].Change(Remove, 1, "", 1); !errors.Is(err, ErrLeader) {
		t.Fatal(err)
	}
	m.settle()
	lead := m.leaders(1, 2, 3)
	if len(lead) != 1 || lead[0] == 1 {
		t.Fatalf("%v lead", lead)
	}
	l := m.posts[lead[0]]
	if err := l.Change(Remove, 1, "", 2); err != nil {
		t.Fatal(err)
	}
	m.settle()
	if !slices.Equal(ids(l), []uint64{2, 3}) {
		t.Errorf("%+v", l.Status())
	}
	alone := newMesh(t, Config{}, 1)
	if alone.posts[1].handOver() {
		t.Error("handed over to nobody")
	}
}
