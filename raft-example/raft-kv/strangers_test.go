package main

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// madeUpTerm is the least of what strangers send: no real term comes near.
const madeUpTerm = 1000

// stranger is a client that passes for a member.
type stranger struct {
	r     *rand.Rand
	terms map[uint64]report // what it knows of the cluster, by replica
}

// header is that of a message: of a member or a made-up one, to a replica, with any verdict.
func (s *stranger) header(from, to uint64) []byte {
	verdicts := []uint64{0, 0, 0, 1, 2, 3, 4, 5, 6, 7, s.r.Uint64()}
	logs := []uint64{0, 1, s.r.Uint64()}
	b := binary.LittleEndian.AppendUint64(nil, verdicts[s.r.IntN(len(verdicts))])
	for _, v := range []uint64{5, from, to, logs[s.r.IntN(len(logs))]} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// message is one of Raft's, of a type that replicas send each other, or a piece of a snapshot.
func (s *stranger) message(from, to uint64) (typ uint8, b []byte) {
	term, index := uint64(madeUpTerm+s.r.IntN(9)), s.terms[to].Last
	types := []pb.MessageType{pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote,
		pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow}
	m := &pb.Message{Type: types[s.r.IntN(len(types))].Enum(), To: &to, From: &from, Term: &term,
		Index: &index, LogTerm: new(s.terms[to].Term), Commit: &index}
	b = s.header(from, to)
	if m.GetType() == pb.MsgApp {
		c := kv.Command{Op: kv.Open, Cluster: 5}
		m.Entries = []*pb.Entry{{Type: pb.EntryNormal.Enum(), Index: new(index + 1), Term: &term,
			Data: c.Append(nil)}}
		m.Commit = new(index + 1)
	}
	if s.r.IntN(4) > 0 {
		return node.TypeRaft, replica.AppendMessage(b, m)
	}
	m.Type, m.Entries = pb.MsgSnap.Enum(), nil
	m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(index + 99), Term: &term,
		ConfState: &pb.ConfState{Voters: []uint64{from, to}}}}
	head, _ := proto.Marshal(m)
	data := []byte("no snapshot")
	for _, v := range []uint64{s.r.Uint64(), uint64(len(data)), 0, uint64(len(head))} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return node.TypeSnap, append(append(b, head...), data...)
}

// request is any request to a replica.
func (s *stranger) request(to uint64) (typ uint8, b []byte) {
	from := []uint64{1, 2, 3, 4, 9, s.r.Uint64()}[s.r.IntN(6)]
	switch s.r.IntN(4) {
	case 0: // every type, any bytes
		b = make([]byte, s.r.IntN(200))
		for i := range b {
			b[i] = byte(s.r.Uint32())
		}
		return uint8(s.r.IntN(12)), b
	case 1: // 40 bytes
		return []uint8{node.TypeRaft, node.TypeSnap}[s.r.IntN(2)], s.header(from, to)
	}
	return s.message(from, to)
}

// attack sends a replica so many requests, and does not care for the answers. It returns how many
// there were. The error says that it hears nothing any more.
func (s *stranger) attack(ctx context.Context, inside func(func() error) error, net *netFlags,
	at report, n int) (answered int, err error) {
	var tr transport.Transport
	if err := inside(func() (err error) { tr, err = net.listen(""); return err }); err != nil {
		return 0, err
	}
	cfg := erpc.Config{NoHugepages: true}
	net.Apply(&cfg)
	c, err := erpc.Dial(ctx, tr, at.Addr, cfg)
	if err != nil {
		return 0, fmt.Errorf("replica %d: %w", at.ID, err)
	}
	defer c.Close()
	for ; answered < n; answered++ {
		typ, b := s.request(at.ID)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := c.Call(short, typ, b)
		if cancel(); errors.Is(err, context.DeadlineExceeded) {
			return answered, fmt.Errorf("replica %d, request %d: %w", at.ID, answered, err)
		}
	}
	return n, nil
}

// startFleet starts replicas until the test ends, and returns a client.
func startFleet(t *testing.T, f *fleet, cf *clientFlags) *client.Blocking {
	t.Helper()
	if err := f.startAll(); err != nil {
		t.Fatal(err)
	}
	cf.Servers = strings.Join(f.addrs(), ",")
	c, err := cf.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for _, m := range f.children {
			m.stop()
		}
	})
	return c
}

// withstand starts three replicas, durable ones if asked for, and has strangers attack them: nobody
// ends, no term changes, and nothing of theirs is applied.
func withstand(t *testing.T, f *fleet, net netFlags) {
	t.Helper()
	ctx := testContext(t)
	cf := clientFlags{netFlags: net, Timeout: 60 * time.Second}
	c := startFleet(t, f, &cf)
	value := func(text string) {
		t.Helper()
		if err := c.Put(ctx, "k", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	value("before")
	list, err := statuses(ctx, c, f.addrs())
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &stranger{rand.New(rand.NewPCG(seed, 45)), map[uint64]report{}}
	for _, r := range list {
		s.terms[r.ID] = r
	}
	for _, r := range list {
		if _, err := s.attack(ctx, func(f func() error) error { return f() }, &net, r, 500); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range f.children {
		select {
		case <-m.ended:
			t.Fatalf("replica %d has ended: %s", m.id, m.text())
		default:
		}
	}
	value("after")
	if list, err = statuses(ctx, c, f.addrs()); err != nil {
		t.Fatal(err)
	}
	for i, r := range list {
		if r.ID == 0 || r.Err != "" || r.Term >= madeUpTerm || len(r.Members) != 3 || r.Sessions > 1 {
			t.Errorf("%+v\n%s", r, f.children[i].text())
		}
	}
	if v, _, err := c.Get(ctx, "k"); err != nil || string(v) != "after" {
		t.Errorf("%q, %v", v, err)
	}
}

// writeFile makes a file in a new folder.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// certified returns the flags of a certificate with this SPIFFE ID.
func certified(t *testing.T, ca *sectest.CA, id string) secure.Flags {
	t.Helper()
	cert := ca.Issue("127.0.0.1", id, time.Now().AddDate(1, 0, 0))
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(kind string, der []byte) string {
		return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	return secure.Flags{TLSCert: file("CERTIFICATE", cert.Certificate[0]),
		TLSKey: file("PRIVATE KEY", key), TLSCA: writeFile(t, ca.PEM())}
}

// TestStrangersWithKeys: clients with a certificate or key of their own speak for no member, nor do
// admins; and a member that others would take for a client does not start.
func TestStrangersWithKeys(t *testing.T) {
	ca := sectest.NewCA("ours")
	for name, c := range map[string]struct {
		member, client secure.Flags
		roles          roleFlags
	}{
		"TLS": {certified(t, ca, "spiffe://store/member/1"), certified(t, ca, "spiffe://store/reader/1"),
			roleFlags{PeerName: []string{"spiffe://store/member/*"}}},
		"PSK": {keyed(t, clientsKey), keyed(t, clientsKey),
			roleFlags{PeerPSKFile: writeFile(t, membersKey)}},
		"admin with TLS": {certified(t, ca, "spiffe://store/member/1"),
			certified(t, ca, "spiffe://store/admin/1"),
			roleFlags{PeerName: []string{"spiffe://store/member/*"},
				AdminName: []string{"spiffe://store/admin/*"}}},
		"admin with PSK": {keyed(t, clientsKey), keyed(t, adminsKey),
			roleFlags{PeerPSKFile: writeFile(t, membersKey), AdminPSKFile: writeFile(t, adminsKey)}},
	} {
		t.Run(name, func(t *testing.T) {
			addrs, err := freeAddrs(3)
			if err != nil {
				t.Fatal(err)
			}
			f, err := newFleet(netFlags{Transport: "udp", Cluster: 5, Flags: c.member}, 3, "", testTick,
				addrs)
			if err != nil {
				t.Fatal(err)
			}
			f.roles = c.roles
			withstand(t, f, netFlags{Transport: "udp", Cluster: 5, Flags: c.client})
		})
	}
	wrong := certified(t, ca, "spiffe://store/reader/1")
	status, _, errOut := runCommand(t, append([]string{"server", "--id=1", "--join",
		"--addr=127.0.0.1:0", "--peer-name=spiffe://store/member/*"}, wrong.Args()...)...)
	if status != cli.Usage || !strings.Contains(errOut, "would refuse this one") {
		t.Errorf("a member with a client's certificate: %d, %s", status, errOut)
	}
}

// TestStrangers: clients that pass for members end nobody and change nothing, with plain packets.
func TestStrangers(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		addrs, err := freeAddrs(3)
		if err != nil {
			t.Fatal(err)
		}
		net := netFlags{Transport: "udp", Cluster: 5}
		f, err := newFleet(net, 3, dir, testTick, addrs)
		if err != nil {
			t.Fatal(err)
		}
		withstand(t, f, net)
	}
}

// TestOverToRoles: a cluster with one key goes over to one of its members' and one of its admins',
// one replica after the other, in the three rounds of raft-kv server --help. Clients keep the old
// key, and are no admins in the end.
func TestOverToRoles(t *testing.T) {
	o := operateWith(t, 3, t.TempDir(), keyed(t, clientsKey), roleFlags{})
	ctx := testContext(t)
	c, err := o.cf.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o.want(fmt.Sprint("member lead ", o.leader()), cli.Done, "already")
	for i, round := range []struct{ keys, members, admins string }{
		{clientsKey + membersKey, "", ""}, {clientsKey, membersKey + clientsKey, adminsKey},
		{clientsKey, membersKey, adminsKey},
	} {
		o.f.net.PSKFile, o.f.roles = writeFile(t, round.keys), roleFlags{}
		if round.members != "" {
			o.f.roles.PeerPSKFile = writeFile(t, round.members)
			o.f.roles.AdminPSKFile = writeFile(t, round.admins)
		}
		for _, m := range o.f.children {
			m.stop()
			if err := o.f.start(m); err != nil {
				t.Fatal(err)
			}
			if err := c.Put(ctx, fmt.Sprint("key ", i), []byte("v")); err != nil {
				t.Fatalf("%+v, replica %d: %v", round, m.id, err)
			}
			awaitApplied(t, ctx, c, o.f.addrs())
		}
	}
	lead := fmt.Sprint("member lead ", o.leader())
	o.want(lead, cli.Failed, "this client is no admin")
	o.as(keyed(t, adminsKey)).want(lead, cli.Done, "already")
	for _, m := range o.f.children {
		m.stop()
		for text, want := range map[string]int{"is one of --psk-file, too": 1,
			"admin commands are taken from any client": 2, "members are known by their addresses": 2} {
			if got := strings.Count(m.text(), text); got != want {
				t.Errorf("replica %d says %d times %q, want %d: %s", m.id, got, text, want, m.text())
			}
		}
	}
}

// awaitApplied waits until all replicas have applied as much as the leader: each hears of it.
func awaitApplied(t *testing.T, ctx context.Context, c *client.Blocking, addrs []string) {
	t.Helper()
	for {
		list, err := statuses(ctx, c, addrs)
		same := err == nil
		for _, s := range list {
			same = same && s.ID != 0 && s.Applied == list[0].Applied && s.Leader == list[0].Leader &&
				s.Leader != 0
		}
		if same {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%+v", list)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
