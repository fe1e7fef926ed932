package erpc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestRunStopsAfterTimer: stop is asked after a pass in which only a timer did
// something, before the loop sleeps for lack of anything else to wait for.
func TestRunStopsAfterTimer(t *testing.T) {
	dead, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close() // bound, and never answers
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	over := false
	n, err := erpc.NewNexus(erpc.Config{
		Wait:      erpc.WaitSleep,
		Timing:    erpc.Timing{ConnectTimeout: 20 * time.Millisecond},
		OnSession: func(*erpc.Rpc, *erpc.Session, erpc.SessionEvent) { over = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.CreateSessionTo(dead.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(func() bool { return over }) }()
	select {
	case err = <-ended:
	case <-time.After(20 * time.Second):
		r.Wake() // asks stop again, so that the goroutine ends
		<-ended
		t.Fatal("Run slept although stop would have returned true")
	}
	if err != nil || !errors.Is(s.Err(), erpc.ErrConnect) {
		t.Errorf("Run: %v, session: %v", err, s.Err())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
