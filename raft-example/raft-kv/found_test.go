package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestFoundAgain: a replica is away while all members that it knows are replaced. When it starts
// with their addresses it takes the new ones for strangers; with that of a new one in --peers, or
// found by --resolve, it asks that one, and follows.
func TestFoundAgain(t *testing.T) {
	for _, by := range []string{"peers", "resolve"} {
		t.Run(by, func(t *testing.T) {
			o := operate(t, 3, t.TempDir())
			away := o.f.children[o.kill(1)[0]-1]
			a, b := o.join(4, 5), o.join(5, 5)
			o.want(fmt.Sprintf("members %d=%s,4=%s,5=%s --force", away.id, away.addr, a.addr, b.addr),
				cli.Done, "ok\n")
			for _, c := range o.f.children {
				c.stop()
			}
			o.cf.Servers = a.addr + "," + b.addr
			o.flags[0] = "--servers=" + o.cf.Servers
			o.want("put after x", cli.Done, "ok\n")
			if err := o.f.start(away); err != nil {
				t.Fatal(err)
			}
			o.await(func(string) bool { return strings.Contains(away.text(), "the sender is no member") })
			away.stop()
			args := []string{"server", "--child", "--json", fmt.Sprint("--id=", away.id),
				"--addr=" + away.addr, "--cluster=5", fmt.Sprint("--tick=", testTick), "--dir=" + away.dir}
			if by == "peers" {
				args = append(args, fmt.Sprintf("--peers=%d=%s,4=%s", away.id, away.addr, a.addr))
			} else {
				args = append(args, "--join", "--resolve="+strings.Replace(a.addr, "127.0.0.1",
					"localhost", 1))
			}
			if err := away.launch(exec.Command(o.f.exe, args...), (*exec.Cmd).Start); err != nil {
				t.Fatal(err)
			}
			c, err := o.cf.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			awaitApplied(t, testContext(t), c, []string{a.addr, b.addr, away.addr})
		})
	}
}
