package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/etcd"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/udp"
)

const (
	service   = "demo"
	clusterID = "erpc-cluster"
	tName     = 1 // the request type that a server answers with its name
)

// configOf is the registration's and the source's.
func configOf(ttl time.Duration) etcd.Config {
	return etcd.Config{Service: service, Cluster: clusterID, TTL: ttl, Probe: time.Second}
}

func newClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(),
		DialTimeout: 2 * time.Second})
}

// nodeCmd is a server: a process of its own. It prints a line when it is registered, drains when
// its standard input ends, and then ends.
type nodeCmd struct {
	Etcd string `required:"" help:"The address of etcd."`
	Name string `required:"" help:"The server's name."`
	Zone string `required:"" help:"Its zone."`
	TTL  int    `default:"5" name:"ttl" help:"Seconds that its lease lasts."`
}

// ready tells the parent of a node that it is registered, and where.
type ready struct {
	Addr string `json:"addr"`
}

// Run implements the subcommand.
func (c *nodeCmd) Run(e *cli.Env) error {
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	client, err := newClient(c.Etcd)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return err
	}
	var reg *etcd.Registration
	registered := make(chan struct{}) // a handler waits for it: it guards by the registration
	err = server.Handle(tName, func(ctx context.Context, request []byte) ([]byte, error) {
		<-registered
		if err := reg.Serving(); err != nil {
			return nil, cluster.Refusal(err)
		}
		return []byte(c.Name), nil
	})
	if err != nil {
		return errors.Join(err, tr.Close())
	}
	addr := tr.LocalAddr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(tr) }()
	ctx, end := context.WithCancel(e.Ctx) // with the parent
	defer end()
	go func() { _, _ = io.Copy(io.Discard, e.In); end() }()
	reg, err = etcd.Register(ctx, client, configOf(time.Duration(c.TTL)*time.Second),
		cluster.Entry{Addr: addr, Name: c.Name, Zone: c.Zone})
	if err != nil {
		return err
	}
	close(registered)
	text, err := json.Marshal(ready{addr})
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(e.Out, string(text)); err != nil {
		return err
	}
	select {
	case err = <-served:
		return err
	case <-reg.Done():
		return reg.Err()
	case <-ctx.Done():
	}
	if err := in(2*time.Second, reg.Close); err != nil { // etcd is away: the lease ends
		fmt.Fprintln(e.Err, cli.OneLine(err))
	}
	return in(5*time.Second, server.Shutdown)
}

// in calls fn with a context that ends after d.
func in(d time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return fn(ctx)
}

// node is a server's process, as its parent has it.
type node struct {
	name, zone, addr string
	cmd              *exec.Cmd
	stdin            io.Closer
	state            string        // "up", "killed", "draining", "stopped"
	ended            chan struct{} // closed when the process is gone
}

// startNode starts a server, and waits until it is registered.
func startNode(etcdAddr, name, zone string, ttl int) (*node, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &node{name: name, zone: zone, state: "up", ended: make(chan struct{})}
	n.cmd = exec.Command(exe, "node", "--etcd", etcdAddr, "--name", name, "--zone", zone,
		"--ttl", fmt.Sprint(ttl))
	n.cmd.Stderr = os.Stderr
	cli.OwnGroup(n.cmd)
	if n.stdin, err = n.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = n.cmd.Start(); err != nil {
		return nil, err
	}
	var r ready
	if err = json.NewDecoder(out).Decode(&r); err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start: %w", name, err), n.stdin.Close(),
			n.cmd.Wait())
	}
	n.addr = r.Addr
	go func() { _ = n.cmd.Wait(); close(n.ended) }()
	return n, nil
}

// end ends the process: in peace, or at once.
func (n *node) end(kill bool) {
	_ = resume(n.cmd.Process) // one that stands cannot end
	_ = n.stdin.Close()
	if kill {
		_ = n.cmd.Process.Kill() // it may be gone
	}
	<-n.ended
}
