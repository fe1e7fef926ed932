package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/memcached"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/labs/benchrows"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// textLoad is a load in memcached's protocol: so many connections, each with so many commands under
// way, on so many keys whose values have so many bytes.
type textLoad struct {
	keys, conns, pipeline, value int

	cpu bool // time is CPU time of the server, for a machine that others use
}

// cpuOf returns the CPU time of all threads of a process so far.
func cpuOf(pid int) (sum time.Duration) {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range list {
		var ns int64
		text, _ := os.ReadFile(name) // a thread that has ended had little
		_, _ = fmt.Sscan(string(text), &ns)
		sum += time.Duration(ns)
	}
	return sum
}

// textFlags are those of this load.
type textFlags struct {
	servers string
	load    textLoad
}

func (f *textFlags) register() {
	flag.StringVar(&f.servers, "text", "",
		"measure memcached's protocol: shared, posts, or the address of a server, with commas")
	flag.IntVar(&f.load.conns, "conns", 4, "with -text: connections")
	flag.IntVar(&f.load.pipeline, "pipeline", 50, "with -text: commands under way on each")
	flag.IntVar(&f.load.value, "value", 32, "with -text: bytes of a value")
}

// batches is how many different batches of commands there are.
const batches = 64

// textBatch is commands that are sent together, and their answers.
type textBatch struct{ ask, answer []byte }

// textOp is a kind of command: its text for a key, and the answer. before prepares the key, if that
// has to be done each time.
type textOp struct {
	name        string
	ask, answer func(b []byte, key, value string) []byte
	before      bool
}

// textOps are the commands that are measured.
var textOps = []textOp{
	{name: "get", ask: line("get ", ""), answer: found},
	{name: "mg", ask: line("mg ", " v"), answer: func(b []byte, _, value string) []byte {
		return fmt.Appendf(b, "VA %d\r\n%s\r\n", len(value), value)
	}},
	{name: "touch", ask: line("touch ", " 0"), answer: says("TOUCHED")},
	{name: "gat", ask: line("gat 0 ", ""), answer: found},
	{name: "set", ask: func(b []byte, key, value string) []byte {
		return fmt.Appendf(b, "set %s 0 0 %d\r\n%s\r\n", key, len(value), value)
	}, answer: says("STORED")},
	{name: "ms", ask: func(b []byte, key, value string) []byte {
		return fmt.Appendf(b, "ms %s %d\r\n%s\r\n", key, len(value), value)
	}, answer: says("HD")},
	{name: "delete", ask: line("delete ", ""), answer: says("DELETED"), before: true},
	{name: "incr", ask: line("incr n", " 0"), answer: says("1000000000")},
}

func line(before, after string) func(b []byte, key, value string) []byte {
	return func(b []byte, key, _ string) []byte { return append(b, before+key+after+"\r\n"...) }
}

func says(answer string) func(b []byte, key, value string) []byte {
	return func(b []byte, _, _ string) []byte { return append(b, answer+"\r\n"...) }
}

func found(b []byte, key, value string) []byte {
	return fmt.Appendf(b, "VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, len(value), value)
}

// textPeer is a server under load, by blocking sockets of this thread.
type textPeer struct {
	load  textLoad
	pid   int
	fds   []int
	stop  func()
	buf   []byte
	err   error
	value string
}

// connectText connects to a server and fills it.
func connectText(addr string, pid int, l textLoad, stop func()) (*textPeer, error) {
	p := &textPeer{load: l, pid: pid, stop: stop, value: strings.Repeat("v", l.value)}
	for range l.conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return p, err
		}
		f, err := conn.(*net.TCPConn).File()
		if err = errors.Join(err, conn.Close()); err != nil {
			return p, err
		}
		fd, err := unix.Dup(int(f.Fd())) // it blocks from now on
		if err = errors.Join(err, f.Close()); err != nil {
			return p, err
		}
		p.fds = append(p.fds, fd)
	}
	var fill []byte
	for i := range l.keys {
		fill = fmt.Appendf(fill, "set %s 0 0 %d noreply\r\n%s\r\n", textKey(i), l.value, p.value)
		if i < 10_000 {
			fill = fmt.Appendf(fill, "set n%s 0 0 10 noreply\r\n1000000000\r\n", textKey(i))
		}
		if len(fill) > 1<<20 {
			p.write(p.fds[0], fill)
			fill = fill[:0]
		}
	}
	p.write(p.fds[0], append(fill, "mn\r\n"...))
	p.read(p.fds[0], []byte("MN\r\n"))
	return p, p.err
}

func textKey(i int) string { return fmt.Sprintf("key:%012d", i) }

func (p *textPeer) close() {
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
	p.stop()
}

func (p *textPeer) write(fd int, b []byte) {
	for len(b) > 0 && p.err == nil {
		n, err := unix.Write(fd, b)
		if err != nil {
			p.err = err
			return
		}
		b = b[n:]
	}
}

// read reads an answer, and compares it.
func (p *textPeer) read(fd int, want []byte) {
	if cap(p.buf) < len(want) {
		p.buf = make([]byte, len(want))
	}
	got := p.buf[:0]
	for len(got) < len(want) && p.err == nil {
		n, err := unix.Read(fd, p.buf[len(got):len(want)])
		if err != nil || n == 0 {
			p.err = fmt.Errorf("read %d: %w", n, err)
			return
		}
		got = got[:len(got)+n]
	}
	if p.err == nil && !bytes.Equal(got, want) {
		p.err = fmt.Errorf("answer %.80q, want %.80q", got, want)
	}
}

// batchesOf makes the batches of a kind of command. Each connection has keys of its own, for
// commands that need them prepared.
func (p *textPeer) batchesOf(op textOp) (list, before []textBatch) {
	r := rand.New(rand.NewPCG(7, 8))
	set := textOps[4]
	for range batches {
		var b, pre textBatch
		for range p.load.pipeline {
			n := r.IntN(p.load.keys)
			if op.name == "incr" {
				n = r.IntN(min(p.load.keys, 10_000))
			}
			key := textKey(n)
			if op.before {
				key = "d" + key // other rows want theirs
			}
			if op.before && bytes.Contains(b.ask, []byte(key)) {
				continue
			}
			b.ask, b.answer = op.ask(b.ask, key, p.value), op.answer(b.answer, key, p.value)
			pre.ask, pre.answer = set.ask(pre.ask, key, p.value), set.answer(pre.answer, key, p.value)
		}
		list, before = append(list, b), append(before, pre)
	}
	return list, before
}

// row returns a row of a kind of command.
func (p *textPeer) row(op textOp) func(time.Duration) float64 {
	list, before := p.batchesOf(op)
	return func(each time.Duration) float64 {
		runtime.LockOSThread()
		if op.before {
			return p.prepared(each, list, before)
		}
		begin, done := time.Now(), 0
		cpu := cpuOf(p.pid)
		asked := make([]*textBatch, len(p.fds))
		for i, fd := range p.fds {
			asked[i] = &list[i%batches]
			p.write(fd, asked[i].ask)
		}
		for at, over := len(p.fds), false; !over && p.err == nil; {
			for i, fd := range p.fds {
				p.read(fd, asked[i].answer)
				asked[i] = &list[at%batches]
				p.write(fd, asked[i].ask)
				at++
				done += p.load.pipeline
			}
			over = time.Since(begin) >= each
		}
		took := time.Since(begin)
		for i, fd := range p.fds {
			p.read(fd, asked[i].answer)
		}
		if p.load.cpu {
			took = cpuOf(p.pid) - cpu
			done += p.load.pipeline * len(p.fds)
		}
		return float64(took) / float64(max(done, 1))
	}
}

// prepared does the same with commands whose keys are prepared before each batch, on one connection
// after the other; the time for that does not count.
func (p *textPeer) prepared(each time.Duration, list, before []textBatch) float64 {
	begin, took, done := time.Now(), time.Duration(0), 0
	for at := 0; time.Since(begin) < each && p.err == nil; at += len(p.fds) {
		var mine []*textBatch
		for i := range p.fds {
			n := (at + i) % batches
			if i < batches { // other connections would have the same keys
				p.write(p.fds[i], before[n].ask)
				p.read(p.fds[i], before[n].answer)
				mine = append(mine, &list[n])
			}
		}
		start, cpu := time.Now(), cpuOf(p.pid)
		for i, b := range mine {
			p.write(p.fds[i], b.ask)
		}
		for i, b := range mine {
			p.readDeleted(p.fds[i], b)
			done += bytes.Count(b.ask, []byte("\n"))
		}
		if p.load.cpu {
			took += cpuOf(p.pid) - cpu
		} else {
			took += time.Since(start)
		}
	}
	return float64(took) / float64(max(done, 1))
}

// readDeleted reads the answers to deletes, of which another connection may have done some.
func (p *textPeer) readDeleted(fd int, b *textBatch) {
	left := bytes.Count(b.ask, []byte("\n"))
	var buf [4096]byte
	for left > 0 && p.err == nil {
		n, err := unix.Read(fd, buf[:])
		if err != nil || n == 0 {
			p.err = fmt.Errorf("read %d: %w", n, err)
		}
		left -= bytes.Count(buf[:max(n, 0)], []byte("\n"))
	}
}

// serveText is the child that serves memcached's protocol and erpc, empty.
func serveText(keys, value int, mode string) error {
	benchrows.Pin(benchrows.ServerCore)
	tr, err := listen("udp")
	if err != nil {
		return err
	}
	memory := max(keys*(value+256)*2, 64<<20)
	srv, err := server.New(server.Config{Rpc: erpc.Config{NoHugepages: true}, Shared: mode != "posts",
		Store: mica.Config{Memory: memory, ItemSize: value + 20}})
	if err != nil {
		return errors.Join(err, tr.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve([]transport.Transport{tr}) }()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	mc := memcached.New(memcached.Config{Store: srv})
	go func() { _ = mc.Serve(ln) }() // until Close
	fmt.Printf("%q\n", ln.Addr().String())
	benchrows.UntilParentEnds(func() { err = errors.Join(mc.Close(), srv.Close()) })
	<-ended
	return err
}

// textRows are servers that are measured, and their rows.
type textRows struct {
	load  textLoad
	peers []*textPeer
	rows  []benchrows.Row
}

// add connects to a server, fills it and adds its rows. It owns the server from then on.
func (t *textRows) add(name, addr string, pid int, stop func()) error {
	p, err := connectText(addr, pid, t.load, stop)
	t.peers = append(t.peers, p)
	if err != nil {
		return err
	}
	for _, op := range textOps {
		r := benchrows.Row{Name: name + " " + op.name, Run: p.row(op)}
		if name != "memcached" {
			r.Base = "memcached mg"
			if op.name == "set" || op.name == "ms" || op.name == "delete" || op.name == "incr" {
				r.Base = "memcached set"
			}
		}
		t.rows = append(t.rows, r)
	}
	return nil
}

// start starts memcached and our servers, and connects to them.
func (t *textRows) start(modes []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	mc, err := benchrows.StartPeer("memcached", func(port string) []string {
		return []string{"-p", port, "-l", "127.0.0.1", "-t", "1", "-U", "0", "-u", "root",
			"-m", strconv.Itoa(128 + t.load.keys*(t.load.value+256)*2>>20)}
	})
	if err != nil {
		return err
	}
	children := make([]*benchrows.Child, len(modes))
	for i, mode := range modes {
		if strings.Contains(mode, ":") { // a server that runs already
			continue
		}
		children[i], err = benchrows.StartChild(exe, "-child", "text "+mode,
			"-keys", fmt.Sprint(t.load.keys), "-value", fmt.Sprint(t.load.value))
		if err != nil {
			return err
		}
	}
	benchrows.Pin(benchrows.ClientCore) // not before: children inherit it
	if err := t.add("memcached", mc.Address(), mc.Pid(), mc.Stop); err != nil {
		return err
	}
	for i, mode := range modes {
		addr, pid, stop := mode, 0, func() {}
		if c := children[i]; c != nil {
			if addr, err = c.Address(); err != nil {
				return err
			}
			pid, stop = c.Pid(), func() { _ = c.Stop() }
		}
		if err := t.add(mode, addr, pid, stop); err != nil {
			return err
		}
	}
	return nil
}

// measureText measures memcached and our servers in its protocol.
func measureText(l textLoad, modes, only string, rounds int, each time.Duration, js bool) error {
	t := textRows{load: l}
	defer func() {
		for _, p := range t.peers {
			p.close()
		}
	}()
	if err := t.start(strings.Split(modes, ",")); err != nil {
		return err
	}
	rows := t.rows
	if only != "" {
		rows = benchrows.Choose(rows, strings.Split(only, ","))
	}
	times := benchrows.Measure(rows, rounds, each)
	for _, p := range t.peers {
		if p.err != nil {
			return p.err
		}
	}
	if js {
		return times.JSON(os.Stdout, rows)
	}
	return times.Report(os.Stdout, rows)
}
