package dns

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
)

// answers gives a name server's answers one after the other, the last one for ever.
type answers struct {
	list  []answer
	asked int
}

type answer struct {
	records []*net.SRV
	err     error
	never   bool // it does not come
}

func (a *answers) LookupSRV(
	ctx context.Context, service, proto, name string,
) (string, []*net.SRV, error) {
	if service != "erpc" || proto != "udp" || name != "web.test" {
		return "", nil, errors.New("another name")
	}
	next := a.list[min(a.asked, len(a.list)-1)]
	a.asked++
	if next.never {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	return "", next.records, next.err
}

// TestWatch: records of the lowest priority are the servers, a failure keeps them, and a name that
// is not there has none.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := &net.DNSError{Err: "no such host", IsNotFound: true}
		a := &answers{list: []answer{
			{err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}},
			{records: []*net.SRV{{Target: "spare.", Port: 7, Priority: 2},
				{Target: "web-0.web.test.", Port: 7, Priority: 1},
				{Target: "web-1.web.test.", Port: 7, Priority: 1}}},
			{never: true},
			{err: missing},
		}}
		s, err := NewSource(Config{Name: "web.test", Resolver: a,
			Zone: func(host string) string { return host[4:5] }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var views []cluster.View
		done := make(chan error)
		go func() {
			done <- s.Watch(ctx, func(v cluster.View) { views = append(views, v) }, func(error) {})
		}()
		<-time.After(5 * time.Minute)
		cancel()
		if err := <-done; err != context.Canceled {
			t.Error(err)
		}
		if len(views) != 4 {
			t.Fatalf("%d views: %+v", len(views), views)
		}
		if v := views[0]; !errors.Is(v.Err, cluster.ErrUnavailable) || len(v.Entries) != 0 {
			t.Errorf("at first %+v", v)
		}
		for i, failed := range []bool{false, true} {
			v := views[1+i]
			if len(v.Entries) != 2 || (v.Err != nil) != failed {
				t.Fatalf("view %d is %+v", 1+i, v)
			}
			if e := v.Entries[1]; e.Addr != "web-1.web.test:7" || e.Number != 2 || e.Zone != "1" {
				t.Errorf("%+v", e)
			}
		}
		if v := views[3]; v.Err != nil || len(v.Entries) != 0 {
			t.Errorf("without the name: %+v", v)
		}
	})
}

// TestOrdinal: pods of StatefulSets have numbers, machines named by their addresses have none.
func TestOrdinal(t *testing.T) {
	for host, want := range map[string]int{
		"web-0.web.ns.svc.cluster.local.": 1, "web-12": 13, "v2-1-3.x.": 4, "web.example.": 0,
		"ip-10-0-0-1.ec2.internal.": 0, "web-007.": 0,
	} {
		if got := ordinal(host); got != want {
			t.Errorf("%s: number %d, want %d", host, got, want)
		}
	}
}
