package conformance

import (
	"errors"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// napIn runs t.Nap in a goroutine of its own, as waitIn does Wait.
func napIn(t transport.Transport, timeout time.Duration) (began <-chan struct{},
	done <-chan error) {
	b, d := make(chan struct{}), make(chan error, 1)
	go func() {
		close(b)
		d <- t.Nap(timeout)
	}()
	return b, d
}

// testNap: a transport cannot nap and always says so, or Wake, Close and the timeout end its naps,
// and packets that came meanwhile are there.
func testNap(r *rig) {
	_, done := napIn(r.b, time.Millisecond)
	switch err := until(r, done, "Nap"); {
	case errors.Is(err, transport.ErrUnsupported):
		r.sendTo(spec{head: 24})
		_, done = napIn(r.b, time.Millisecond)
		if err := until(r, done, "second Nap"); !errors.Is(err, transport.ErrUnsupported) {
			r.Errorf("Nap: %v, and before ErrUnsupported", err)
		}
		return
	case err != nil:
		r.Fatalf("Nap: %v", err)
	}
	for i := range 50 {
		if i%2 == 0 {
			r.b.Wake()
		}
		began, done := napIn(r.b, time.Hour)
		<-began
		if i%2 == 1 {
			r.b.Wake()
		}
		if err := until(r, done, "Nap, with Wake"); err != nil {
			r.Fatalf("Nap: %v", err)
		}
	}
	flows := []*flow{{to: r.b}}
	r.offer(r.a, r.build([]spec{{head: 24}, {head: 24}}, flows))
	if err := r.b.Nap(time.Millisecond); err != nil {
		r.Fatalf("Nap: %v", err)
	}
	r.collect(r.a, flows[0])
	began, done := napIn(r.b, time.Hour)
	<-began
	if err := r.b.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	if err := until(r, done, "Nap, then Close"); err != nil && !errors.Is(err, transport.ErrClosed) {
		r.Errorf("Nap ended by Close: %v", err)
	}
	_, done = napIn(r.b, time.Hour)
	if err := until(r, done, "Nap after Close"); !errors.Is(err, transport.ErrClosed) {
		r.Errorf("Nap after Close: %v, want ErrClosed", err)
	}
}

// testSteps: Wait in three steps, where the transport has descriptors to poll.
func testSteps(r *rig) {
	fds := r.b.WaitFDs()
	if len(fds) > 32 {
		r.Fatalf("WaitFDs gave %d descriptors", len(fds))
	}
	if again := r.b.WaitFDs(); !slices.Equal(again, fds) {
		r.Errorf("WaitFDs changed from %v to %v", fds, again)
	}
	if fds == nil {
		if idle, err := r.b.PrepareWait(); idle || !errors.Is(err, transport.ErrUnsupported) {
			r.Errorf("PrepareWait = %v, %v without descriptors, want ErrUnsupported", idle, err)
		}
		return
	}
	r.steps(fds)
}
