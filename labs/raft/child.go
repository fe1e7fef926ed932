package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// childEnv makes this program, and its tests, a member of its own, of the system that it names.
const childEnv = "RAFTSTORE_MEMBER"

// start is the first thing on a child's standard input, one JSON object.
type start struct {
	ID      uint64            `json:"id"`
	Members map[uint64]string `json:"members"` // what each has printed
	Keys    int               `json:"keys"`
	Dir     string            `json:"dir"`  // of its files; empty: none, if the system can do without
	Sync    bool              `json:"sync"` // fsync what is written there
	Lease   time.Duration     `json:"lease"`
}

// used counts what a child has used and measured so far.
type used struct {
	CPU   time.Duration `json:"cpu"`   // of this process since it began
	Fsync time.Duration `json:"fsync"` // median of one, 0 without
}

// member is one of a cluster, in a process of its own.
type member interface {
	addr() string // what the others and the clients need to know
	start(ctx context.Context, st *start) error
	figures() used
	close() error
}

// systems are those that can be measured.
var systems = map[string]struct {
	member  func() (member, error)
	clients gatherer
	files   bool // it has files even if nothing shall be durable
}{
	"erpc":       {newErpc, blocking(dialErpc), false},
	"erpc-lease": {newErpc, blocking(dialErpc), false}, // reads under a lease of 100 ms
	// The same with clients in event loops.
	"erpc-loop":       {newErpc, dialLoops, false},
	"erpc-loop-lease": {newErpc, dialLoops, false},
	"grpc-go":         {newGRPC, blocking(dialGRPC), false},
	"etcd":            {newEtcd, blocking(dialEtcd), true},
	"hashi-tcp":       {newHashiTCP, blocking(dialHashi), false}, // over its own transport
	"hraft":           {newHraft, blocking(dialHashi), false},    // and over ours
	// The messages alone, without Raft and a store.
	"least":      {newLeast, blocking(dialErpc), false},
	"least-loop": {newLeast, dialLoops, false},
}

// runMember is a member in a process of its own: it prints its address, reads a start, answers
// each further line with what it has used, and ends when its standard input does.
func runMember(system string, in io.Reader, out io.Writer) (err error) {
	s, ok := systems[system]
	if !ok {
		return fmt.Errorf("there is no system %q", system)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m, err := s.member()
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		err = errors.Join(err, m.close())
	}()
	fmt.Fprintln(out, m.addr())
	lines := bufio.NewScanner(in)
	var st start
	if !lines.Scan() {
		return lines.Err()
	}
	if err := json.Unmarshal(lines.Bytes(), &st); err != nil {
		return err
	}
	if err := m.start(ctx, &st); err != nil {
		return err
	}
	for enc := json.NewEncoder(out); lines.Scan(); {
		f := m.figures()
		f.CPU = usedCPU()
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return lines.Err()
}

// children are the members as processes.
type children struct {
	cmds    []*exec.Cmd
	ins     []io.WriteCloser
	outs    []*bufio.Scanner
	members map[uint64]string
}

// binaryOf splits a system's name at an @: behind it is the program that its members run, another
// version of this one. Without it they run this one.
func binaryOf(name string) (system, binary string) {
	system, binary, _ = strings.Cut(name, "@")
	return system, binary
}

// startChildren starts n members, numbered from 1. each is the start of all, dir that of the
// folders of those that need files.
func startChildren(ctx context.Context, system string, n int, each start, dir string) (
	c *children, err error,
) {
	c = &children{members: map[uint64]string{}}
	system, self := binaryOf(system)
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	for i := range n {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+system), os.Stderr
		in, err := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err, err2); err != nil {
			return nil, errors.Join(err, c.close())
		}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.cmds, c.ins = append(c.cmds, cmd), append(c.ins, in)
		c.outs = append(c.outs, bufio.NewScanner(out))
		if !c.outs[i].Scan() {
			err := fmt.Errorf("member %d of %s did not start", i+1, system)
			return nil, errors.Join(err, c.outs[i].Err(), c.close())
		}
		c.members[uint64(i+1)] = c.outs[i].Text()
	}
	each.Members = c.members
	for i, in := range c.ins {
		each.ID = uint64(i + 1)
		if dir != "" {
			each.Dir = fmt.Sprintf("%s/%d", dir, i+1)
		}
		if err := json.NewEncoder(in).Encode(each); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// figures asks all members: the CPU of all together, the fsync of the leader, or the slowest.
func (c *children) figures() (sum used, err error) {
	for i, in := range c.ins {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return sum, err
		}
		if !c.outs[i].Scan() {
			return sum, errors.Join(fmt.Errorf("member %d has ended", i+1), c.outs[i].Err())
		}
		var f used
		if err := json.Unmarshal(c.outs[i].Bytes(), &f); err != nil {
			return sum, err
		}
		sum.CPU += f.CPU
		sum.Fsync = max(sum.Fsync, f.Fsync)
	}
	return sum, nil
}

// close ends the processes and waits for them.
func (c *children) close() (err error) {
	for _, in := range c.ins {
		err = errors.Join(err, in.Close())
	}
	for _, cmd := range c.cmds {
		t := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		err = errors.Join(err, cmd.Wait())
		t.Stop()
	}
	return err
}
