package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// refusals are what containers refuse, each in a run of its own.
var refusals = []struct{ calls, errno string }{
	{"memfd_create", "EPERM"}, {"memfd_create", "ENOSYS"},
	{"sendmmsg,recvmmsg", "EPERM"}, {"sendmmsg,recvmmsg", "ENOSYS"},
	{"sched_setaffinity,sched_getaffinity", "EPERM"}, {"mlock", "EPERM"}, {"madvise", "ENOSYS"},
	{"mbind,get_mempolicy,set_mempolicy", "EPERM"}, {"mbind,get_mempolicy,set_mempolicy", "ENOSYS"},
	{"bpf", "EPERM"}, {"io_uring_setup", "EPERM"}, {"membarrier", "EPERM"},
	{"membarrier", "ENOSYS"}, {"getrandom", "ENOSYS"},
	{"setsockopt:1=17:2=103", "EPERM"}, {"setsockopt:1=17:2=103", "ENOSYS"}, // UDP_SEGMENT
	{"setsockopt:1=17:2=104", "EPERM"}, {"setsockopt:1=17:2=104", "ENOSYS"}, // UDP_GRO
	{"setsockopt:1=0:2=11", "EPERM"}, {"setsockopt:1=0:2=11", "ENOPROTOOPT"}, // IP_RECVERR
	{"setsockopt:1=1:2=8", "EPERM"}, // SO_RCVBUF
}

// portableWay are refusals that leave the portable socket.
var portableWay = []struct{ calls, errno string }{
	{"setsockopt:1=0:2=10", "EPERM"}, {"setsockopt:1=0:2=10", "ENOPROTOOPT"}, // IP_MTU_DISCOVER
	{"ppoll", "EPERM"}, {"ppoll", "ENOSYS"},
}

// refused runs server and load under each refusal, side by side with nothing.
func refused(list []struct{ calls, errno string }) func(t *trial) {
	return func(t *trial) {
		bad := 0
		for i, r := range list {
			launcher := []string{self(), "deny", "--errno", r.errno, "--calls", r.calls, "--"}
			at := fmt.Sprintf("%s:%d", server4, 32000+i)
			err := t.attempt(func() {
				t.serveBy(launcher, t.server, at)
				l := t.beginBy(launcher, t.client, at, "--size", "40000")
				t.pass(50 * time.Millisecond)
				t.allAnswered(l.stop())
			})
			if err != nil {
				bad++
				t.notes = append(t.notes, fmt.Sprintf("%s %s: %v", r.calls, r.errno, err))
			}
		}
		t.atMost("runs failed", float64(bad), 0, "")
		t.shown("runs", float64(len(list)), "in all")
	}
}

// allAnswered fails the attempt if a call was not answered.
func (t *trial) allAnswered(rep *loadReport) {
	if rep.DialError != "" {
		t.must(fmt.Errorf("dial: %s", rep.DialError))
	}
	for _, p := range rep.Phases {
		if n := p.failed() + p.Wrong; n > 0 || rep.Unended > 0 {
			t.must(fmt.Errorf("%d calls failed, %d never ended", n, rep.Unended))
		}
	}
}

// no6 is a kernel without IPv6: sockets of that family are refused.
func no6(t *trial) {
	launcher := []string{self(), "deny", "--errno", "EAFNOSUPPORT", "--calls", "socket:0=10", "--"}
	t.serveBy(launcher, t.server, ":"+port)
	l := t.beginBy(launcher, t.client, at4)
	t.pass(100 * time.Millisecond)
	t.answered(l.stop())
}

// limits are those of the shell: few descriptors, no locked memory, little address space.
func limits(t *trial) {
	launcher := []string{"prlimit", "--nofile=16", "--memlock=0", "--as=2147483648", "--"}
	t.serveBy(launcher, t.server, at4)
	l := t.beginBy(launcher, t.client, at4, "--size", "40000")
	t.pass(500 * time.Millisecond)
	t.answered(l.stop())
}

// readOnly leaves nothing to write to but the lab's own folder, and shared memory without room.
func readOnly(t *trial) {
	t.must(t.client.sh("mount --bind %[1]s %[1]s; mount -t tmpfs -o size=4k full /dev/shm;"+
		" (cat /dev/zero >/dev/shm/x) 2>/dev/null || true; mount -o remount,bind,ro /;"+
		" ! touch /tmp/x 2>/dev/null", t.dir))
	launcher := []string{"env", "-i"}
	const at = "127.0.0.1:" + port
	t.serveBy(launcher, t.client, at, "--transport", "auto")
	l := t.beginBy(launcher, t.client, at, "--transport", "auto", "--local", "127.0.0.1:0",
		"--size", "40000")
	t.pass(500 * time.Millisecond)
	t.answered(l.stop())
}

// crowd is shared memory whose server has 48 descriptors, and 40 clients. Those that have no room
// read why, and one that comes when others have left is served.
func crowd(t *trial) {
	name := fmt.Sprintf("lab-%s", filepath.Base(t.dir))
	t.serveBy([]string{"prlimit", "--nofile=48", "--"}, t.client, name, "--transport", "shm")
	dial := func(i int) *running {
		return t.launch(nil, t.client, name, "--transport", "shm", "--callers", "1", "--every", "50ms",
			"--local", fmt.Sprintf("%s-%d", name, i))
	}
	var list []*running
	for i := range 40 {
		list = append(list, dial(i))
	}
	served, unsaid := 0, 0
	for _, l := range list {
		l.ready()
	}
	t.pass(300 * time.Millisecond)
	for _, l := range list {
		rep := l.stop()
		switch {
		case rep.DialError == "":
			served++
			t.endings(rep)
		case !reason.MatchString(rep.DialError):
			unsaid++
		}
	}
	t.atLeast("clients served", float64(served), 4, "")
	t.none("refusals that do not say why", unsaid)
	last := dial(40)
	last.ready()
	t.pass(300 * time.Millisecond)
	t.answered(last.stop())
}

// reason is in the error of a client for which the server has no descriptors.
var reason = regexp.MustCompile("files|descriptor|limit|exhausted")

// overcrowded is a server with 32 MiB for messages, and 36 callers who want 4 MB each. What is
// refused must not have run.
func overcrowded(t *trial) {
	t.serve(t.server, at4, "--memory", fmt.Sprint(32<<20), "--answer", "4000000")
	l := t.begin(t.client, at4, "--size", "64", "--answer", "4000000", "--callers", "36",
		"--deadline", "20s")
	l.mark("crowd")
	t.pass(3 * time.Second)
	rep := l.stop()
	t.named(rep)
	vain := 0
	for _, p := range rep.Phases {
		for kind, f := range p.Failed {
			if !strings.HasSuffix(kind, notRun) {
				vain += f.N
			}
		}
	}
	t.none("refused after they may have run", vain)
}

// flood is junk beside calls.
func flood(t *trial) {
	s := t.serve(t.server, at4)
	l := t.begin(t.client, at4)
	t.must(t.client.sh("%s junk --addr %s --n 30000", self(), at4))
	t.pass(200 * time.Millisecond)
	t.answered(l.stop())
	t.atMost("lines of the log", float64(strings.Count(s.stderr()+"\n", "\n")), 20, "")
}

// bench runs the command's bench in the client.
func bench(args ...string) func(t *trial) {
	return func(t *trial) {
		out, err := t.client.run(append([]string{t.command("erpc"), "bench"}, args...)...)
		if err != nil {
			t.notes = append(t.notes, err.Error(), out)
			t.none("failures", 1)
			return
		}
		t.none("failures", 0)
	}
}

// benchSlow is the command's bulk bench across 2 Mbit/s: it must not blame the server.
func benchSlow(t *trial) {
	t.must(t.shape(2, 60_000))
	s := t.server.cmd(t.command("erpc"), "server", "--addr", at4)
	in, err := s.StdinPipe()
	t.must(err)
	t.must(s.Start())
	defer func() {
		_ = in.Close()
		_ = s.Process.Kill()
		_ = s.Wait()
	}()
	t.pass(half)
	out, err := t.client.run(t.command("erpc"), "bench", "bandwidth", "--addr", at4,
		"--duration", "3s")
	text := out
	if err != nil {
		text += err.Error()
	}
	t.notes = append(t.notes, text)
	blames := 0
	if strings.Contains(text, "nothing runs the server's loop") {
		blames = 1
	}
	t.none("false blame of the server", blames)
}

// clocks are two machines whose monotonic clocks differ by days.
func clocks(t *trial) {
	t.serveBy([]string{"unshare", "--time", "--monotonic", "8640000", "--boottime", "8640000",
		"--fork", "--kill-child", "--"}, t.server, at4)
	l := t.begin(t.client, at4)
	t.pass(500 * time.Millisecond)
	t.answered(l.stop())
}

var hostCases = []testCase{
	{name: "clock-offset", group: "process",
		what: "the server's clock is 100 days ahead", try: clocks},
	{name: "clock-jump", group: "process", what: "the clock of a running process jumps",
		void: "a time namespace offsets clocks before its first process only, and the machine's clock " +
			"is others' too; the library reads CLOCK_MONOTONIC, which does not jump"},
	{name: "port-in-use", group: "process", rows: "34", what: "a second server on the port",
		try: func(t *trial) {
			t.serve(t.server, at4)
			err := t.attempt(func() { t.serve(t.server, at4) })
			unsaid := 0
			if err == nil || !strings.Contains(err.Error(), "address already in use") {
				unsaid = 1
			}
			t.none("errors that do not say so", unsaid)
		}},
	{name: "once-a-second", group: "process", rows: "32", what: "a call a second is not slow",
		try: func(t *trial) {
			t.serve(t.server, at4)
			l := t.begin(t.client, at4, "--callers", "1", "--every", "1s")
			t.pass(4500 * time.Millisecond)
			rep := l.stop()
			t.answered(rep)
			t.within("slowest call", rep.phase("begin").Worst, 10*time.Millisecond)
		}},
	{name: "sessions-64", group: "process", rows: "33", what: "bench rate with 64 sessions",
		try: bench("rate", "--sessions", "64", "--duration", "1s")},
	{name: "sessions-1000", group: "process", rows: "33", what: "... with 1000",
		try: bench("rate", "--sessions", "1000", "--duration", "1s")},
	{name: "symmetric", group: "process", rows: "33", what: "... each side client and server",
		try: bench("rate", "--symmetric", "--duration", "1s")},
	{name: "bench-sessions", group: "process", what: "bench sessions with its defaults",
		try: bench("sessions")},
	{name: "bench-slow", group: "process", what: "bench bandwidth across 2 Mbit/s", try: benchSlow},
	{name: "overcrowded", group: "memory", rows: "6", what: "4 MB answers at a MemoryLimit of 32 MiB",
		try: overcrowded},
	{name: "rcvbuf", group: "memory", rows: "22",
		what: "a receive buffer of 208 KiB, 64 callers of 40 kB",
		try: func(t *trial) {
			t.serve(t.server, at4, "--rcvbuf", "212992")
			l := t.begin(t.client, at4, "--rcvbuf", "212992", "--callers", "64", "--size", "40000")
			t.pass(2 * time.Second)
			t.answered(l.stop())
		}},
	{name: "limits", group: "container", rows: "25", what: "ulimit -n 16, -l 0, -v 2 GB", try: limits},
	{name: "seccomp", group: "container", rows: "23", what: "calls refused with EPERM, ENOSYS",
		try: refused(refusals)},
	{name: "seccomp-portable", group: "container", rows: "23",
		what: "IP_MTU_DISCOVER, ppoll refused: the portable way", try: refused(portableWay)},
	{name: "no-v6", group: "container", rows: "26", what: "a kernel without IPv6", try: no6},
	{name: "read-only", group: "container", rows: "24",
		what: "/ read-only, /dev/shm full, no environment",
		try:  readOnly},
	{name: "shm-crowd", group: "container", rows: "5", what: "48 descriptors, 40 clients over shm",
		try: crowd},
	{name: "junk", group: "process", rows: "37", what: "30,000 random datagrams",
		ci: true, try: flood},
	{name: "labels", group: "elsewhere", rows: "36", what: "labels of metrics do not grow with peers",
		test: "metrics/prometheus: TestCollect"},
	{name: "memcached-binary", group: "elsewhere", rows: "8",
		what: "the binary protocol is hung up on",
		test: "kv/memcached: TestRefusedValues"},
	{name: "memcached-noreply", group: "elsewhere", rows: "27,28,29",
		what: "noreply, odd keys, large values beside memcached itself",
		test: "kv/memcached: TestSameAsMemcached, kv/memcached: TestRefusedValues, " +
			"kv/memcached: TestSizes"},
	{name: "stale-reads", group: "elsewhere", rows: "31", what: "leader paused, read index and leases",
		test: "raft-example/raft-kv: TestPauses, raft-example/raft-kv: TestChaos, " +
			"raft-example/simtest: TestLeaseSplit"},
	{name: "accept-emfile", group: "elsewhere", rows: "4", what: "accept loops without descriptors",
		test: "kv/memcached: TestTooManyFiles, internal/accept: TestStays"},
}

// allCases is the table, in the order in which it runs.
var allCases = [][]testCase{mtuCases, queueCases, shareCases(), busyCases(), linkCases,
	awayCases, hostCases, diskCases}
