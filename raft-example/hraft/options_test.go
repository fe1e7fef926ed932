package hraft

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestAddresses: an address that nobody can reach is refused; one to advertise takes its place.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		addr string
		cfg  Config
		want error
	}{
		{"0.0.0.0:0", Config{}, ErrNotAdvertisable},
		{"[::]:0", Config{}, ErrNotAdvertisable},
		{":0", Config{}, ErrNotAdvertisable},
		{"127.0.0.1:0", Config{Advertise: "0.0.0.0:7000"}, ErrNotAdvertisable},
		{"127.0.0.1:0", Config{Advertise: ":7000"}, ErrNotAdvertisable},
		{"127.0.0.1:0", Config{Advertise: "nonsense"}, ErrConfig},
		{"127.0.0.1:0", Config{MaxRPCsInFlight: -1}, ErrConfig},
		{"127.0.0.1:0", Config{MaxRPCsInFlight: 513}, ErrConfig},
		{"0.0.0.0:0", Config{Advertise: "raft1.example:7000"}, nil},
	} {
		tt.cfg.Erpc = erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true}
		tr, err := NewUDPTransport(tt.addr, tt.cfg)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s, %q: %v, want %v", tt.addr, tt.cfg.Advertise, err, tt.want)
		}
		if err == nil {
			if got := tr.LocalAddr(); string(got) != tt.cfg.Advertise {
				t.Errorf("it says %s", got)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// book is a raft.ServerAddressProvider.
type book map[raft.ServerID]raft.ServerAddress

func (b book) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if a, ok := b[id]; ok {
		return a, nil
	}
	return "", fmt.Errorf("no server %s", id)
}

// votes answers n votes.
func votes(to *Transport, n int) {
	for range n {
		r := <-to.Consumer()
		r.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
	}
}

// TestAddressProvider: the provider's address counts, and Raft's where it has none.
func TestAddressProvider(t *testing.T) {
	b := book{}
	from, to := pairWith(t, Config{ServerAddressProvider: b})
	b["there"] = to.LocalAddr()
	go votes(to, 2)
	for id, addr := range map[raft.ServerID]raft.ServerAddress{"there": "192.0.2.1:1",
		"other": to.LocalAddr()} {
		if err := from.RequestVote(id, addr, &raft.RequestVoteRequest{},
			new(raft.RequestVoteResponse)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if got := from.DecodePeer(from.EncodePeer(id, addr)); got != to.LocalAddr() {
			t.Errorf("%s is told as %s", id, got)
		}
	}
}

// TestInFlight: without overlap there is no pipeline; the call that fills one returns when an
// answer has been consumed.
func TestInFlight(t *testing.T) {
	from, to := pairWith(t, Config{MaxRPCsInFlight: 1})
	_, err := from.AppendEntriesPipeline("", to.LocalAddr())
	if !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Error(err)
	}
	for _, n := range []int{0, 2, 10} {
		from, to := pairWith(t, Config{MaxRPCsInFlight: n})
		p, err := from.AppendEntriesPipeline("", to.LocalAddr())
		if err != nil {
			t.Fatal(err)
		}
		limit := max(n, 2)
		for range limit - 1 {
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{},
				new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
		}
		last := make(chan error)
		go func() {
			_, err := p.AppendEntries(&raft.AppendEntriesRequest{}, new(raft.AppendEntriesResponse))
			last <- err
		}()
		var all []raft.RPC
		for range limit { // the last one is on its way, too
			all = append(all, <-to.Consumer())
		}
		all[0].Respond(&raft.AppendEntriesResponse{Success: true}, nil)
		select {
		case err := <-last:
			t.Errorf("%d in flight: the last call has returned (%v), and no answer was consumed", n, err)
		case f := <-p.Consumer():
			if err := errors.Join(f.Error(), <-last); err != nil {
				t.Error(err)
			}
		}
		go func() { // a full pipeline that closes
			_, _ = p.AppendEntries(&raft.AppendEntriesRequest{}, new(raft.AppendEntriesResponse))
			_, err := p.AppendEntries(&raft.AppendEntriesRequest{}, new(raft.AppendEntriesResponse))
			last <- err
		}()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-last; !errors.Is(err, raft.ErrPipelineShutdown) {
			t.Error(err)
		}
	}
}

// TestCloseStreams: calls under way end well, and later ones have other sessions.
func TestCloseStreams(t *testing.T) {
	from, to := pairWith(t, Config{})
	sessions := func() (n int) {
		done := make(chan int)
		if err := from.rpc.Post(func(*erpc.Rpc) { done <- len(from.sessions) }); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
	ended := make(chan error)
	vote := func() {
		ended <- from.RequestVote("", to.LocalAddr(), &raft.RequestVoteRequest{},
			new(raft.RequestVoteResponse))
	}
	go vote()
	under := <-to.Consumer()
	if sessions() != 1 {
		t.Error("no session")
	}
	from.CloseStreams()
	if sessions() != 0 {
		t.Error("the session is still used")
	}
	go votes(to, 1)
	go vote()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	under.Respond(&raft.RequestVoteResponse{}, nil)
	if err := <-ended; err != nil {
		t.Errorf("a call that was under way: %v", err)
	}
}

// TestUnknownPipeline: requests on a pipeline that the receiver does not know are refused, and do
// not wait for what would have to come before it.
func TestUnknownPipeline(t *testing.T) {
	from, to := pairWith(t, Config{})
	b, err := encode(make([]byte, 16), &raft.AppendEntriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	b[0], b[8] = 77, 5
	if err := from.roundTrip(to.LocalAddr(), typePipeline, b, from.cfg.Timeout,
		new(raft.AppendEntriesResponse)); !errors.Is(err, ErrRemote) {
		t.Error(err)
	}
}

// late is a transport whose loop, when it was woken, lets others run first: so what comes then lies
// there beside what woke it.
type late struct{ transport.Transport }

func (l late) Wait(timeout time.Duration) error {
	err := l.Transport.Wait(timeout)
	for range 200 {
		runtime.Gosched()
	}
	return err
}

// TestCloseIncoming: pipelines end when the side that is called closes its streams. What comes
// after that is refused, also if the loop finds it before it has heard of the end.
func TestCloseIncoming(t *testing.T) {
	cfg := Config{MaxRPCsInFlight: 10, Erpc: erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true}}
	from, _ := pairWith(t, cfg)
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := New(late{conn}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		closeIncoming(t, from, to)
	}
	if err := to.Close(); err != nil {
		t.Error(err)
	}
	to.CloseStreams() // it has none, and does not wait for a loop that has ended
}

func closeIncoming(t *testing.T, from, to *Transport) {
	p, err := from.AppendEntriesPipeline("", to.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	send := func() *future {
		f, err := p.AppendEntries(&raft.AppendEntriesRequest{}, new(raft.AppendEntriesResponse))
		if err != nil {
			t.Fatal(err)
		}
		return f.(*future)
	}
	first := send()
	under := <-to.Consumer()
	to.CloseStreams()
	second := send()
	select {
	case <-to.Consumer():
		t.Fatal("Raft was given a call of a closed pipeline")
	case <-second.ended:
	}
	if err := second.Error(); !errors.Is(err, ErrRemote) ||
		!strings.Contains(err.Error(), ErrStreamsClosed.Error()) {
		t.Errorf("a call of the closed pipeline: %v", err)
	}
	under.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
	if err := errors.Join(first.Error(), p.Close()); err != nil {
		t.Error(err)
	}
}

// TestPipelineEnds: Raft consumes nothing behind an answer that is no success. Calls that
// wait for room then, or come later, return all the same.
func TestPipelineEnds(t *testing.T) {
	for name, end := range map[string]func(r raft.RPC){
		"refused": func(r raft.RPC) { r.Respond(&raft.AppendEntriesResponse{}, nil) },
		"failed":  func(r raft.RPC) { r.Respond(nil, errors.New("not today")) },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := pair(t)
			p, err := from.AppendEntriesPipeline("", to.LocalAddr())
			if err != nil {
				t.Fatal(err)
			}
			send := func() error {
				_, err := p.AppendEntries(&raft.AppendEntriesRequest{}, new(raft.AppendEntriesResponse))
				return err
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			first := <-to.Consumer()
			waits := make(chan error)
			go func() {
				_ = send() // it may have found room, when the first one was taken
				waits <- send()
			}()
			second := <-to.Consumer()
			end(first)
			if f := <-p.Consumer(); f.Error() == nil && f.Response().Success {
				t.Error("success")
			}
			end(second)
			if err := <-waits; !errors.Is(err, raft.ErrPipelineShutdown) {
				t.Errorf("a call behind the end: %v", err)
			}
			if err := send(); !errors.Is(err, raft.ErrPipelineShutdown) {
				t.Errorf("a later one: %v", err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
