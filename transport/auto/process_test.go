//go:build linux

package auto

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// Environment of a child: the directory to meet in, the address, and its kind.
const (
	dirEnv  = "ERPC_AUTO_TEST_DIR"
	addrEnv = "ERPC_AUTO_TEST_ADDR"
	kindEnv = "ERPC_AUTO_TEST_KIND" // auto or udp
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirEnv); dir != "" {
		child(dir, os.Getenv(addrEnv), os.Getenv(kindEnv))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is another process, which sends everything back until its standard input ends.
func child(dir, addr, kind string) {
	var c transport.Transport
	var err error
	if kind == "auto" {
		c, err = Listen(addr, Config{SHM: shm.Config{Dir: dir}})
	} else {
		c, err = udp.Listen(addr, udp.Config{})
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(c.LocalAddr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		c.Close()
	}()
	pkts := make([]transport.RxPacket, 64)
	for {
		n, err := c.RxBurst(pkts)
		for i := range pkts[:n] {
			items := []transport.TxItem{{Dst: pkts[i].From, Head: pkts[i].Data}}
			for sent := 0; sent == 0 && err == nil; {
				sent, err = c.TxBurst(items)
			}
		}
		if n == 0 && err == nil {
			err = c.Wait(-1)
		}
		if err != nil {
			return
		}
	}
}

// start starts a child and returns the address where it listens. It ends with the test.
func start(t *testing.T, cfg Config, addr, kind string) (string, *exec.Cmd) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), dirEnv+"="+cfg.SHM.Dir, addrEnv+"="+addr, kindEnv+"="+kind)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(cmd) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return strings.TrimSpace(line), cmd
}

// stop kills a child and waits for its end.
func stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// echo sends packets to a child and checks what comes back.
func echo(t *testing.T, c *Conn, to transport.Addr) {
	t.Helper()
	for i := range 200 {
		text := strings.Repeat("x", i)
		send(t, c, to, text)
		if p := receive(t, c); string(p.Data) != text || p.From != to {
			t.Fatalf("got %q from %v, want %q from %v", p.Data, p.From, text, to)
		}
	}
}

// TestProcesses: a peer in another process, which dies, comes back as plain UDP, dies,
// and comes back as it was.
func TestProcesses(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	c := listen(t, "127.0.0.1:0", cfg)
	addr, old := "127.0.0.1:0", transport.Addr{}
	for i, kind := range []string{"auto", "udp", "auto"} {
		var cmd *exec.Cmd
		addr, cmd = start(t, cfg, addr, kind)
		to, err := c.Resolve(addr)
		if err != nil {
			t.Fatal(err)
		}
		if shm.IsAddr(&to) != (kind == "auto") || to == old {
			t.Fatalf("peer %d, %s, is reached at %v, before at %v", i, kind, to, old)
		}
		if i > 0 { // the old address leads nowhere, and does not hold up the new one
			send(t, c, old, "lost")
		}
		echo(t, c, to)
		if kind == "auto" {
			old = to
		}
		stop(cmd)
	}
}
