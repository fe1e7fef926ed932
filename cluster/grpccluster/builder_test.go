package grpccluster

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// script is a source that says what a test sends.
type script chan cluster.View

func (s script) Watch(ctx context.Context, update func(cluster.View), _ func(error)) error {
	for {
		select {
		case v := <-s:
			update(v)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// conn is gRPC's side: it notes what it is told.
type conn struct {
	mu   sync.Mutex
	told []string
	last resolver.State
	resolver.ClientConn
}

func (c *conn) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, text)
}

func (c *conn) UpdateState(s resolver.State) error {
	text := ""
	for _, e := range s.Endpoints {
		text += " " + e.Addresses[0].Addr
	}
	c.note(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = s
	return nil
}

func (c *conn) ReportError(err error) { c.note(" error: " + err.Error()) }

func (*conn) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }

// TestFollow: a ClientConn has the servers of its zone that serve the transport, keeps them over
// views without any, and is told why there are none yet. After Close it is told nothing.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(script)
		asked := ""
		b := NewBuilder(func(service string) (cluster.Source, error) {
			asked = service
			return s, nil
		}, cluster.Config{Zone: "a"})
		c := &conn{}
		r, err := b.Build(resolver.Target{URL: url.URL{Scheme: Scheme, Path: "/deep/web"}}, c,
			resolver.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		send := func(err error, list ...cluster.Entry) {
			s <- cluster.NewView(list, 1, err)
			synctest.Wait()
		}
		one := cluster.Entry{Addr: "h1:1", Zone: "a", Instance: "x",
			Transports: map[string]string{cluster.UDP: "h1:7"}}
		two := cluster.Entry{Addr: "h2:1", Zone: "b"}
		other := cluster.Entry{Addr: "h3:1", Zone: "a",
			Transports: map[string]string{cluster.GRPC: "h3:1"}}
		send(cluster.ErrUnavailable)
		send(nil)
		send(nil, one, two, other)
		send(nil)
		send(nil, two)
		r.ResolveNow(resolver.ResolveNowOptions{})
		want := " error: " + cluster.ErrUnavailable.Error() + "| error: " +
			cluster.ErrNoServers.Error() + "| h1:7| h1:7| h2:1"
		if got := strings.Join(c.told, "|"); got != want || asked != "deep/web" {
			t.Errorf("of %q told %q\nwant %q", asked, got, want)
		}
		e, ok := EntryOf(c.last.Endpoints[0].Addresses[0])
		if !ok || e.Addr != two.Addr {
			t.Errorf("the entry of an address is %v", e)
		}
		if _, ok := EntryOf(resolver.Address{}); ok {
			t.Error("any address has an entry")
		}
		r.Close()
		synctest.Wait()
		if len(c.told) != 5 {
			t.Errorf("after Close it was told %q", c.told)
		}
	})
}

// TestSameAddress: a load that is told anew makes no other address, a new registration does.
func TestSameAddress(t *testing.T) {
	e := entry{cluster.Entry{Addr: "h:1", Instance: "x", Load: .1}}
	loaded, again := e, e
	loaded.Load, again.Instance = .9, "y"
	if !e.Equal(loaded) || e.Equal(again) || e.Equal(7) {
		t.Error("addresses are compared wrongly")
	}
}

// TestBuildFails: errors of the source's maker and of the configuration are the builder's.
func TestBuildFails(t *testing.T) {
	none := errors.New("no such service")
	for _, tt := range []struct {
		source func(string) (cluster.Source, error)
		cfg    cluster.Config
		want   error
	}{
		{func(string) (cluster.Source, error) { return nil, none }, cluster.Config{}, none},
		{func(string) (cluster.Source, error) { return make(script), nil }, cluster.Config{Subset: -1},
			erpc.ErrConfig},
	} {
		_, err := NewBuilder(tt.source, tt.cfg).Build(resolver.Target{}, &conn{}, resolver.BuildOptions{})
		if !errors.Is(err, tt.want) {
			t.Errorf("%v, want %v", err, tt.want)
		}
	}
}
