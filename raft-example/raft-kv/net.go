package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// netFlags choose the network path.
type netFlags struct {
	Transport string `default:"udp" help:"Transport: udp, the default; shm on one machine; auto, shm to this machine and udp elsewhere." placeholder:"NAME"`
	Cluster   uint64 `default:"1" help:"The cluster's id: replicas and clients of others are refused; default ${default}." placeholder:"ID"`
	JSON      bool   `name:"json" help:"Print one JSON object."`
	secure.Flags
}

// listen opens an endpoint; addr "" is any. The files of keys are loaded first.
func (f *netFlags) listen(addr string) (transport.Transport, error) {
	if err := f.Load(); err != nil {
		return nil, err
	}
	if addr == "" && f.Transport != "shm" {
		addr = ":0"
	}
	switch f.Transport {
	case "udp":
		return udp.Listen(addr, udp.Config{})
	case "shm":
		return shm.Listen(strings.TrimPrefix(addr, "shm:"), shm.Config{})
	case "auto":
		return auto.Listen(addr, auto.Config{})
	}
	return nil, cli.Usagef("transport %q is unknown; there are udp, shm and auto", f.Transport)
}

// clientFlags are those of all that talk to a running cluster.
type clientFlags struct {
	netFlags
	Servers string        `default:"127.0.0.1:31850,127.0.0.1:31851,127.0.0.1:31852" help:"Addresses of replicas, with commas; default ${default}." placeholder:"LIST"`
	Timeout time.Duration `default:"5s" help:"How long to try; default ${default}." placeholder:"TIME"`

	Resolve  string `help:"A DNS name of all replicas, asked when no known one answers." placeholder:"NAME:PORT"`
	Remember string `help:"File that keeps the addresses of all members for the next time." placeholder:"PATH"`

	told     chan []string // the members, with --remember
	anywhere bool          // reads
}

// errRemembered is a file of --remember that is none.
var errRemembered = errors.New("not a list of addresses, one a line: " +
	"remove the file, or name another one")

func (f *clientFlags) dial() (*client.Blocking, error) {
	if f.Timeout <= 0 {
		return nil, cli.Usagef("--timeout %v: must be positive", f.Timeout)
	}
	servers, err := f.servers()
	if err != nil {
		return nil, err
	}
	cfg := client.Config{Cluster: f.netFlags.Cluster, Servers: servers, Anywhere: f.anywhere}
	if f.Resolve != "" {
		if cfg.Resolver, err = lookup(f.Resolve); err != nil {
			return nil, err
		}
	}
	if f.Remember != "" {
		known, err := remembered(f.Remember)
		if err != nil {
			return nil, err
		}
		cfg.Servers = append(known, cfg.Servers...)
		f.told = make(chan []string, 1)
		cfg.Members = func(addrs []string) {
			select {
			case f.told <- addrs:
			default: // the file is written once
			}
		}
	}
	tr, err := f.listen("")
	if err != nil {
		return nil, err
	}
	ec := erpc.Config{NoHugepages: true}
	f.Apply(&ec)
	return client.Dial(tr, cfg, ec)
}

// servers returns the addresses of --servers. There may be none if --resolve finds them.
func (f *clientFlags) servers() ([]string, error) {
	if f.Servers == "" && f.Resolve != "" {
		return nil, nil
	}
	list := strings.Split(f.Servers, ",")
	for _, addr := range list {
		if !isAddr(addr) {
			return nil, cli.Usagef("--servers %q: want HOST:PORT, or several with commas", f.Servers)
		}
	}
	return list, nil
}

// isAddr reports whether text looks like the address of a replica, HOST:PORT or shm:NAME.
func isAddr(text string) bool {
	i := strings.LastIndexByte(text, ':')
	return i > 0 && i < len(text)-1 && len(text) <= 64
}

// remembered reads the file of --remember; there may be none yet.
func remembered(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := strings.Fields(string(b))
	for _, addr := range list {
		if !isAddr(addr) || len(list) > node.MaxMembers {
			return nil, fmt.Errorf("--remember %s: %w", path, errRemembered)
		}
	}
	return list, nil
}

// remember writes the file of --remember when the cluster has told its members.
func (f *clientFlags) remember(ctx context.Context) error {
	if f.told == nil {
		return nil
	}
	select {
	case addrs := <-f.told:
		return outfile.Write(f.Remember, []byte(strings.Join(addrs, "\n")+"\n"), 0o600)
	case <-ctx.Done():
		return nil // the members are the ones that were known, or nobody told them
	}
}

// parsePeers reads --peers.
func parsePeers(text string) (map[uint64]string, error) { return parseList("--peers", text) }

// parseMembers reads an argument of that form.
func parseMembers(text string) (map[uint64]string, error) { return parseList("members", text) }

// parseList reads "1=HOST:PORT,2=...".
func parseList(what, text string) (map[uint64]string, error) {
	peers := map[uint64]string{}
	for part := range strings.SplitSeq(text, ",") {
		id, addr, ok := strings.Cut(part, "=")
		n, err := strconv.ParseUint(id, 10, 64)
		if !ok || err != nil || n == 0 || !isAddr(addr) {
			return nil, cli.Usagef("%s %q: want 1=HOST:PORT,2=HOST:PORT,...", what, text)
		}
		if _, twice := peers[n]; twice {
			return nil, cli.Usagef("%s: replica %d is there twice", what, n)
		}
		peers[n] = addr
	}
	return peers, nil
}

// freeAddrs returns n addresses on loopback that nobody uses at the moment. Their ports are below
// those that systems give to sockets that name none: such a socket does not take one of them before
// its user does, or while that starts again.
func freeAddrs(n int) (addrs []string, err error) {
	const least, most = 10_000, 32_767
	for tries := 0; len(addrs) < n; tries++ {
		addr := fmt.Sprint("127.0.0.1:", least+rand.IntN(most-least+1))
		c, err := net.ListenPacket("udp", addr)
		if err != nil && tries < 1000 {
			continue
		} else if err != nil {
			return nil, err
		}
		defer c.Close()
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// bound adds advice to the error of an address that the system does not give.
func bound(addr string, err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		return fmt.Errorf("cannot listen on %s: %w; choose another --addr", addr, err)
	}
	return err
}
