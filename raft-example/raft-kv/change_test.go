package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// admins is a server that answers changes from a list, in turn; nil is no answer.
type admins struct {
	mu      sync.Mutex
	answers []*kv.Answer
	asked   func() // each time

	statuses []report // of TypeStatus, in turn
}

func (a *admins) status(req erpc.ReqHandle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := json.Marshal(a.statuses[0])
	if err != nil {
		panic(err)
	}
	if len(a.statuses) > 1 {
		a.statuses = a.statuses[1:]
	}
	_ = req.RespondBytes(b)
	if a.asked != nil {
		a.asked()
	}
}

func (a *admins) handle(req erpc.ReqHandle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	if now != nil {
		_ = req.RespondBytes(now.Append(nil))
	}
	if a.asked != nil {
		a.asked()
	}
}

// startAdmins starts one and returns its address and a client.
func startAdmins(t *testing.T, a *admins) (addr string, b *client.Blocking) {
	t.Helper()
	x, err := erpc.NewNexus(erpc.Config{NoHugepages: true})
	if err == nil {
		err = errors.Join(x.Register(node.TypeAdmin, erpc.Dispatch, a.handle),
			x.Register(node.TypeStatus, erpc.Dispatch, a.status))
	}
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(func() bool { return ctx.Err() != nil })
	}()
	cf := clientFlags{netFlags: netFlags{Transport: "udp", Cluster: 1},
		Servers: r.LocalAddr().String(), Timeout: time.Minute}
	if b, err = cf.dial(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		cancel()
		r.Wake()
		<-ended
		if err := errors.Join(r.Close(), x.Close()); err != nil {
			t.Error(err)
		}
	})
	return cf.Servers, b
}

// TestChange: what a command says of a change after the answers that servers gave.
func TestChange(t *testing.T) {
	reason, _ := kv.MakeValue("nobody would have a vote")
	so := &kv.Answer{Status: kv.OK, Found: true}
	for what, tt := range map[string]struct {
		answers []*kv.Answer
		already bool
		err     error
		text    string
	}{
		"done":            {answers: []*kv.Answer{{Status: kv.OK}}},
		"so already":      {answers: []*kv.Answer{so}, already: true},
		"no answer, then": {answers: []*kv.Answer{nil, so}},
		"lost, then":      {answers: []*kv.Answer{{Status: kv.Retry}, so}},
		"another is made": {answers: []*kv.Answer{{Status: kv.Busy}, so}, already: true},
		"no leader":       {answers: []*kv.Answer{{Status: kv.NotLeader}, {Status: kv.OK}}},
		"bad":             {answers: []*kv.Answer{{Status: kv.Malformed}}, err: replica.ErrMember},
		"bad, with reason": {[]*kv.Answer{{Status: kv.Malformed, Value: reason}}, false,
			replica.ErrMember, "a vote"},
		"of another":        {answers: []*kv.Answer{{Status: kv.WrongCluster}}, err: kv.ErrWrongCluster},
		"an answer of none": {answers: []*kv.Answer{{Status: 200}}, err: kv.ErrAnswer},
	} {
		t.Run(what, func(t *testing.T) {
			addr, b := startAdmins(t, &admins{answers: tt.answers})
			already, err := change(testContext(t), b, []string{addr}, node.Admin{Cluster: 1, ID: 4})
			if already != tt.already || !errors.Is(err, tt.err) {
				t.Errorf("already %v, %v; want %v, %v", already, err, tt.already, tt.err)
			}
			if tt.text != "" && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%q has no %q", err, tt.text)
			}
		})
	}
}

// TestChangeUnknown: the end of time is an unknown outcome if an attempt may have been taken.
func TestChangeUnknown(t *testing.T) {
	for what, answer := range map[string]*kv.Answer{"no answer": nil, "lost": {Status: kv.Retry}} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithCancel(testContext(t))
			addr, b := startAdmins(t, &admins{answers: []*kv.Answer{answer}, asked: cancel})
			_, err := change(ctx, b, []string{addr}, node.Admin{Cluster: 1, ID: 4})
			if !errors.Is(err, client.ErrDeadline) || !errors.Is(err, client.ErrUnknown) {
				t.Error(err)
			}
		})
	}
	if err := undone(false, "", context.Canceled); errors.Is(err, client.ErrUnknown) {
		t.Error(err)
	}
}

// TestMemberRepeated: a command that is given again says that it was so already.
func TestMemberRepeated(t *testing.T) {
	f, cf := testFleet(t, "")
	flags := []string{"--servers", cf.Servers, "--cluster", "5", "--timeout", "60s"}
	for _, tt := range []struct {
		args, want string
		status     int
	}{
		{"member remove 3", "ok\n", cli.Done},
		{"member remove 3", "ok: it was so already\n", cli.Done},
		{"member remove 3 --json", "{\"done\":true,\"already\":true}\n", cli.Done},
		{"member add 2 " + f.addrs()[1], "ok: it was so already\n", cli.Done},
		{"member remove 2", "ok\n", cli.Done},
		{"member remove 1", "bad membership change: nobody would have a vote", cli.Failed},
	} {
		args := strings.Fields(tt.args)
		with := append([]string{args[0]}, flags...)
		status, out, errOut := runCommand(t, append(with, args[1:]...)...)
		if status != tt.status || status == cli.Done && out != tt.want ||
			!strings.Contains(out+errOut, tt.want) {
			t.Errorf("%s: status %d, %q, %q; want %q", tt.args, status, out, errOut, tt.want)
		}
	}
}
