package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestNodeAlone: a node whose parent is gone ends, also if it has not reached etcd yet.
func TestNodeAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := &cli.Env{Ctx: ctx, In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	run(e, []string{"node", "--etcd", "127.0.0.1:1", "--name", "web-0", "--zone", "a", "--ttl", "60"})
	if ctx.Err() != nil {
		t.Error("it waits for etcd")
	}
}
