package ecosystem

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
)

// etcdClient has etcd's services by one way.
type etcdClient struct {
	clientv3.KV
	clientv3.Watcher
	clientv3.Lease
	v3lockpb.LockClient
}

// serveEtcd serves the services of an etcd over grpcerpc, and returns the address.
func serveEtcd(t testing.TB, e *embed.Etcd, c *clientv3.Client) string {
	return serveAll(t, func(s grpc.ServiceRegistrar) {
		etcdserverpb.RegisterKVServer(s, v3rpc.NewQuotaKVServer(e.Server))
		etcdserverpb.RegisterWatchServer(s, v3rpc.NewWatchServer(e.Server))
		etcdserverpb.RegisterLeaseServer(s, v3rpc.NewQuotaLeaseServer(e.Server))
		v3lockpb.RegisterLockServer(s, v3lock.NewLockServer(c))
	}, grpcerpc.MaxRecvMsgSize(2<<20))
}

// etcdOver returns a client of what serveEtcd serves. The options of calls are those of c. Event
// loops are those of all clients that it returns.
func etcdOver(t testing.TB, addr string, c *clientv3.Client) etcdClient {
	cc, err := grpcerpc.NewClient("passthrough:///" + addr) // which has no shared memory
	if err != nil {
		t.Fatal(err)
	}
	all := etcdClient{
		clientv3.NewKVFromKVClient(etcdserverpb.NewKVClient(cc), c),
		clientv3.NewWatchFromWatchClient(etcdserverpb.NewWatchClient(cc), c),
		clientv3.NewLeaseFromLeaseClient(etcdserverpb.NewLeaseClient(cc), c, time.Minute),
		v3lockpb.NewLockClient(cc),
	}
	t.Cleanup(func() { _ = errors.Join(all.Watcher.Close(), all.Lease.Close(), cc.Close()) })
	return all
}

// TestEtcdServices: clients of etcd learn the same over grpcerpc as over TCP, of keys, watches,
// leases that they keep alive, and locks.
func TestEtcdServices(t *testing.T) {
	e, c := etcd(t)
	tcp := etcdClient{c.KV, c.Watcher, c.Lease, v3lockpb.NewLockClient(c.ActiveConnection())}
	here := etcdOver(t, serveEtcd(t, e, c), c)
	for name, steps := range map[string]func(context.Context, *script){
		"keys": keys, "faults": faults, "transactions": transactions, "watches": watches,
		"leases": leases, "keepalives": keepalives, "locks": locks,
	} {
		t.Run(name, func(t *testing.T) {
			over := func(way string, by etcdClient) string {
				s := &script{T: t, etcdClient: by, at: fmt.Sprintf("%-13s %s/", name, way)}
				steps(within(t), s)
				return s.said.String()
			}
			want, got := strings.Split(over("tcp", tcp), "\n"), strings.Split(over("udp", here), "\n")
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] || len(want) < 3 {
					t.Fatalf("over grpcerpc %.500q\nover TCP %.500q", got[i:], want[i:])
				}
			}
		})
	}
}

// script notes what a client is told, without what differs from one run to the next.
type script struct {
	*testing.T
	etcdClient
	at   string // prefix of its keys, of 18 bytes: base64 has the same text for it everywhere
	said strings.Builder
}

// varies are numbers of an etcd's state, and of members and leases.
var varies = regexp.MustCompile(`([Rr]evision|ID|id|Id|[Tt]erm|[Ll]ease)\\?"?:"?[0-9-]+`)

// note notes an answer.
func (s *script) note(what string, answer any, err error) {
	text := []byte("none")
	if err == nil {
		if text, err = json.Marshal(answer); err != nil {
			s.Fatal(err)
		}
	}
	at := base64.StdEncoding.EncodeToString([]byte(s.at)) // with which all keys begin
	line := strings.ReplaceAll(fmt.Sprintf("%s: %s %v", what, text, err), at, "")
	s.said.WriteString(varies.ReplaceAllString(line, "$1") + "\n")
}

func keys(ctx context.Context, s *script) {
	for _, k := range []string{"a", "b", "c", "a"} {
		r, err := s.Put(ctx, s.at+k, strings.Repeat(k, 300), clientv3.WithPrevKV())
		s.note("put "+k, r, err)
	}
	for i, opts := range [][]clientv3.OpOption{
		{clientv3.WithPrefix()},
		{clientv3.WithPrefix(), clientv3.WithLimit(2)},
		{clientv3.WithPrefix(), clientv3.WithCountOnly()},
		{clientv3.WithPrefix(), clientv3.WithKeysOnly()},
		{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByVersion, clientv3.SortDescend)},
		{clientv3.WithPrefix(), clientv3.WithSerializable()},
		{clientv3.WithFromKey(), clientv3.WithRange(s.at + "b")},
	} {
		r, err := s.Get(ctx, s.at, opts...)
		s.note(fmt.Sprint("get ", i), r, err)
	}
	d, err := s.Delete(ctx, s.at, clientv3.WithPrefix(), clientv3.WithPrevKV())
	s.note("delete", d, err)
	g, err := s.Get(ctx, s.at+"a")
	s.note("gone", g, err)
}

func faults(ctx context.Context, s *script) {
	_, err := s.Put(ctx, "", "x")
	s.note("no key", nil, err)
	_, err = s.Put(ctx, s.at, strings.Repeat("x", 1600<<10))
	s.note("too large", nil, err)
	_, err = s.Put(ctx, s.at, "x", clientv3.WithLease(12345))
	s.note("no lease", nil, err)
	_, err = s.Get(ctx, s.at, clientv3.WithRev(1<<40))
	s.note("in the future", nil, err)
	_, err = s.Compact(ctx, 1<<40)
	s.note("compacted in the future", nil, err)
	twice := clientv3.OpPut(s.at, "x")
	_, err = s.Txn(ctx).Then(twice, twice).Commit()
	s.note("a key twice", nil, err)
	_, err = s.Txn(ctx).Then(slices.Repeat([]clientv3.Op{clientv3.OpGet(s.at)}, 129)...).Commit()
	s.note("too many", nil, err)
	past, cancel := context.WithDeadline(ctx, time.Now())
	defer cancel()
	_, err = s.Get(past, s.at)
	s.note("too late", nil, err)
	old, err := s.Put(ctx, s.at+"old", "x")
	if err != nil {
		s.Fatal(err)
	}
	now, err := s.Put(ctx, s.at+"old", "y")
	if err != nil {
		s.Fatal(err)
	}
	if _, err = s.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		s.Fatal(err)
	}
	_, err = s.Get(ctx, s.at+"old", clientv3.WithRev(old.Header.Revision))
	s.note("compacted", nil, err)
	w := <-s.Watch(ctx, s.at, clientv3.WithRev(old.Header.Revision))
	s.note(fmt.Sprint("a watch of that ", w.Canceled, w.CompactRevision > 0), nil, w.Err())
}

func transactions(ctx context.Context, s *script) {
	put, get := clientv3.OpPut(s.at+"x", "1"), clientv3.OpGet(s.at+"x")
	missing := clientv3.Compare(clientv3.CreateRevision(s.at+"x"), "=", 0)
	for range 2 {
		r, err := s.Txn(ctx).If(missing).Then(put).Else(get).Commit()
		s.note("txn", r, err)
	}
	inner := clientv3.OpTxn([]clientv3.Cmp{missing}, nil, []clientv3.Op{get, clientv3.OpDelete(s.at)})
	r, err := s.Txn(ctx).If(clientv3.Compare(clientv3.Value(s.at+"x"), "=", "1")).Then(inner).Commit()
	s.note("txn in txn", r, err)
}

// next notes what a watch tells next.
func (s *script) next(ctx context.Context, what string, w clientv3.WatchChan) {
	select {
	case r, ok := <-w:
		s.note(fmt.Sprint(what, " ", ok, r.Canceled, r.IsProgressNotify()), r.Events, r.Err())
	case <-ctx.Done():
		s.Fatal(what, ctx.Err())
	}
}

func watches(ctx context.Context, s *script) {
	first, err := s.Put(ctx, s.at+"a", "1")
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	of := func(opts ...clientv3.OpOption) clientv3.WatchChan {
		return s.Watch(ctx, s.at, append(opts, clientv3.WithPrefix(),
			clientv3.WithRev(first.Header.Revision))...)
	}
	all, deleted := of(clientv3.WithPrevKV()), of(clientv3.WithFilterPut())
	s.next(ctx, "of before", all)
	_, err = s.Txn(ctx).Then(clientv3.OpPut(s.at+"b", "2"), clientv3.OpDelete(s.at+"a")).Commit()
	s.note("txn", nil, err)
	s.next(ctx, "all of a txn", all)
	s.next(ctx, "what is deleted", deleted)
	var large []clientv3.Op
	for i := range 8 { // more than a message of the watch may have
		large = append(large, clientv3.OpPut(fmt.Sprint(s.at, i), strings.Repeat("x", 150<<10)))
	}
	late := of(clientv3.WithFragment())
	for range 2 {
		_, err = s.Txn(ctx).Then(large...).Commit()
		s.note("large", nil, err)
		s.next(ctx, "large", all)
	}
	var events int
	for events < 3+2*len(large) {
		events += len((<-late).Events)
	}
	s.note(fmt.Sprint("in fragments ", events), nil, nil)
	s.note("asked for progress", nil, s.RequestProgress(ctx))
	cancel()
	for range all { // until it is closed
	}
	for range deleted {
	}
}

func leases(ctx context.Context, s *script) {
	granted, err := s.Grant(ctx, 100)
	s.note("grant", granted, err)
	_, err = s.Put(ctx, s.at+"leased", "x", clientv3.WithLease(granted.ID))
	s.note("put", nil, err)
	left, err := s.TimeToLive(ctx, granted.ID, clientv3.WithAttachedKeys())
	s.note(fmt.Sprint("left ", left.TTL > 90, left.GrantedTTL), left.Keys, err)
	_, err = s.Revoke(ctx, granted.ID)
	s.note("revoke", nil, err)
	g, err := s.Get(ctx, s.at+"leased")
	s.note("gone", g, err)
	_, err = s.Revoke(ctx, granted.ID)
	s.note("revoke again", nil, err)
	left, err = s.TimeToLive(ctx, granted.ID)
	s.note("nothing left", left, err)
	_, err = s.Grant(ctx, 1<<40)
	s.note("too long", nil, err)
}

func keepalives(ctx context.Context, s *script) {
	_, err := s.KeepAliveOnce(ctx, 12345)
	s.note("no lease", nil, err)
	granted, err := s.Grant(ctx, 2)
	if err != nil {
		s.Fatal(err)
	}
	once, err := s.KeepAliveOnce(ctx, granted.ID)
	s.note("once", once, err)
	kept, err := s.KeepAlive(ctx, granted.ID)
	s.note("kept", nil, err)
	for range 3 { // a third of its time apart: the lease has ended without them
		s.note("alive", <-kept, nil)
	}
	_, err = s.Revoke(ctx, granted.ID)
	s.note("revoke", nil, err)
	for range kept { // until it is closed
	}
}

func locks(ctx context.Context, s *script) {
	name := []byte(s.at + "lock")
	var all []clientv3.LeaseID
	for range 3 {
		granted, err := s.Grant(ctx, 100)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, granted.ID)
	}
	first, err := s.Lock(ctx, &v3lockpb.LockRequest{Name: name, Lease: int64(all[0])})
	if err != nil {
		s.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = s.Lock(short, &v3lockpb.LockRequest{Name: name, Lease: int64(all[2])})
	s.note("locked "+status.Code(err).String(), nil, nil)
	// etcd forgets who gives up while it waits; its key stays if that was a moment before.
	_, err = s.Revoke(ctx, all[2])
	s.note("give up", nil, err)
	s.until(ctx, name, 1)
	second := make(chan error, 1)
	go func() {
		_, err := s.Lock(ctx, &v3lockpb.LockRequest{Name: name, Lease: int64(all[1])})
		second <- err
	}()
	s.until(ctx, name, 2) // it waits
	_, err = s.Unlock(ctx, &v3lockpb.UnlockRequest{Key: first.Key})
	s.note("unlock", nil, err)
	s.note("the second", nil, <-second)
	_, err = s.Revoke(ctx, all[1])
	s.note("revoke", nil, err)
	_, err = s.Lock(ctx, &v3lockpb.LockRequest{Name: name, Lease: int64(all[1])})
	s.note("with a lease that is gone", nil, err)
}

// until returns when so many hold or wait for a lock.
func (s *script) until(ctx context.Context, name []byte, n int64) {
	for count := int64(-1); count != n; {
		r, err := s.Get(ctx, string(name)+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			s.Fatal(err)
		}
		count = r.Count
	}
}
