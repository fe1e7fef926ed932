package main

import (
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// TestStatusOfHostileReplica: what replicas say of themselves and of members reaches a terminal as
// text that it does not obey.
func TestStatusOfHostileReplica(t *testing.T) {
	list := []report{
		{Addr: "a:1", Status: replica.Status{ID: 1, State: "StateLeader",
			Members: map[uint64]string{1: "a:1\x1b[2J", 2: "größer:2"}}},
		{Addr: "b:2", Status: replica.Status{Err: "no\x1b]0;title\a \u202eanswer"}},
	}
	list[0].Trust, list[1].Trust = "by nothing\x1b", "by nothing\x1b"
	list[0].Admins, list[1].Admins = "from\x1b", "from\x1b"
	text := statusText(list)
	if strings.Count(text, `members are known by nothing\u001b`) != 1 {
		t.Errorf("%q does not say once by what members are known", text)
	}
	if strings.Count(text, `admin commands are taken from\u001b`) != 1 {
		t.Errorf("%q does not say once from whom admin commands are taken", text)
	}
	if strings.ContainsAny(text, "\x1b\a\u202e") {
		t.Errorf("%q", text)
	}
	for _, want := range []string{"Leader", `1=a:1\u001b[2J`, "2=größer:2", `no\u001b]0;title`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q has no %q", text, want)
		}
	}
}
