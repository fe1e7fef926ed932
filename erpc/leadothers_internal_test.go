package erpc

import (
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/internal/gid"
)

// takes vacates the loop and has fn take it, until fn reports that it has.
func (g leadRig) takes(t *testing.T, fn func() bool) {
	t.Helper()
	for range 1000 {
		if g.vacate(); fn() {
			return
		}
	}
	t.Fatal("nobody runs the loop but its goroutine")
}

// TestDo: who sends to a vacant loop makes the pass itself. The loop is left vacant, or its
// goroutine has it.
func TestDo(t *testing.T) {
	g, me := newLeadRig(t), gid.Current()
	for range 10 {
		g.takes(t, func() bool {
			ran := make(chan uintptr, 1)
			if err := g.loop.Do(func(*Rpc) { ran <- gid.Current() }); err != nil {
				t.Fatal(err)
			}
			return <-ran == me
		})
	}
}

// TestLead: a goroutine that waits runs a vacant loop until that has come for which it waits.
// Others get what they want meanwhile. One that finds somebody run the loop is told so.
func TestLead(t *testing.T) {
	g, me := newLeadRig(t), gid.Current()
	for range 10 {
		g.takes(t, func() bool {
			came, ran := false, uintptr(0)
			g.loop.Waits(1)
			defer g.loop.Waits(-1)
			go func() {
				if _, err := g.Call(t.Context(), leadEcho, nil); err != nil {
					t.Error(err)
				}
				_ = g.loop.Post(func(*Rpc) { came, ran = true, gid.Current() })
			}()
			led := g.loop.Lead(func() bool { return came })
			for done := false; !done; { // the loop's goroutine may have had it
				seen := make(chan bool)
				_ = g.loop.Post(func(*Rpc) { seen <- came })
				done = <-seen
			}
			return led && ran == me
		})
	}
}

// TestLeadLasts: a goroutine that waits for long gives the loop back, to the loop's goroutine.
func TestLeadLasts(t *testing.T) {
	g := newLeadRig(t)
	g.takes(t, func() bool {
		g.loop.Waits(1)
		defer g.loop.Waits(-1)
		if !g.loop.Lead(func() bool { return false }) {
			return false
		}
		ran := make(chan uintptr, 1)
		_ = g.loop.Post(func(*Rpc) { ran <- gid.Current() })
		return <-ran != gid.Current()
	})
}

// TestUnhurried: a request that the server keeps does not keep callers from the loop, if its type
// says so. It is answered all the same.
func TestUnhurried(t *testing.T) {
	g := newLeadRig(t)
	if err := g.Unhurried(leadHold); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if err := g.Start(leadHold, nil, func(_ []byte, err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	<-g.held
	for range 10 {
		if err := g.leads(t, leadEcho, t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// TestUnhurriedLater: calls under way when their type is said to be unhurried do not keep callers
// from the loop once they have ended.
func TestUnhurriedLater(t *testing.T) {
	g := newLeadRig(t)
	ended, begun := make(chan error, 1), make(chan error, 1)
	_ = g.loop.Post(func(*Rpc) {
		g.conn.deaf = true // until it is said
		begun <- g.StartInLoop(leadEcho, nil, func(_ []byte, err error) { ended <- err })
	})
	if err := errors.Join(<-begun, g.Unhurried(leadEcho)); err != nil {
		t.Fatal(err)
	}
	_ = g.loop.Post(func(*Rpc) { g.conn.deaf = false })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := g.leads(t, leadEcho, t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestLeadTurns: a goroutine is alone after it has talked in turns for a while, and neither when
// others were told of something, nor while somebody waits.
func TestLeadTurns(t *testing.T) {
	g := newLeadRig(t)
	turn := func(n int, alone bool) (lone bool) {
		done := make(chan struct{})
		_ = g.loop.Post(func(*Rpc) {
			for range n {
				g.loop.Turn(alone)
			}
			d := &g.loop.lead
			d.calls, d.ended = 0, d.ended.Add(2*apartFor)
			lone = d.lone()
			close(done)
		})
		<-done
		return lone
	}
	if turn(aloneAfter-1, true) || !turn(aloneAfter, true) {
		t.Error("not alone after some turns, or too soon")
	}
	if turn(1, false) {
		t.Error("alone beside others")
	}
	turn(2*aloneAfter, true)
	g.loop.Waits(1)
	if turn(0, true) {
		t.Error("alone while one begins to wait")
	}
	if turn(2*aloneAfter, true) {
		t.Error("alone while another one waits")
	}
	g.loop.Waits(-1)
	if !turn(2*aloneAfter, true) {
		t.Error("not alone any more")
	}
}
