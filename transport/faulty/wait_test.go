package faulty

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// hinting is a transport that hears one hint about each of its peers at each call, and can be
// waited for by a descriptor.
type hinting struct {
	*fake
	peers []transport.Addr
}

func (h hinting) Hints(hints []transport.Hint) int {
	for i, a := range h.peers {
		hints[i] = transport.Hint{Kind: transport.HintUnreachable, To: a}
	}
	return len(h.peers)
}

func (h hinting) WaitFDs() []int                      { return []int{7} }
func (h hinting) PrepareWait() (idle bool, err error) { return true, nil }
func (h hinting) FinishWait(uint32) error             { return nil }
func (h hinting) Nap(time.Duration) error             { return nil }

// TestHints: a cut swallows what the network would say from behind it, and nothing else does.
func TestHints(t *testing.T) {
	left, right := transport.Addr{Port: 1}, transport.Addr{Port: 2}
	inner := hinting{newFakeNet(true).open(), []transport.Addr{left, right}}
	tr := decorate(t, inner, Config{RX: Faults{Loss: 1}})
	for name, c := range map[string]struct {
		all  Direction
		to   Direction // of left
		want []transport.Addr
	}{
		"no cut":        {None, None, []transport.Addr{left, right}},
		"cut":           {Both, None, nil},
		"cut of TX":     {TX, None, []transport.Addr{left, right}},
		"partition":     {None, RX, []transport.Addr{right}},
		"TX to one cut": {None, TX, []transport.Addr{left, right}},
	} {
		tr.Cut(c.all)
		tr.CutAddr(left, c.to)
		hints := make([]transport.Hint, 4)
		var got []transport.Addr
		for _, h := range hints[:tr.Hints(hints)] {
			got = append(got, h.To)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: hints about %v, want %v", name, got, c.want)
		}
	}
}

// TestSteps: where packets may be held, Wait is the only way to sleep, since it looks after them.
func TestSteps(t *testing.T) {
	inner := hinting{fake: newFakeNet(true).open()}
	plain := decorate(t, inner, Config{RX: Faults{Loss: 1}})
	if fds := plain.WaitFDs(); !slices.Equal(fds, []int{7}) {
		t.Errorf("WaitFDs = %v", fds)
	}
	if idle, err := plain.PrepareWait(); !idle || err != nil {
		t.Errorf("PrepareWait = %v, %v", idle, err)
	}
	if err := plain.FinishWait(0); err != nil {
		t.Errorf("FinishWait: %v", err)
	}
	var now Time
	holds := decorate(t, inner, Config{TX: Faults{Delay: 10}, Clock: func() Time { return now }})
	if fds := holds.WaitFDs(); fds != nil {
		t.Errorf("WaitFDs = %v, with packets that may be held", fds)
	}
	if _, err := holds.PrepareWait(); !errors.Is(err, transport.ErrUnsupported) {
		t.Errorf("PrepareWait: %v", err)
	}
	if err := holds.FinishWait(0); !errors.Is(err, transport.ErrUnsupported) {
		t.Errorf("FinishWait: %v", err)
	}
	item := transport.TxItem{Dst: inner.addr, Head: []byte("held")}
	if n, err := holds.TxBurst([]transport.TxItem{item}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	now += 20
	if err := holds.Nap(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if tx, _ := holds.Counts(); tx.Held != 0 {
		t.Error("a packet that was due stayed during a nap")
	}
}
