package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// changePause is the time between two attempts at a change.
const changePause = 20 * time.Millisecond

// change asks one server after the other, until the leader has done it. Already says that all of it
// was so before any attempt of this call. Errors: replica.ErrMember, of an upgrade node.ErrUpgrade,
// of a tick replica.ErrTiming, kv.ErrWrongCluster, node.ErrUnsafe, errNoAdmin, client.ErrDeadline,
// and client.ErrUnknown with it if an attempt had no answer.
func change(ctx context.Context, b *client.Blocking, servers []string, a node.Admin) (
	already bool, err error,
) {
	body, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	unknown, why, refused := false, "", replica.ErrMember
	if a.Upgrade {
		refused = node.ErrUpgrade
	} else if a.Timing != nil {
		refused = replica.ErrTiming
	}
	for i := 0; ; i++ {
		short, cancel := context.WithTimeout(ctx, time.Second)
		got, err := b.Call(short, servers[i%len(servers)], node.TypeAdmin, body)
		cancel()
		var answer kv.Answer
		if err == nil {
			if answer, err = kv.ParseAnswer(got); err != nil {
				return false, err
			}
		}
		err = adminError(err)
		switch {
		case errors.Is(err, errNoAdmin):
			return false, err
		case erpc.CodeOf(err) == erpc.CodeFailedPrecondition:
			return false, fmt.Errorf("%w: %w", node.ErrUnsafe, err)
		case err != nil:
			unknown = unknown || !errors.Is(err, erpc.ErrNotRun)
		case answer.Status == kv.OK:
			return answer.Found && !unknown, nil
		case answer.Status == kv.Malformed && answer.Value.Len() > 0:
			return false, fmt.Errorf("%w: %s", refused, answer.Value)
		case answer.Status == kv.Malformed:
			return false, refused
		case answer.Status == kv.WrongCluster:
			return false, kv.ErrWrongCluster
		case answer.Status == kv.Retry:
			unknown = true
		case answer.Status == kv.Busy:
			why = answer.Value.String()
		case answer.Status == kv.NotLeader && answer.Value.Len() > 0:
			servers = with(servers, answer.Value.String())
		}
		select {
		case <-ctx.Done():
			return false, undone(unknown, why, ctx.Err())
		case <-time.After(changePause):
		}
	}
}

// undone is the error of a change that was not done in time. Why is what a server said last.
func undone(unknown bool, why string, err error) error {
	if err = fmt.Errorf("%w: %w", client.ErrDeadline, err); why != "" {
		err = fmt.Errorf("%s: %w", cli.Visible(why), err)
	}
	if unknown {
		return fmt.Errorf("%w: repeat the command: %w", client.ErrUnknown, err)
	}
	return err
}

// with returns the servers and, if it is a new one and there is room, the leader that one named.
func with(servers []string, leader string) []string {
	if slices.Contains(servers, leader) || len(servers) >= node.MaxMembers {
		return servers
	}
	return append(slices.Clone(servers), leader)
}
