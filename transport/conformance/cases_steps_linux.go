package conformance

import (
	"errors"
	"time"

	"github.com/userspace-rpc/erpc/internal/poll"
	"github.com/userspace-rpc/erpc/transport"
)

// steps takes the steps of waits of b, whose descriptors are fds.
func (r *rig) steps(fds []int) {
	set := poll.NewSet("conformance", fds...)
	r.step(&set, "Wake before PrepareWait", r.b.Wake, func() {})
	r.step(&set, "Wake after PrepareWait", func() {}, r.b.Wake)
	for _, before := range []bool{true, false} {
		flows := []*flow{{to: r.b}}
		send := func() { r.offer(r.a, r.build([]spec{{head: 24}}, flows)) }
		if before {
			r.step(&set, "a packet before PrepareWait", send, func() {})
		} else {
			r.step(&set, "a packet after PrepareWait", func() {}, send)
		}
		r.collect(r.a, flows[0])
	}
	if _, err := r.b.PrepareWait(); err != nil {
		r.Fatalf("PrepareWait: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- r.b.Close() }()
	err := r.sleepOn(&set)
	for limit := r.deadline(); err == nil && time.Now().Before(limit); { // something else ended it
		if _, err = r.b.PrepareWait(); err == nil {
			err = r.sleepOn(&set)
		}
	}
	if !errors.Is(err, transport.ErrClosed) {
		r.Errorf("Close after PrepareWait: %v, want ErrClosed", err)
	}
	if err := until(r, closed, "Close after FinishWait"); err != nil {
		r.Errorf("Close: %v", err)
	}
	if idle, err := r.b.PrepareWait(); idle || !errors.Is(err, transport.ErrClosed) {
		r.Errorf("PrepareWait after Close = %v, %v, want ErrClosed", idle, err)
	}
}

// sleepOn sleeps, and ends the wait of b.
func (r *rig) sleepOn(set *poll.Set) error {
	ready, err := set.Sleep(r.o.patience)
	return errors.Join(err, r.b.FinishWait(ready))
}

// step is a wait of b with something to do before or after PrepareWait, which must end it.
func (r *rig) step(set *poll.Set, what string, before, after func()) {
	r.Helper()
	before()
	idle, err := r.b.PrepareWait()
	if err != nil {
		r.Fatalf("PrepareWait: %v", err)
	}
	after()
	var ready uint32
	if idle {
		if ready, err = set.Sleep(r.o.patience); ready == 0 || err != nil {
			r.Errorf("%s: descriptors %b are readable, %v", what, ready, err)
		}
	}
	if err := r.b.FinishWait(ready); err != nil {
		r.Fatalf("FinishWait: %v", err)
	}
}
