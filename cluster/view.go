package cluster

import (
	"context"
	"slices"
	"strings"
)

// View has the entries of a service that a source knows. Nobody changes it: views may share memory.
type View struct {
	// Entries are in the order of their addresses, each of which is there once.
	Entries []Entry
	// Revision is that of etcd, or of Kubernetes' list; 0 for others.
	Revision int64
	// Err is why the source cannot be asked now; nil if it can. The entries are the last ones then.
	Err error
}

// Source yields views. Its methods are safe from any goroutine.
type Source interface {
	// Watch calls update with each view, one at a time, until ctx ends, whose error it returns. The
	// first one comes as soon as the source has answered, or failed to. It goes on over a source's
	// absence: update gets the last entries again, with the error, when that begins and when it
	// ends. Other errors are lasting ones, as a service's name that is none. Problems of single
	// entries go to problem.
	Watch(ctx context.Context, update func(View), problem func(error)) error
}

// NewView makes a view of entries in any order. Of those with one address the first one counts.
func NewView(entries []Entry, revision int64, err error) View {
	list := slices.Clone(entries)
	slices.SortStableFunc(list, func(a, b Entry) int { return strings.Compare(a.Addr, b.Addr) })
	list = slices.CompactFunc(list, func(a, b Entry) bool { return a.Addr == b.Addr })
	return View{Entries: list, Revision: revision, Err: err}
}
