package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// trial is one run of a case: its network, its processes, and what it found.
type trial struct {
	*topology
	dir      string
	verbose  bool
	bin      string // folder of commands
	children []*child
	hopping  *child
	loads    int
	measures []measure
	notes    []string // texts of errors, for people
}

// broken is what a trial panics with if the lab itself fails.
type broken struct{ err error }

func (t *trial) must(err error) {
	if err != nil {
		panic(broken{err})
	}
}

// attempt returns what broke in a function, if anything did.
func (t *trial) attempt(fn func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case broken:
			err = e.err
		default:
			panic(e)
		}
	}()
	fn()
	return nil
}

// self is this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(broken{err})
	}
	return path
}

// command is the path of another command of this repository.
func (t *trial) command(name string) string {
	path := filepath.Join(t.bin, name)
	if _, err := os.Stat(path); err != nil {
		panic(broken{fmt.Errorf("%w: make bin/%s, or -bin", err, name)})
	}
	return path
}

// open makes the network.
func (t *trial) open() {
	var err error
	t.topology, err = newTopology(t.dir)
	t.must(err)
}

func (t *trial) close() {
	for _, c := range slices.Backward(t.children) { // loads before their servers
		c.end()
	}
	if t.topology != nil {
		t.topology.close()
	}
}

// child is a process of the lab inside a host. It ends with its standard input.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	ended bool
	said  string // file with its standard error
	first ready
}

// start starts this program again, inside a host and behind the words of a launcher.
func (t *trial) start(h *host, launcher []string, args ...string) *child {
	c := &child{cmd: h.cmd(slices.Concat(launcher, []string{self()}, args)...)}
	var err error
	c.stdin, err = c.cmd.StdinPipe()
	t.must(err)
	out, err := c.cmd.StdoutPipe()
	t.must(err)
	c.out = bufio.NewReaderSize(out, 1<<20)
	c.said = filepath.Join(t.dir, fmt.Sprintf("stderr%d", len(t.children)))
	f, err := os.Create(c.said)
	t.must(err)
	defer f.Close()
	c.cmd.Stderr = f
	t.must(c.cmd.Start())
	t.children = append(t.children, c)
	return c
}

// line is the next line that a child prints. A watchdog bounds the wait.
func (t *trial) line(c *child) []byte {
	type read struct {
		b   []byte
		err error
	}
	got := make(chan read, 1)
	go func() {
		b, err := c.out.ReadBytes('\n')
		got <- read{b, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			t.must(fmt.Errorf("%v ended: %s", c.cmd.Args, c.stderr()))
		}
		return r.b
	case <-time.After(2 * time.Minute):
		t.must(fmt.Errorf("%v said nothing for two minutes: %s", c.cmd.Args, c.stderr()))
	}
	return nil
}

func (c *child) stderr() string {
	b, _ := os.ReadFile(c.said)
	return strings.TrimSpace(string(b))
}

// end closes the standard input and waits; a process that goes on is killed.
func (c *child) end() {
	if c.ended {
		return
	}
	c.ended = true
	_ = c.stdin.Close()
	kill := time.AfterFunc(3*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	go func() { _, _ = io.Copy(io.Discard, c.out) }()
	_ = c.cmd.Wait()
}

func (c *child) kill() {
	if !c.ended {
		c.ended = true
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// serve starts a server at an address of a host.
func (t *trial) serve(h *host, addr string, flags ...string) *child {
	return t.serveBy(nil, h, addr, flags...)
}

// serveBy is serve behind a launcher.
func (t *trial) serveBy(launcher []string, h *host, addr string, flags ...string) *child {
	args := []string{"serve", "--addr", addr, "--counts", filepath.Join(t.dir, "counts")}
	c := t.start(h, launcher, append(args, flags...)...)
	t.must(json.Unmarshal(t.line(c), &c.first))
	return c
}

// running is a load at work.
type running struct {
	*child
	t *trial
}

// begin starts a load; its first call has been answered, or dialling has failed.
func (t *trial) begin(h *host, addr string, flags ...string) *running {
	return t.beginBy(nil, h, addr, flags...)
}

// beginBy is begin behind a launcher.
func (t *trial) beginBy(launcher []string, h *host, addr string, flags ...string) *running {
	l := t.launch(launcher, h, addr, flags...)
	l.ready()
	return l
}

// launch starts a load and does not wait.
func (t *trial) launch(launcher []string, h *host, addr string, flags ...string) *running {
	args := []string{"load", "--addr", addr, "--outcomes", filepath.Join(t.dir, "outcomes"),
		"--base", fmt.Sprint(t.loads * idsPerLoad)}
	t.loads++
	return &running{t.start(h, launcher, append(args, flags...)...), t}
}

func (r *running) ready() { r.t.must(json.Unmarshal(r.t.line(r.child), &r.first)) }

// mark begins a phase.
func (r *running) mark(name string) {
	_, err := fmt.Fprintln(r.stdin, "mark", name)
	r.t.must(err)
	_ = r.t.line(r.child)
}

// until lets time pass until the phase is as wanted, and some more, or for the longest time.
func (r *running) until(longest time.Duration, wanted func(p *phase) bool) {
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		_, err := fmt.Fprintln(r.stdin, "peek")
		r.t.must(err)
		var p phase
		r.t.must(json.Unmarshal(r.t.line(r.child), &p))
		if wanted(&p) {
			r.t.pass(half)
			return
		}
	}
}

// came says that a call of the phase was answered.
func came(p *phase) bool { return p.Back > 0 }

// stop ends the load and returns what it measured.
func (r *running) stop() *loadReport {
	_, err := fmt.Fprintln(r.stdin, "stop")
	r.t.must(err)
	var rep loadReport
	b := r.t.line(r.child)
	r.t.must(json.Unmarshal(b, &rep))
	if r.t.verbose {
		fmt.Fprintf(os.Stderr, "%s", b)
	}
	r.end()
	for _, p := range rep.Phases {
		for kind, f := range p.Failed {
			r.t.notes = append(r.t.notes, fmt.Sprintf("%s: %d %s: %s", p.Name, f.N, kind, f.Text))
		}
	}
	if rep.DialError != "" {
		r.t.notes = append(r.t.notes, "dial: "+rep.DialError)
	}
	return &rep
}

// hop puts the userspace hop between the router's links: what comes in by one goes through it.
func (t *trial) hop(w ways) {
	t.hopping = t.start(t.router, nil, "hop")
	_ = t.line(t.hopping)
	t.must(t.router.sh("for d in tunl tunr; do ip link set $d mtu %d txqueuelen 10000 up;"+
		" echo 0 >/proc/sys/net/ipv4/conf/$d/rp_filter; done;"+
		" for v in -4 -6; do"+
		" ip $v rule add iif c lookup 101; ip $v route add default dev tunl table 101;"+
		" ip $v rule add iif s lookup 102; ip $v route add default dev tunr table 102; done", tunMTU))
	t.change(w)
}

// tunnel joins client and server by the hop itself, as a VPN does: their TUN devices have that MTU
// and addresses of net 10.71.7.0/24.
func (t *trial) tunnel(mtu int) {
	t.hopping = t.start(t.router, nil, "hop", "--left", t.client.pid(), "--right", t.server.pid())
	_ = t.line(t.hopping)
	t.must(t.client.sh("ip addr add 10.71.7.1/24 dev tunl;"+
		" ip link set tunl mtu %d txqueuelen 10000 up", mtu))
	t.must(t.server.sh("ip addr add 10.71.7.2/24 dev tunr;"+
		" ip link set tunr mtu %d txqueuelen 10000 up", mtu))
}

// change tells the hop what to do from now on.
func (t *trial) change(w ways) {
	b, err := json.Marshal(w)
	t.must(err)
	_, err = fmt.Fprintf(t.hopping.stdin, "%s\n", b)
	t.must(err)
	_ = t.line(t.hopping)
}

// pass lets time pass.
func (t *trial) pass(d time.Duration) { time.Sleep(d) }

// audit compares what ran with what the calls were told, after all processes have ended.
func (t *trial) audit() {
	if t.loads == 0 {
		return
	}
	for _, c := range t.children {
		c.end()
	}
	if _, err := os.Stat(filepath.Join(t.dir, "counts")); errors.Is(err, os.ErrNotExist) {
		return
	}
	ran := t.readCounts("counts")
	outcomes := t.readCounts("outcomes")
	twice, lost, lied := 0, 0, 0
	for i := range min(len(ran), len(outcomes)) {
		n, o := ran[i], outcomes[i]
		switch {
		case n > 1:
			twice++
		case n == 0 && o == outcomeOK:
			lost++
		case n > 0 && o == outcomeNotRun:
			lied++
		}
	}
	t.none("handlers twice", twice)
	t.none("answers without a handler", lost)
	t.none(`"did not run" that ran`, lied)
}

// readCounts reads a file of openCounts without a page for what nobody wrote.
func (t *trial) readCounts(name string) []uint32 {
	f, err := os.Open(filepath.Join(t.dir, name))
	t.must(err)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(4*t.loads*idsPerLoad)))
	t.must(err)
	n := make([]uint32, len(b)/4)
	for i := range n {
		n[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return n
}

// parallel runs functions side by side.
func parallel(fns ...func()) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first any
	for _, fn := range fns {
		wg.Go(func() {
			defer func() {
				if e := recover(); e != nil {
					mu.Lock()
					defer mu.Unlock()
					first = e
				}
			}()
			fn()
		})
	}
	wg.Wait()
	if first != nil {
		panic(first)
	}
}
