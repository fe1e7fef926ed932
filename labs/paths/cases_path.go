package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	at4 = server4 + ":" + port
	at6 = "[" + server6 + "]:" + port
	key = "0123456789abcdef0123456789abcdef"
	// What iperf3 fills a queue with.
	tcpBoth, udpFlood = "--bidir -P 2", "-u -b 3M -l 1200"
	// collapse is what calls must have of TCP's goodput: less is a path on which nothing works.
	// Being as good as TCP there is not held here.
	collapse = 0.05
	// fullSize is the data in a packet of a plain session over IPv4 where the MTU is 1500.
	fullSize = 1448
	half     = 500 * time.Millisecond // the longest pause that a mended path may make
)

// fall is an MTU that falls to 1280 in mid-session.
func fall(addr string, back way, flags ...string) func(t *trial) {
	return func(t *trial) {
		t.hop(ways{})
		t.serve(t.server, addr, secret(flags)...)
		l := t.begin(t.client, addr, flags...)
		t.pass(half)
		l.mark("fall")
		t.change(both(back))
		l.until(5*time.Second, cut)
		rep := l.stop()
		t.answered(rep)
		t.within("pause", rep.phase("fall").Pause, half)
	}
}

// secret are those of the flags that both sides need.
func secret(flags []string) (both []string) {
	for i, f := range flags {
		if f == "--psk" || f == "--mtu" {
			both = append(both, flags[i:i+2]...)
		}
		if f == "--portable" {
			both = append(both, f)
		}
	}
	return both
}

// cut says that packets became shorter and that answers came since.
func cut(p *phase) bool { return p.Least > 0 && p.Least < fullSize-150 && p.Back > 0 }

// rise is an MTU that falls and rises again.
func rise(flags ...string) func(t *trial) {
	return func(t *trial) {
		t.hop(ways{})
		t.serve(t.server, at4, secret(flags)...)
		l := t.begin(t.client, at4, flags...)
		t.pass(half)
		l.mark("fall")
		t.change(both(way{MTU: 1280}))
		l.until(5*time.Second, cut)
		l.mark("rise")
		t.change(ways{})
		l.until(11*time.Second, func(p *phase) bool { return p.Full > 0 })
		rep := l.stop()
		t.answered(rep)
		t.within("full size again", rep.phase("rise").Full, 10*time.Second)
	}
}

// steady is a path that is bad in one way all the time, and on which packets keep their size.
func steady(w ways, d time.Duration, flags ...string) func(t *trial) {
	return func(t *trial) {
		t.hop(ways{})
		t.serve(t.server, at4)
		l := t.begin(t.client, at4, flags...)
		t.pass(half)
		l.mark("bad")
		t.change(w)
		t.pass(d)
		rep := l.stop()
		t.answered(rep)
		p := rep.phase("bad")
		t.none("bytes cut off a packet", rep.phase("begin").Size-p.Least)
		t.shown("goodput", p.mbit(), "Mbit/s")
		t.shown("slowest call", float64(p.Worst)/1e6, "ms")
	}
}

// fullQueue is the kernel's own token bucket of 2 Mbit/s, whose queue is always full.
func fullQueue(flags ...string) func(t *trial) {
	return func(t *trial) {
		t.serve(t.server, at4, secret(flags)...)
		l := t.begin(t.client, at4, append(flags, "--size", "100000", "--deadline", "1m")...)
		t.pass(half)
		l.mark("bad")
		t.must(t.shape(2, 60_000))
		t.pass(8 * time.Second)
		t.must(t.router.sh("tc qdisc del dev c root; tc qdisc del dev s root"))
		rep := l.stop()
		t.answered(rep)
		t.none("bytes cut off a packet", rep.phase("begin").Size-rep.phase("bad").Least)
	}
}

// black is a path that swallows long packets from the start, without a word.
func black(addr string, mtu int, flags ...string) func(t *trial) {
	return func(t *trial) {
		if mtu > 1280 { // jumbo frames at both ends
			for h, dev := range map[*host]string{t.client: "eth0", t.server: "eth0"} {
				t.must(h.sh("ip link set %s mtu 9000", dev))
			}
			t.must(t.router.sh("ip link set c mtu 9000; ip link set s mtu 9000"))
		}
		t.hop(both(way{MTU: mtu}))
		t.serve(t.server, addr, secret(flags)...)
		l := t.begin(t.client, addr, flags...)
		t.pass(time.Second)
		rep := l.stop()
		t.answered(rep)
		t.within("first answer", rep.Dialled, time.Second)
	}
}

// iperfServer starts iperf3 in the server, behind a launcher, and returns what ends it.
func (t *trial) iperfServer(launcher ...string) (stop func()) {
	s := t.server.cmd(append(launcher[:len(launcher):len(launcher)],
		"iperf3", "-s", "--forceflush")...)
	out, err := s.StdoutPipe()
	t.must(err)
	t.must(s.Start())
	for in := bufio.NewScanner(out); in.Scan() && !strings.Contains(in.Text(), "listening"); {
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
}

// crossed is a path of 2 Mbit/s whose queue iperf3 fills: by TCP both ways, or by UDP at a rate. A
// queue that is full for long packets has room for short ones.
func crossed(iperf string, flags ...string) func(t *trial) {
	return func(t *trial) {
		t.serve(t.server, at4, secret(flags)...)
		l := t.begin(t.client, at4, append(flags, "--deadline", "30s")...)
		t.pass(half)
		t.must(t.shape(2, 60_000))
		defer t.iperfServer()()
		l.mark("bad")
		t.must(t.client.sh("iperf3 -c %s -t 6 %s", server4, iperf))
		rep := l.stop()
		t.answered(rep)
		t.none("bytes cut off a packet", rep.phase("begin").Size-rep.phase("bad").Least)
		t.shown("goodput", rep.phase("bad").mbit(), "Mbit/s")
	}
}

// iperf is the goodput of TCP from client to server in Mbit/s.
func (t *trial) iperf(d time.Duration, flags ...string) float64 {
	return t.iperfBy(nil, d, flags...)
}

// iperfBy is iperf with a server behind a launcher.
func (t *trial) iperfBy(launcher []string, d time.Duration, flags ...string) float64 {
	defer t.iperfServer(launcher...)()
	out, err := t.client.run(append([]string{"iperf3", "-J", "-c", server4, "-t",
		fmt.Sprint(int(d.Seconds()))}, flags...)...)
	t.must(err)
	var r struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	t.must(json.Unmarshal([]byte(out), &r))
	if r.End.Received.Rate == 0 {
		t.must(fmt.Errorf("iperf3 measured nothing: %s", out))
	}
	return r.End.Received.Rate / 1e6
}

// crowd is clients that load the server at once for d, in phase "run", and what they report.
func (t *trial) crowd(clients int, d time.Duration, flags ...string) []*loadReport {
	list := make([]*running, clients)
	for i := range list {
		list[i] = t.launch(nil, t.client, at4, flags...)
	}
	return runAll(t, list, d)
}

// runAll has loads run side by side for d, in phase "run", and returns their reports.
func runAll(t *trial, list []*running, d time.Duration) []*loadReport {
	for _, l := range list {
		l.ready()
	}
	for _, l := range list {
		l.mark("run")
	}
	t.pass(d)
	reps := make([]*loadReport, len(list))
	var stops []func()
	for i, l := range list {
		stops = append(stops, func() { reps[i] = l.stop() })
	}
	parallel(stops...)
	return reps
}

// shaped is a link of a rate, beside TCP in the same run.
func shaped(mbit float64, queue int, ratio float64, clients int, flags ...string) func(t *trial) {
	return func(t *trial) {
		t.must(t.shape(mbit, queue))
		t.serve(t.server, at4)
		tcp := t.iperf(3 * time.Second)
		reps := t.crowd(clients, 3*time.Second, append([]string{"--deadline", "30s"}, flags...)...)
		all := together(reps)
		ours := all.mbit("run")
		t.answered(all)
		least := fullSize
		for _, p := range all.Phases {
			if p.Name == "run" && p.Least > 0 {
				least = min(least, p.Least)
			}
		}
		t.none("bytes cut off a packet", fullSize-least)
		t.shown("TCP", tcp, "Mbit/s")
		t.shown("goodput", ours, "Mbit/s")
		if ratio > 0 {
			t.atLeast("of TCP's", ours/tcp, ratio, "times")
		} else {
			t.shown("of TCP's", ours/tcp, "times")
		}
	}
}

// beside is a link that so many clients, which follow losses, share with as many flows of TCP
// cubic. They get a part of what those get at least, and twice as much at most. These are echoes:
// half of what clients have under way goes the other way.
func beside(mbit float64, queue, clients int, least float64) func(t *trial) {
	return func(t *trial) {
		t.must(t.shape(mbit, queue))
		t.serve(t.server, at4)
		list := make([]*running, clients)
		for i := range list {
			list[i] = t.launch(nil, t.client, at4, "--deadline", "30s",
				"--cc", "cubic", "--size", "200000", "--callers", "4")
		}
		for _, l := range list {
			l.ready()
		}
		tcp := 0.0
		parallel(func() {
			tcp = t.iperf(10*time.Second, "-O", "3", "-C", "cubic", "-P", fmt.Sprint(clients))
		}, func() {
			t.pass(3 * time.Second)
			for _, l := range list {
				l.mark("beside")
			}
			t.pass(10 * time.Second)
			for _, l := range list {
				l.mark("after")
			}
		})
		ours := 0.0
		for _, l := range list {
			rep := l.stop()
			t.answered(rep)
			ours += rep.phase("beside").mbit()
		}
		t.shown("TCP", tcp, "Mbit/s")
		t.shown("goodput", ours, "Mbit/s")
		t.atLeast("of TCP's", ours/tcp, least, "times")
		t.atLeast("TCP's of it", tcp/ours, 0.5, "times")
	}
}

// quietPath is a path without loss or a queue, on which congestion control must not take hosts that
// are busy for a network that is.
func quietPath(callers int) func(t *trial) {
	return func(t *trial) {
		rate := map[string]float64{}
		t.serve(t.server, at4)
		for _, cc := range []string{"none", "", "", "none"} {
			l := t.begin(t.client, at4, "--cc", cc, "--size", "40000",
				"--callers", fmt.Sprint(callers))
			l.mark("run")
			t.pass(1500 * time.Millisecond)
			rep := l.stop()
			t.answered(rep)
			rate[cc] += rep.phase("run").mbit()
		}
		t.shown("without control", rate["none"]/2, "Mbit/s")
		t.atLeast("of that", rate[""]/rate["none"], 0.9, "times")
	}
}

// vpn is a path through TUN devices, cut for two seconds.
func vpn(t *trial) {
	t.tunnel(1420)
	t.serve(t.server, "10.71.7.2:"+port)
	l := t.begin(t.client, "10.71.7.2:"+port, "--size", "40000")
	t.pass(half)
	t.change(both(way{Cut: true}))
	t.pass(2 * time.Second)
	l.mark("back")
	t.change(ways{})
	t.pass(time.Second)
	rep := l.stop()
	t.answered(rep)
	t.within("back", rep.phase("back").Pause, half)
}

func vxlan(t *trial) {
	for i, h := range []*host{t.client, t.server} {
		t.must(h.sh("ip link add vx type vxlan id 7 dstport 4789 local 10.71.%d.1 remote 10.71.%d.1"+
			" dev eth0; ip addr add 10.71.7.%d/24 dev vx; ip link set vx up", 1+i, 2-i, 1+i))
	}
	t.serve(t.server, "10.71.7.2:"+port)
	l := t.begin(t.client, "10.71.7.2:"+port, "--size", "40000")
	t.pass(time.Second)
	t.answered(l.stop())
}

func noOffload(t *trial) {
	for h, dev := range map[*host]string{t.client: "eth0", t.server: "eth0", t.router: "c s"} {
		t.must(h.sh("for d in %s; do ethtool -K $d tx off gso off gro off >/dev/null; done", dev))
	}
	t.serve(t.server, at4)
	l := t.begin(t.client, at4, "--size", "40000")
	t.pass(time.Second)
	t.answered(l.stop())
}

// silent is a way that drops what is longer, told one that answers too.
var silent, told = way{MTU: 1280}, way{MTU: 1280, ICMP: true}

var mtuCases = []testCase{
	{name: "mtu-icmp", group: "mtu", rows: "1", what: "1500 to 1280, ICMP says so",
		turns: 3, try: fall(at4, told, "--size", "100000")},
	{name: "mtu-silent", group: "mtu", rows: "1", what: "1500 to 1280 without a word", ci: true,
		turns: 3, try: fall(at4, silent, "--size", "100000")},
	{name: "mtu-silent-5k", group: "mtu", rows: "1", what: "... calls of 5 kB",
		turns: 3, try: fall(at4, silent, "--size", "5000")},
	{name: "mtu-icmp-psk", group: "mtu", rows: "1", what: "1500 to 1280, sealed, ICMP",
		turns: 3, try: fall(at4, told, "--size", "100000", "--psk", key)},
	{name: "mtu-silent-psk", group: "mtu", rows: "1", what: "1500 to 1280, sealed, silent", ci: true,
		turns: 3, try: fall(at4, silent, "--size", "100000", "--psk", key)},
	{name: "mtu-icmp-v6", group: "mtu", rows: "1", what: "1500 to 1280 over IPv6, packet too big",
		turns: 3, try: fall(at6, told, "--size", "100000")},
	{name: "mtu-silent-v6", group: "mtu", rows: "1", what: "1500 to 1280 over IPv6, silent",
		turns: 3, try: fall(at6, silent, "--size", "100000")},
	{name: "mtu-rise", group: "mtu", rows: "1", what: "1500 to 1280 and back", ci: true,
		try: rise("--size", "40000", "--every", "5ms")},
	{name: "mtu-rise-psk", group: "mtu", rows: "1", what: "... sealed",
		try: rise("--size", "40000", "--every", "5ms", "--psk", key)},
	{name: "asym-mtu", group: "mtu", what: "only the way back falls to 1280, silent",
		try: func(t *trial) {
			t.hop(ways{})
			t.serve(t.server, at4)
			l := t.begin(t.client, at4, "--size", "100000")
			t.pass(half)
			l.mark("fall")
			t.change(ways{Back: silent})
			l.until(5*time.Second, cut)
			rep := l.stop()
			t.answered(rep)
			t.within("pause", rep.phase("fall").Pause, half)
		}},
	{name: "black-v4", group: "mtu", rows: "35", what: "1280 at connect, silent",
		try: black(at4, 1280, "--size", "40000")},
	{name: "black-v6", group: "mtu", rows: "35", what: "... over IPv6",
		try: black(at6, 1280, "--size", "40000")},
	{name: "black-psk", group: "mtu", rows: "35", what: "... sealed",
		try: black(at4, 1280, "--size", "40000", "--psk", key)},
	{name: "black-jumbo", group: "mtu", rows: "35", what: "9000 at both ends, 1500 between, silent",
		ci: true, try: black(at4, 1500, "--size", "100000")},
	{name: "black-portable", group: "mtu", rows: "35",
		what: "portable sockets, 1280, fragments and ICMP dropped",
		try:  black(at4, 1280, "--size", "40000", "--portable")},
	{name: "black-portable-v6", group: "mtu", rows: "35", what: "... over IPv6",
		try: black(at6, 1280, "--size", "40000", "--portable")},
}

var queueCases = []testCase{
	{name: "queue-2mbit", group: "queue", rows: "10", what: "a full queue of 60 kB at 2 Mbit/s",
		try: steady(both(way{Rate: 2e6, Queue: 60_000}), 8*time.Second, "--size", "40000",
			"--callers", "8", "--deadline", "30s")},
	{name: "queue-2mbit-small", group: "queue", rows: "10", what: "... calls of 1 kB",
		try: steady(both(way{Rate: 2e6, Queue: 60_000}), 8*time.Second, "--size", "1000",
			"--callers", "64", "--deadline", "30s")},
	{name: "queue-tbf", group: "queue", rows: "10", what: "... by the kernel, calls of 100 kB",
		try: fullQueue("--callers", "8")},
	{name: "queue-tbf-psk", group: "queue", rows: "10", what: "... sealed",
		try: fullQueue("--callers", "8", "--psk", key)},
	{name: "queue-tcp", group: "queue", rows: "10", what: "2 Mbit/s that TCP fills both ways",
		try: crossed(tcpBoth, "--size", "5000")},
	{name: "queue-tcp-psk", group: "queue", rows: "10", what: "... sealed",
		try: crossed(tcpBoth, "--size", "5000", "--psk", key)},
	{name: "queue-flood", group: "queue", rows: "10", what: "2 Mbit/s that UDP fills at 3", ci: true,
		turns: 2, try: crossed(udpFlood, "--size", "5000")},
	{name: "queue-flood-psk", group: "queue", rows: "10", what: "... sealed",
		turns: 2, try: crossed(udpFlood, "--size", "5000", "--psk", key)},
	{name: "loss-13", group: "queue", rows: "10", what: "13 % of the packets are lost", ci: true,
		try: steady(both(way{Loss: 0.13}), 4*time.Second, "--size", "10000", "--deadline", "30s")},
	{name: "loss-30", group: "queue", rows: "10", what: "30 % of the packets are lost",
		try: steady(both(way{Loss: 0.3}), 6*time.Second, "--size", "10000", "--deadline", "30s")},
	{name: "delay-jitter", group: "queue", what: "30 ms each way and up to 10 ms more",
		try: steady(both(way{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond}),
			3*time.Second, "--size", "10000")},
	{name: "asym-rate", group: "queue", what: "1 Mbit/s there, 20 Mbit/s and 20 ms back",
		try: steady(ways{To: way{Rate: 1e6, Queue: 60_000}, Back: way{Rate: 20e6, Queue: 60_000,
			Delay: 20 * time.Millisecond}}, 4*time.Second, "--size", "4000", "--deadline", "30s")},
	{name: "rate-0.1", group: "rate", rows: "11", what: "0.1 Mbit/s beside TCP",
		try: shaped(0.1, 15_000, collapse, 1, "--size", "1000", "--callers", "1")},
	{name: "rate-2", group: "rate", rows: "11", what: "2 Mbit/s beside TCP",
		try: shaped(2, 60_000, collapse, 1, "--size", "40000")},
	{name: "rate-2-8", group: "rate", rows: "10,11", what: "8 clients through 2 Mbit/s",
		try: shaped(2, 60_000, collapse, 8, "--size", "40000", "--callers", "1")},
	{name: "rate-10", group: "rate", rows: "11", what: "10 Mbit/s beside TCP",
		try: shaped(10, 60_000, collapse, 1, "--size", "40000")},
	{name: "rate-10-8", group: "rate", rows: "10,11", what: "8 clients through 10 Mbit/s",
		try: shaped(10, 60_000, collapse, 8, "--size", "40000", "--callers", "2")},
	{name: "rate-100", group: "rate", rows: "11", what: "100 Mbit/s beside TCP",
		try: shaped(100, 60_000, collapse, 1, "--size", "40000")},
	{name: "rate-1000", group: "rate", rows: "11", what: "1 Gbit/s beside TCP",
		try: shaped(1000, 600_000, collapse, 1, "--size", "40000")},
	{name: "rate-10000", group: "rate", rows: "9", what: "10 Gbit/s beside TCP",
		try: shaped(10_000, 6_000_000, 0, 1, "--size", "40000", "--callers", "16")},
	{name: "rate-100-5", group: "rate", rows: "11", what: "5 clients through 100 Mbit/s",
		try: shaped(100, 60_000, collapse, 5, "--size", "40000")},
	{name: "rate-100-40", group: "rate", rows: "11", what: "40 clients through 100 Mbit/s",
		try: shaped(100, 60_000, collapse, 40, "--size", "40000", "--callers", "2")},
	{name: "beside-100", group: "rate", what: "4 clients and 4 TCP flows share 100 Mbit/s",
		try: beside(100, 60_000, 4, 0.3)},
	{name: "beside-1000", group: "rate", what: "4 clients and 4 TCP flows share 1 Gbit/s",
		try: beside(1000, 600_000, 4, 0.2)},
	{name: "cc-quiet-1", group: "rate", rows: "9", what: "40 kB echo, no loss, beside no control",
		turns: 3, try: quietPath(1)},
	{name: "cc-quiet-4", group: "rate", rows: "9", what: "... 4 callers", turns: 3, try: quietPath(4)},
	{name: "cc-quiet-16", group: "rate", rows: "9", what: "... 16 callers", turns: 3,
		try: quietPath(16)},
	{name: "cc-quiet-64", group: "rate", rows: "9", what: "... 64 callers", turns: 3,
		try: quietPath(64)},
}

var linkCases = []testCase{
	{name: "no-offload", group: "link", rows: "12", what: "links without checksums and GSO",
		try: noOffload},
	{name: "vxlan", group: "link", rows: "17", what: "through VXLAN", try: vxlan},
	{name: "vpn-1420", group: "link", rows: "18", what: "TUN devices of 1420, cut for 2 s", ci: true,
		try: vpn},
	{name: "damaged", group: "link", rows: "38", what: "damaged packets pass veth",
		void: "veth checks no sums and this kernel damages none (no netem); Config.Checksum names " +
			"the limit, and erpc/simtest and transport/faulty damage packets below the core"},
}
