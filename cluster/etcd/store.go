package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// store is what this package asks of etcd: the tests have a model of it.
type store interface {
	// grant makes a lease. It returns the time to live that it has.
	grant(ctx context.Context, ttl time.Duration) (lease int64, got time.Duration, err error)
	// renew renews a lease. It returns errNoLease if etcd has none of that number.
	renew(ctx context.Context, lease int64) (ttl time.Duration, err error)
	// revoke ends a lease; its keys go.
	revoke(ctx context.Context, lease int64) error
	// get returns a key; one that is not there has revision 0.
	get(ctx context.Context, key string) (pair, header, error)
	// put writes pairs under a lease if each key still has its pair's revision: all, or none. A pair
	// with an empty value deletes its key. It reports whether it did.
	put(ctx context.Context, lease int64, pairs ...pair) (bool, header, error)
	// list returns all keys with a prefix.
	list(ctx context.Context, prefix string) ([]pair, header, error)
	// watch sends the changes to keys with a prefix from a revision on, until the context ends or a
	// batch has an error, which is the last one. errCompacted: the revision is not there any more.
	watch(ctx context.Context, prefix string, from int64) <-chan batch
}

// pair is a key with its value, and the revision of its last change.
type pair struct {
	key, value string
	revision   int64
}

// header tells which etcd has answered, and at which revision.
type header struct {
	id       uint64 // of the etcd cluster
	revision int64
}

// batch has changes of a prefix; deleted keys have revision 0.
type batch struct {
	changes  []pair
	revision int64 // the batch has all changes up to here
	err      error
}

var (
	errNoLease   = errors.New("the lease is gone")
	errCompacted = errors.New("the revision is compacted")
)

// real is a store by an etcd client.
type real struct{ c *clientv3.Client }

// cause adds to the error of a request that ran out of time why the client has no connection: it
// tries on by itself, and says nothing of that.
func (r real) cause(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	ctx, cancel := context.WithTimeout(r.c.Ctx(), 500*time.Millisecond)
	defer cancel()
	_, why := pb.NewMaintenanceClient(r.c.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if why == nil {
		return err
	}
	if strings.Contains(why.Error(), "server preface") && r.speaksTLS(ctx) {
		why = errors.New("tls: etcd speaks it, and its client does not")
	}
	return fmt.Errorf("%w: %w", err, why)
}

// speaksTLS reports whether an endpoint of the client speaks TLS. Nothing else is said to it.
func (r real) speaksTLS(ctx context.Context) bool {
	for _, at := range r.c.Endpoints() {
		if _, host, ok := strings.Cut(at, "://"); ok {
			at = host
		}
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		if conn, err := d.DialContext(ctx, "tcp", at); err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}

func (r real) grant(
	ctx context.Context, ttl time.Duration,
) (lease int64, got time.Duration, err error) {
	resp, err := r.c.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, r.cause(err)
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

func (r real) renew(ctx context.Context, lease int64) (time.Duration, error) {
	resp, err := r.c.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && resp.TTL <= 0 {
		return 0, errNoLease
	}
	if err != nil {
		return 0, r.cause(err)
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

func (r real) revoke(ctx context.Context, lease int64) error {
	_, err := r.c.Revoke(ctx, clientv3.LeaseID(lease))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

func (r real) get(ctx context.Context, key string) (p pair, h header, err error) {
	resp, err := r.c.Get(ctx, key)
	if err != nil {
		return p, h, r.cause(err)
	}
	p.key, h = key, header{resp.Header.ClusterId, resp.Header.Revision}
	for _, kv := range resp.Kvs {
		p.value, p.revision = string(kv.Value), kv.ModRevision
	}
	return p, h, nil
}

func (r real) put(ctx context.Context, lease int64, pairs ...pair) (bool, header, error) {
	var conditions []clientv3.Cmp
	var writes []clientv3.Op
	for _, p := range pairs {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(p.key), "=", p.revision))
		write := clientv3.OpPut(p.key, p.value, clientv3.WithLease(clientv3.LeaseID(lease)))
		if p.value == "" {
			write = clientv3.OpDelete(p.key)
		}
		writes = append(writes, write)
	}
	resp, err := r.c.Txn(ctx).If(conditions...).Then(writes...).Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return false, header{}, errNoLease
	case err != nil:
		return false, header{}, r.cause(err)
	}
	return resp.Succeeded, header{resp.Header.ClusterId, resp.Header.Revision}, nil
}

func (r real) list(ctx context.Context, prefix string) (list []pair, h header, err error) {
	resp, err := r.c.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, h, r.cause(err)
	}
	for _, kv := range resp.Kvs {
		list = append(list, pair{string(kv.Key), string(kv.Value), kv.ModRevision})
	}
	return list, header{resp.Header.ClusterId, resp.Header.Revision}, nil
}

// watch wants a leader: a member that is cut off from the others would be silent. The client's
// Watch waits for etcd, so it is not called here.
func (r real) watch(ctx context.Context, prefix string, from int64) <-chan batch {
	to := make(chan batch)
	go func() {
		defer close(to)
		for resp := range r.c.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(),
			clientv3.WithRev(from)) {
			b := batch{revision: resp.Header.Revision, err: resp.Err()}
			if resp.CompactRevision > 0 {
				b.err = errCompacted
			}
			for _, e := range resp.Events {
				p := pair{string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision}
				if e.Type == clientv3.EventTypeDelete {
					p.value, p.revision = "", 0
				}
				b.changes = append(b.changes, p)
			}
			select {
			case to <- b:
			case <-ctx.Done():
				return
			}
			if b.err != nil {
				return
			}
		}
	}()
	return to
}
