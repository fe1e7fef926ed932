package ecosystem

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
)

// etcdConns is how many connections BenchmarkEtcd has.
const etcdConns = 64

// BenchmarkEtcd: operations by 64 connections at once, each of them one at a time, over TCP and
// over UDP with grpcerpc, and by calls of its service itself, without any network: no transport is
// faster. The etcd does not sync its log.
func BenchmarkEtcd(b *testing.B) {
	e, c := etcd(b)
	addr := serveEtcd(b, e, c)
	tcp, udp := make([]clientv3.KV, etcdConns), make([]clientv3.KV, etcdConns)
	none := slices.Repeat([]clientv3.KV{clientv3.NewKVFromKVClient(
		inPlace{s: v3rpc.NewQuotaKVServer(e.Server)}, c)}, etcdConns)
	for i := range etcdConns {
		own, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = own.Close() })
		tcp[i], udp[i] = own.KV, etcdOver(b, addr, c).KV
	}
	value := strings.Repeat("x", 256)
	for _, op := range []struct {
		name string
		do   func(kv clientv3.KV, key string) error
	}{
		{"put", func(kv clientv3.KV, key string) error {
			_, err := kv.Put(context.Background(), key, value)
			return err
		}},
		{"get", func(kv clientv3.KV, key string) error {
			_, err := kv.Get(context.Background(), key)
			return err
		}},
		{"txn", func(kv clientv3.KV, key string) error {
			_, err := kv.Txn(context.Background()).If(clientv3.Compare(clientv3.Version(key), ">", 0)).
				Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
			return err
		}},
	} {
		b.Run(op.name+"/tcp", func(b *testing.B) { loadEtcd(b, tcp, op.do) })
		b.Run(op.name+"/udp", func(b *testing.B) { loadEtcd(b, udp, op.do) })
		b.Run(op.name+"/none", func(b *testing.B) { loadEtcd(b, none, op.do) })
	}
}

// inPlace is a client that calls a service as a function: the methods that loads use.
type inPlace struct {
	etcdserverpb.KVClient
	s etcdserverpb.KVServer
}

// Put implements etcdserverpb.KVClient, as the following methods do.
func (p inPlace) Put(ctx context.Context, in *etcdserverpb.PutRequest, _ ...grpc.CallOption) (
	*etcdserverpb.PutResponse, error) {
	return p.s.Put(ctx, in)
}

func (p inPlace) Range(ctx context.Context, in *etcdserverpb.RangeRequest, _ ...grpc.CallOption) (
	*etcdserverpb.RangeResponse, error) {
	return p.s.Range(ctx, in)
}

func (p inPlace) Txn(ctx context.Context, in *etcdserverpb.TxnRequest, _ ...grpc.CallOption) (
	*etcdserverpb.TxnResponse, error) {
	return p.s.Txn(ctx, in)
}

// loadEtcd has connections do b.N operations.
func loadEtcd(b *testing.B, all []clientv3.KV, do func(kv clientv3.KV, key string) error) {
	var begun atomic.Int64
	var work sync.WaitGroup
	for i, kv := range all {
		work.Go(func() {
			for key := fmt.Sprint("bench/", i); begun.Add(1) <= int64(b.N); {
				if err := do(kv, key); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
}
