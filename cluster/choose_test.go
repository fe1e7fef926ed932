package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

func names(list []Entry) (text string) {
	for _, e := range list {
		text += e.Name
	}
	return text
}

func view(list ...Entry) View { return NewView(list, 1, nil) }

func entry(name, zone string) Entry {
	return Entry{Addr: name + ":1", Name: name, Zone: zone}
}

// TestChoose: servers of the zone are preferred, others are spares; those that drain or do not
// serve the transport are none.
func TestChoose(t *testing.T) {
	drains, rpc := entry("d", "x"), entry("g", "x")
	drains.Draining = true
	rpc.Transports = map[string]string{GRPC: rpc.Addr}
	v := view(entry("a", "x"), entry("b", "y"), entry("c", "x"), drains, rpc)
	for _, tt := range []struct {
		c                 Config
		preferred, spares string
	}{
		{Config{}, "abc", ""},
		{Config{Zone: "x"}, "ac", "b"},
		{Config{Zone: "y"}, "b", "ac"},
		{Config{Zone: "z"}, "abc", ""},
		{Config{Zone: "x", Transport: GRPC}, "g", ""},
		{Config{Transport: "other"}, "", ""},
	} {
		got := Choose(v, tt.c)
		if p, s := names(got.Preferred), names(got.Spares); p != tt.preferred || s != tt.spares {
			t.Errorf("%+v: %q and %q, want %q and %q", tt.c, p, s, tt.preferred, tt.spares)
		}
	}
	got := Choose(v, Config{Zone: "x", Subset: 1})
	if len(got.Preferred) != 1 || len(got.Spares) != 1 {
		t.Errorf("of a subset of 1: %+v", got)
	}
}

// script is a source that says what a test sends.
type script chan View

func (s script) Watch(ctx context.Context, update func(View), _ func(error)) error {
	for {
		select {
		case v, ok := <-s:
			if !ok {
				return errLasting
			}
			update(v)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errLasting = errors.New("no such service")

// TestResolver: a view without servers, and a source that fails, leave the servers as they are.
func TestResolver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(script)
		var told []error
		r, err := NewResolver(s, Config{OnProblem: func(err error) { told = append(told, err) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s <- View{Err: ErrUnavailable}
		err = r.Ready(ctx)
		if !errors.Is(err, ErrNoServers) || !errors.Is(err, ErrUnavailable) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without servers: %v", err)
		}
		s <- view(entry("a", ""), entry("b", ""))
		if err = r.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		for _, v := range []View{view(), {Err: ErrAuth}, {Err: ErrAuth}} {
			s <- v
			synctest.Wait()
			if got := names(r.Choice().Preferred); got != "ab" {
				t.Errorf("after %v the choice is %q", v, got)
			}
		}
		if len(told) != 2 || !errors.Is(told[1], ErrAuth) {
			t.Errorf("told %v, want each failure once", told)
		}
		close(s)
		synctest.Wait()
		if err = r.Follow(t.Context(), func(View, Choice) {}); err != errLasting {
			t.Errorf("after a lasting error: %v", err)
		}
		_ = r.Close()
	})
}

// TestConfig: what cannot be meant is refused by name.
func TestConfig(t *testing.T) {
	if _, err := NewResolver(nil, Config{}); !errors.Is(err, erpc.ErrConfig) {
		t.Errorf("no source: %v", err)
	}
	if _, err := NewResolver(script(nil), Config{Subset: -1}); !errors.Is(err, erpc.ErrConfig) {
		t.Errorf("a negative subset: %v", err)
	}
}

// BenchmarkView measures a change of one server at a client: a new view, and the choice from it.
func BenchmarkView(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			list := fleet(n)
			for i := range list {
				list[i].Zone = string(rune('a' + i%3))
			}
			r := &Resolver{cfg: Config{Zone: "a", Subset: 20, Transport: UDP},
				changed: make(chan struct{})}
			b.ReportAllocs()
			for b.Loop() {
				r.take(NewView(list, 1, nil))
			}
		})
	}
}
