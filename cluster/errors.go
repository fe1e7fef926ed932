package cluster

import "errors"

// The errors of entries, registrations and sources; use errors.Is.
var (
	// ErrEntry means that a value is no entry, or one that its key does not fit.
	ErrEntry = errors.New("malformed entry")
	// ErrEntryVersion means that an entry has a form that this version cannot read.
	ErrEntryVersion = errors.New("entry of another version")
	// ErrOtherCluster means that an entry is of another cluster than Config.Cluster.
	ErrOtherCluster = errors.New("entry of another cluster")
	// ErrIdentity means that a server is not who its entry says, or one that Config.Trusts does not
	// take.
	ErrIdentity = errors.New("not the identity of a server")
	// ErrAddressTaken means that another server is registered at the address.
	ErrAddressTaken = errors.New("another server is registered at this address")
	// ErrReplaced means that a later process of the same name has taken the entry.
	ErrReplaced = errors.New("the registration was replaced")
	// ErrLapsed means that the process was stopped past its lease and has not registered anew.
	ErrLapsed = errors.New("the registration has lapsed")
	// ErrWrongEtcd means that etcd is not the one that was asked for.
	ErrWrongEtcd = errors.New("another etcd cluster")
	// ErrAuth means that a source wants authentication, or refuses this one.
	ErrAuth = errors.New("not authorized")
	// ErrTLS means that a source and its client do not agree on TLS.
	ErrTLS = errors.New("no agreement on TLS")
	// ErrUnavailable means that a source does not answer.
	ErrUnavailable = errors.New("the source of names does not answer")
	// ErrNoServers means that no view has had a server yet.
	ErrNoServers = errors.New("no servers are known")
	// ErrClosed means that the Resolver or the registration is closed.
	ErrClosed = errors.New("closed")
)
