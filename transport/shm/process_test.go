//go:build linux

package shm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// roleEnv tells the test binary that it is a child, of which kind, and in which directory to meet.
const roleEnv = "ERPC_SHM_TEST_DIR"

// child is another process: an endpoint named "child" that sends everything back until
// its standard input ends.
func child(dir string) {
	if d, ok := strings.CutPrefix(dir, serverRole); ok {
		serve(d)
		return
	}
	if d, ok := strings.CutPrefix(dir, userRole); ok {
		somebody(d)
		return
	}
	c, err := Listen("child", Config{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("up")
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
			os.Exit(0)
		}
	}
}

// start starts the child and waits until it listens. It ends with the test.
func start(t testing.TB, dir string) (cmd *exec.Cmd, stdin io.Closer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(exe)
	cmd.Env = append(os.Environ(), roleEnv+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "up\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return cmd, in
}

// held returns how many memory files this process has mapped, and how many descriptors.
func held(t testing.TB) (maps, fds int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "memfd:erpc"), len(files)
}

// echoes sends packets of all sizes to the child and checks what comes back.
func echoes(t testing.TB, c *Conn, to transport.Addr, n int) {
	t.Helper()
	packet := make([]byte, c.Caps().MTU)
	for i := range n {
		size := 1 + i*7919%len(packet)
		for b := range packet[:size] {
			packet[b] = byte(i + b)
		}
		send(t, c, to, string(packet[:size]))
		if got := receive(t, c); string(got.Data) != string(packet[:size]) || got.From != to {
			t.Fatalf("packet %d: %d bytes from %v, want %d from %v", i, len(got.Data), got.From, size, to)
		}
	}
}

func TestTwoProcesses(t *testing.T) {
	cfg := meeting(t, Config{})
	c := listen(t, "parent", cfg)
	_, in := start(t, cfg.Dir)
	to, err := c.Resolve("child")
	if err != nil {
		t.Fatal(err)
	}
	echoes(t, c, to, 3000)
	in.Close() // it closes in good order
	within(t, "the end of the connection",
		func() bool { _, _ = c.RxBurst(nil); return c.Peers() == 0 })
}

// TestKilledPeer: when a process is killed, all state of its connection is freed, and
// its successor of the same name can be reached.
func TestKilledPeer(t *testing.T) {
	cfg := meeting(t, Config{})
	c := listen(t, "parent", cfg)
	var before [2]int
	var old transport.Addr
	for round := range 4 {
		cmd, _ := start(t, cfg.Dir)
		to, err := c.Resolve("child")
		if err != nil {
			t.Fatal(err)
		}
		if to == old {
			t.Fatal("another process has the same address")
		}
		echoes(t, c, to, 20)
		send(t, c, to, "a packet that is under way")
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		within(t, "the end of the connection", func() bool {
			_, _ = c.RxBurst(make([]transport.RxPacket, 4))
			return c.Peers() == 0
		})
		dropped := c.Stats().TxDropped
		send(t, c, to, "to nobody")
		if n := c.Stats().TxDropped - dropped; n != 1 {
			t.Errorf("a packet to a dead process: %d dropped, want 1", n)
		}
		maps, fds := held(t)
		if round == 0 {
			before = [2]int{maps, fds}
		} else if maps > before[0] || fds > before[1]+2*round { // pipes of the children close late
			t.Errorf("round %d: %d mappings, %d descriptors, were %v", round, maps, fds, before)
		}
		if maps != 1 {
			t.Errorf("round %d: %d mappings left, want the own bell's only", round, maps)
		}
		old = to
	}
}

// TestStoppedPeer: a process that is stopped holds up nobody else, and its packets are
// dropped and counted. When it goes on, the connection goes on too.
func TestStoppedPeer(t *testing.T) {
	cfg := meeting(t, Config{})
	c, other := listen(t, "parent", cfg), listen(t, "other", cfg)
	cmd, _ := start(t, cfg.Dir)
	to, err := c.Resolve("child")
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, c, other)
	echoes(t, c, to, 5)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	items := []transport.TxItem{
		{Dst: to, Head: make([]byte, 24), Data: make([]byte, c.Caps().MTU-24)},
		{Dst: other.LocalAddr(), Head: []byte("not held up")},
	}
	pkts := make([]transport.RxPacket, 64)
	heard := 0
	within(t, "dropping", func() bool {
		for left := items; len(left) > 0; {
			n, err := c.TxBurst(left)
			if err != nil {
				t.Fatal(err)
			}
			left = left[n:]
		}
		n, _ := other.RxBurst(pkts)
		heard += n
		return c.Stats().TxDropped > 100 && heard > 100
	})
	if c.Stats().TxStalls == 0 {
		t.Error("a full ring never took fewer packets")
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	got := 0
	within(t, "going on", func() bool {
		n, _ := c.RxBurst(pkts)
		got += n
		return got > 10
	})
}

// TestWakeProcess: a process that sleeps is woken by a packet, each time.
func TestWakeProcess(t *testing.T) {
	cfg := meeting(t, Config{})
	c := listen(t, "parent", cfg)
	start(t, cfg.Dir)
	to, err := c.Resolve("child")
	if err != nil {
		t.Fatal(err)
	}
	pkts := make([]transport.RxPacket, 4)
	for i := range 2000 {
		send(t, c, to, "wake up")
		for n := 0; n == 0; {
			if n, err = c.RxBurst(pkts); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				began := time.Now()
				if err := c.Wait(hang); err != nil {
					t.Fatal(err)
				}
				if time.Since(began) >= hang {
					t.Fatalf("round %d: a wake-up was lost", i)
				}
			}
		}
	}
}
