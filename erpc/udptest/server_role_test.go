package udptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// The request types of the server.
const (
	typeInline = 1 // echo in the event loop
	typeEcho   = 2 // echo in a worker
	typeHold   = 3 // no answer
	typeOnce   = 4 // echo, and count how often each request ran
)

// tally counts how often each request ran.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
}

// report is the content of a tally.
type report struct{ Distinct, Repeated int }

func (y *tally) note(_ context.Context, req []byte) ([]byte, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs[string(req)]++
	return req, nil
}

func (y *tally) report() (r report) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, n := range y.runs {
		r.Distinct++
		if n > 1 {
			r.Repeated++
		}
	}
	return r
}

// runServer serves until it is told to quit.
func runServer(r *role) error {
	s, err := erpc.NewServer(r.config())
	if err != nil {
		return err
	}
	once := &tally{runs: map[string]int{}}
	err = errors.Join(
		s.HandleInline(typeInline, func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }),
		s.Handle(typeEcho, func(_ context.Context, req []byte) ([]byte, error) { return req, nil }),
		s.HandleInline(typeHold, func(erpc.ReqHandle) { say("holding", true) }),
		s.Handle(typeOnce, once.note),
	)
	if err != nil {
		return err
	}
	tr, err := r.open()
	if err != nil {
		return err
	}
	say("up", tr.LocalAddr().String())
	served := make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	orders(func(word, _ string) bool {
		if word == "report" {
			say("report", once.report())
		}
		return word != "quit"
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, erpc.ErrDeadline) {
		return err
	}
	if err := <-served; !errors.Is(err, erpc.ErrClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
