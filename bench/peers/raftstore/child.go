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
	"sync"
	"time"
)

// childEnv makes this program, and its tests, a replica of its own.
const childEnv = "RAFTSTORE_REPLICA"

// start is what a child reads from its standard input, one JSON object.
type start struct {
	ID      uint64            `json:"id"`
	Members map[uint64]string `json:"members"`
	Keys    int               `json:"keys"`
}

// replicaProcess is a replica in a process of its own: it prints its address, reads
// a start, and ends when its standard input does.
func replicaProcess(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	s, err := newStore()
	if err != nil {
		return err
	}
	defer s.server.Stop()
	fmt.Fprintln(out, s.lis.Addr())
	var st start
	input := json.NewDecoder(in)
	if err := input.Decode(&st); err != nil {
		return err
	}
	if err := s.start(ctx, &wg, st.ID, st.Members, st.Keys); err != nil {
		return err
	}
	if st.ID == 1 {
		s.campaign()
	}
	_, err = io.Copy(io.Discard, io.MultiReader(input.Buffered(), in))
	return err
}

// children are the replicas as processes.
type children struct {
	cmds []*exec.Cmd
	ins  []io.WriteCloser
}

// startChildren starts n replicas and returns their addresses.
func startChildren(ctx context.Context, n, keys int) (c *children, members map[uint64]string, err error) {
	c, members = &children{}, map[uint64]string{}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	for i := range n {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"=1"), os.Stderr
		in, err := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err, err2); err != nil {
			return nil, nil, errors.Join(err, c.close())
		}
		if err := cmd.Start(); err != nil {
			return nil, nil, errors.Join(err, c.close())
		}
		c.cmds, c.ins = append(c.cmds, cmd), append(c.ins, in)
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("replica %d: %w", i+1, err), c.close())
		}
		members[uint64(i+1)] = line[:len(line)-1]
	}
	for i, in := range c.ins {
		if err := json.NewEncoder(in).Encode(start{ID: uint64(i + 1), Members: members, Keys: keys}); err != nil {
			return nil, nil, errors.Join(err, c.close())
		}
	}
	return c, members, nil
}

// close ends the processes and waits for them.
func (c *children) close() (err error) {
	for _, in := range c.ins {
		err = errors.Join(err, in.Close())
	}
	for _, cmd := range c.cmds {
		t := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		err = errors.Join(err, cmd.Wait())
		t.Stop()
	}
	return err
}
