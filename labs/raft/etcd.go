package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// etcdMember is etcd's own server, with its defaults but for the addresses.
type etcdMember struct {
	client, peer string
	held         []net.Listener // the addresses, until the server listens itself
	etcd         *embed.Etcd
}

func newEtcd() (member, error) {
	m := &etcdMember{}
	for _, addr := range []*string{&m.client, &m.peer} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, m.release())
		}
		m.held = append(m.held, l)
		*addr = l.Addr().String()
	}
	return m, nil
}

// release gives the addresses back.
func (m *etcdMember) release() (err error) {
	for _, l := range m.held {
		err = errors.Join(err, l.Close())
	}
	m.held = nil
	return err
}

// addr is the client's address and the peers', with a space between.
func (m *etcdMember) addr() string { return m.client + " " + m.peer }

func clientAddr(addr string) string { a, _, _ := strings.Cut(addr, " "); return a }

func (m *etcdMember) start(ctx context.Context, st *start) error {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.UnsafeNoFsync = fmt.Sprint("m", st.ID), st.Dir, !st.Sync
	// At its end each listener is an error.
	cfg.LogLevel, cfg.LogOutputs = "panic", []string{"stderr"}
	var initial []string
	for id, addr := range st.Members {
		_, peer, _ := strings.Cut(addr, " ")
		initial = append(initial, fmt.Sprintf("m%d=http://%s", id, peer))
	}
	cfg.InitialCluster, cfg.InitialClusterToken = strings.Join(initial, ","), "bench"
	cfg.ClusterState = embed.ClusterStateFlagNew
	at := func(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = at(m.client), at(m.client)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = at(m.peer), at(m.peer)
	err := m.release()
	if err != nil {
		return err
	}
	if m.etcd, err = embed.StartEtcd(cfg); err != nil {
		return err
	}
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case err := <-m.etcd.Err():
		return err
	case <-time.After(time.Minute):
		return errors.New("etcd is not ready after a minute")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// figures reads etcd's own histogram of the fsyncs of its log.
func (m *etcdMember) figures() (f used) {
	all, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return f
	}
	for _, family := range all {
		if family.GetName() == "etcd_disk_wal_fsync_duration_seconds" && len(family.GetMetric()) > 0 {
			f.Fsync = medianOf(family.GetMetric()[0].GetHistogram())
		}
	}
	return f
}

// medianOf interpolates within the bucket that the median is in.
func medianOf(h *dto.Histogram) time.Duration {
	half, below, from := float64(h.GetSampleCount())/2, 0.0, 0.0
	for _, b := range h.GetBucket() {
		count, to := float64(b.GetCumulativeCount()), b.GetUpperBound()
		if count >= half && count > below {
			return time.Duration((from + (to-from)*(half-below)/(count-below)) * 1e9)
		}
		below, from = count, to
	}
	return 0
}

func (m *etcdMember) close() error {
	if m.etcd != nil {
		m.etcd.Close()
	}
	return m.release()
}

// dialEtcd returns callers over some connections. Reads are linearizable, etcd's default.
func dialEtcd(ctx context.Context, members map[uint64]string, endpoints, clients int) (
	callers []caller, stop func() error, err error,
) {
	var all []*clientv3.Client
	stop = func() (err error) {
		for _, c := range all {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	leader, err := etcdLeader(ctx, members)
	if err != nil {
		return nil, nil, err
	}
	for range endpoints {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{leader}, DialTimeout: 10 * time.Second,
			DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}})
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		all = append(all, c)
	}
	for i := range clients {
		c := all[i%endpoints]
		callers = append(callers, func(ctx context.Context, write bool, key string, value []byte) error {
			if write {
				_, err := c.Put(ctx, key, string(value))
				return err
			}
			r, err := c.Get(ctx, key)
			if err == nil && len(r.Kvs) != 1 {
				err = fmt.Errorf("%s: %d values", key, len(r.Kvs))
			}
			return err
		})
	}
	return callers, stop, nil
}

// etcdLeader waits for the cluster and returns the leader's address: the clients of the other
// systems talk to the leader, too.
func etcdLeader(ctx context.Context, members map[uint64]string) (addr string, err error) {
	var addrs []string
	for _, a := range members {
		addrs = append(addrs, clientAddr(a))
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: 30 * time.Second})
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for ctx.Err() == nil {
		for _, a := range addrs {
			short, cancel := context.WithTimeout(ctx, time.Second)
			st, err := c.Status(short, a)
			cancel()
			if err == nil && st.Leader != 0 && st.Leader == st.Header.MemberId {
				return a, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return "", fmt.Errorf("etcd has no leader: %w", ctx.Err())
}
