package clustertest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/userspace-rpc/erpc/cluster"
)

// startThree starts an etcd of three members.
func startThree(t *testing.T) (members []*node) {
	t.Helper()
	var peers []url.URL
	var names []string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		peers = append(peers, url.URL{Scheme: "http", Host: l.Addr().String()})
		names = append(names, fmt.Sprintf("m%d=%s", i, peers[i].String()))
		must(t, l.Close())
	}
	for i := range 3 {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprintf("m%d", i), t.TempDir()
		cfg.LogLevel, cfg.LogOutputs = "fatal", []string{"stderr"}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peers[i:i+1], peers[i:i+1]
		cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
		cfg.InitialCluster, cfg.UnsafeNoFsync = strings.Join(names, ","), true
		cfg.TickMs, cfg.ElectionMs = 50, 500
		e, err := embed.StartEtcd(cfg)
		must(t, err)
		m := &node{t: t, cfg: cfg, etcd: e, addr: e.Clients[0].Addr().String()}
		t.Cleanup(m.stop)
		members = append(members, m)
	}
	for _, m := range members {
		select {
		case <-m.etcd.Server.ReadyNotify():
		case <-within(t).Done():
			t.Fatal("etcd does not begin")
		}
	}
	return members
}

// TestMemberKilled: the leader of three members ends; no call fails, registrations are held, and
// servers that come are seen.
func TestMemberKilled(t *testing.T) {
	ctx := within(t)
	members := startThree(t)
	c := members[0].client(members[0].addr, members[1].addr, members[2].addr)
	first, names, p := pooled(t, c)
	for _, m := range members {
		if m.etcd.Server.Leader() == m.etcd.Server.MemberID() {
			m.stop()
			break
		}
	}
	second, _ := serve(t, "second")
	came := make(chan struct{})
	go func() {
		defer close(came)
		for ctx.Err() == nil { // until there is another leader
			r, err := tryRegister(ctx, c, second)
			if err == nil {
				t.Cleanup(func() { _ = r.Close(ctx) })
				return
			}
		}
	}()
	for seen := false; !seen; {
		_, err := p.Call(ctx, 1, nil)
		must(t, err)
		select {
		case <-came:
			seen = len(names.View().Entries) == 2
		default:
		}
	}
	begin := time.Now()
	for time.Since(begin) < config().TTL || !first.Held() { // the lease of before would be over
		_, err := p.Call(ctx, 1, nil)
		must(t, err)
	}
	has(t, names, "both", first.Entry().Addr, second)
}

// TestNoLeader: the watch of a member that has lost the two others fails.
func TestNoLeader(t *testing.T) {
	members := startThree(t)
	cfg := config()
	cfg.Probe = time.Hour
	names := resolve(t, members[0].client(), cfg, cluster.Config{})
	register(t, members[0].client(), config(), cluster.Entry{Addr: "10.0.0.1:1"})
	has(t, names, "the server", "10.0.0.1:1")
	members[1].stop()
	members[2].stop()
	until(t, names, "there is no leader", func(v cluster.View) bool {
		return errors.Is(v.Err, cluster.ErrUnavailable) && len(v.Entries) == 1
	})
}
