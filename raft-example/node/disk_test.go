package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestScrubEnds: a replica whose snapshot is damaged on the disk ends while it runs, and does
// not start again; both times it says what to do.
func TestScrubEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1")
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Config: replica.Config{ID: 7}}
	boot := replica.Boot(map[uint64]string{7: conn.LocalAddr().String()})
	files, err := OpenFiles(path, &cfg, boot)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.NewRpc(conn)
	if err != nil {
		t.Fatal(err)
	}
	n.Attach(r)
	files.Attach(r)
	name := filepath.Join(path, "snapshot")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	files.Scrub(n, 1)
	err = n.Run(func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "member remove 7") ||
		!strings.Contains(err.Error(), "new id") {
		t.Errorf("it ended with %v", err)
	}
	for _, f := range []func() error{r.Close, x.Close, files.Close} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	if _, err := OpenFiles(path, &cfg, boot); err == nil ||
		!strings.Contains(err.Error(), "member remove 7") {
		t.Errorf("it opens again: %v", err)
	}
}
