package etcd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// Config says which service a Registration or a Source is of.
type Config struct {
	// Service is the name of the service. It may have slashes, not at its ends.
	Service string
	// Cluster is the id that entries carry. A Source passes over entries of others; empty takes all.
	Cluster string
	// EtcdID is the cluster id of the etcd that is meant, as etcdctl endpoint status shows it. 0 takes
	// any.
	EtcdID uint64
	// TTL is the lease's time to live, in whole seconds. Default 10 s. etcd may make it longer.
	TTL time.Duration
	// Drift is by how much the clocks of etcd's machines may run faster than this one's over a TTL.
	// Default TTL/10.
	Drift time.Duration
	// Probe is how often a Source asks etcd whether it is there while nothing changes. Default 10 s.
	Probe time.Duration
	// Unnumbered registers a server without a number. Otherwise one whose entry has none takes the
	// lowest one that is free in its zone.
	Unnumbered bool
	// OnProblem is told of what keeps a Registration from etcd. It must not block. nil: nobody is.
	OnProblem func(error)
}

const (
	servers = "erpc/v1/servers/"
	numbers = "erpc/v1/numbers/"
	clients = "erpc/v1/clients/"
)

// check fills in defaults. Errors: a *erpc.ConfigError.
func (c *Config) check() error {
	switch {
	case c.Service == "" || strings.Trim(c.Service, "/") != c.Service:
		return &erpc.ConfigError{Field: "Service",
			Reason: fmt.Sprintf("%q is no name of a service", c.Service)}
	case c.TTL < 0 || c.TTL%time.Second != 0:
		return &erpc.ConfigError{Field: "TTL", Reason: "is not in whole seconds"}
	case c.Drift < 0 || c.Probe < 0:
		return &erpc.ConfigError{Field: "Drift, Probe", Reason: "are negative"}
	}
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Drift == 0 {
		c.Drift = c.TTL / 10
	}
	if c.Probe == 0 {
		c.Probe = 10 * time.Second
	}
	if c.Drift >= c.TTL {
		return &erpc.ConfigError{Field: "Drift", Reason: "leaves nothing of TTL"}
	}
	if c.OnProblem == nil {
		c.OnProblem = func(error) {}
	}
	return nil
}

// prefixes are where entries of the service stand.
func (c *Config) prefixes() [2]string {
	return [2]string{c.Service + "/", servers + c.Service + "/"}
}

// keysOf returns where an entry stands, and then where another one of its address may. The layout
// of etcd's naming is for servers which gRPC clients can call at the address.
func (c *Config) keysOf(e *cluster.Entry) []string {
	prefix := c.prefixes()
	keys := []string{prefix[1] + e.Addr, prefix[0] + e.Addr}
	if e.At(cluster.GRPC) == e.Addr {
		slices.Reverse(keys)
	}
	return keys
}

// numberKey returns where the claim of a number stands.
func (c *Config) numberKey(zone string, n int) string {
	return fmt.Sprintf("%s%s/%s/%d", numbers, c.Service, zone, n)
}
