package dns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// Config says what is asked.
type Config struct {
	// Service and Proto are the first labels of the name, without underscores. Defaults erpc and udp.
	Service, Proto string
	// Name is the domain, as web.default.svc.cluster.local.
	Name string
	// Every is the time between two questions, as package net does not tell how long an answer lasts.
	// Default 30 s, or 1 s after one that failed.
	Every time.Duration
	// Zone returns the zone of a host. nil: servers have none.
	Zone func(host string) string
	// Resolver asks. nil means net.DefaultResolver.
	Resolver interface {
		LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
	}
}

// Source is a cluster.Source. Its entries are the targets of the lowest priority; weights do not
// count. The number of one is that of a StatefulSet's pod, if its host begins as theirs do.
type Source struct{ cfg Config }

// NewSource returns a Source. Errors: a *erpc.ConfigError.
func NewSource(c Config) (*Source, error) {
	switch {
	case c.Name == "":
		return nil, &erpc.ConfigError{Field: "Name", Reason: "is missing"}
	case c.Every < 0:
		return nil, &erpc.ConfigError{Field: "Every", Reason: "is negative"}
	}
	if c.Service == "" {
		c.Service = "erpc"
	}
	if c.Proto == "" {
		c.Proto = "udp"
	}
	if c.Every == 0 {
		c.Every = 30 * time.Second
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	return &Source{c}, nil
}

// Watch is that of cluster.Source.
func (s *Source) Watch(
	ctx context.Context, update func(cluster.View), problem func(error),
) error {
	var last cluster.View
	asked := false
	for {
		v, err := s.ask(ctx, problem)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := s.cfg.Every
		if err != nil {
			wait = min(wait, time.Second)
			v = cluster.View{Entries: last.Entries, Err: err}
		}
		if !asked || !same(v, last) {
			update(v)
		}
		asked, last = true, v
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// patience is how long an answer may take: package net asks several servers, several times each.
const patience = 30 * time.Second

// ask asks once. A name that is not there has no servers.
func (s *Source) ask(ctx context.Context, problem func(error)) (cluster.View, error) {
	c := &s.cfg
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, records, err := c.Resolver.LookupSRV(ctx, c.Service, c.Proto, c.Name)
	var missing *net.DNSError
	switch {
	case errors.As(err, &missing) && missing.IsNotFound:
	case err != nil && len(records) == 0:
		return cluster.View{}, fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	case err != nil:
		problem(fmt.Errorf("dns: %w: %w", cluster.ErrEntry, err)) // some of the targets are no names
	}
	var list []cluster.Entry
	lowest := uint16(math.MaxUint16)
	for _, r := range records {
		lowest = min(lowest, r.Priority)
	}
	for _, r := range records {
		if r.Priority > lowest {
			continue
		}
		host := strings.TrimSuffix(r.Target, ".")
		if host == "" || r.Port == 0 {
			continue // RFC 2782: "." says that the service is not there
		}
		e := cluster.Entry{Addr: net.JoinHostPort(host, strconv.Itoa(int(r.Port))),
			Number: ordinal(host)}
		if c.Zone != nil {
			e.Zone = c.Zone(host)
		}
		list = append(list, e)
	}
	return cluster.NewView(list, 0, nil), nil
}

var (
	pod = regexp.MustCompile(`^[^.]*-(0|[1-9][0-9]{0,6})(\.|$)`)
	// address is a name that clouds give machines, as ip-10-0-0-1.
	address = regexp.MustCompile(`^[^.]*-([0-9]{1,3}-){3}[0-9]{1,3}(\.|$)`)
)

// ordinal returns the number of a StatefulSet's pod from 1, or 0.
func ordinal(host string) int {
	m := pod.FindStringSubmatch(host)
	if m == nil || address.MatchString(host) {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // digits, and few
	return n + 1
}

// same reports whether two views say the same.
func same(a, b cluster.View) bool {
	if (a.Err == nil) != (b.Err == nil) || len(a.Entries) != len(b.Entries) {
		return false
	}
	for i := range a.Entries {
		x, y := &a.Entries[i], &b.Entries[i]
		if x.Addr != y.Addr || x.Zone != y.Zone || x.Number != y.Number {
			return false
		}
	}
	return true
}
