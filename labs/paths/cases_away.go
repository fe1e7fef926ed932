package main

import (
	"fmt"
	"syscall"
	"time"
)

// Addresses that the router translates.
const (
	service = "10.71.9.1" // a Service, or a published port
	pod     = "10.71.3.1" // the second pod
)

// shortTracking makes the router forget flows after some seconds.
func (t *trial) shortTracking(seconds int) {
	t.must(t.router.nft("table ip lab { chain pre { type nat hook prerouting priority dstnat; } " +
		"chain post { type nat hook postrouting priority srcnat; } }"))
	t.must(t.router.sh("for f in udp_timeout udp_timeout_stream; do"+
		" echo %d >/proc/sys/net/netfilter/nf_conntrack_$f; done", seconds))
}

// point makes the service's address lead to a pod.
func (t *trial) point(to string) {
	t.must(t.router.nft(fmt.Sprintf("flush chain ip lab pre\n"+
		"add rule ip lab pre ip daddr %s udp dport %s dnat to %s:%s", service, port, to, port)))
}

// replaced is a pod that dies, and another that takes its place behind the same address. If its
// machine goes with it nobody says so, and the peer counts as lost after FailureTimeout, 3 s.
func replaced(silent bool, kind string, back time.Duration) func(t *trial) {
	return func(t *trial) {
		other, err := newHost("pod", t.dir)
		t.must(err)
		defer other.close()
		t.must(t.link(other, "p", 3))
		t.shortTracking(3)
		t.point(server4)
		first := t.serve(t.server, server4+":"+port)
		t.serve(other, pod+":"+port)
		defer func() { t.children[1].end() }() // before its host
		l := t.begin(t.client, service+":"+port, "--kind", kind, "--deadline", "20s")
		t.pass(time.Second)
		if silent {
			t.must(t.router.sh("ip link set s down"))
		}
		first.kill()
		t.point(pod)
		l.mark("replaced")
		t.pass(100 * time.Millisecond)
		t.must(t.server.sh("ip addr flush dev eth0"))
		l.until(back+2*time.Second, came)
		rep := l.stop()
		t.named(rep)
		t.within("back", rep.phase("replaced").Back, back)
	}
}

// masquerade hides the client behind the router, which forgets fast.
func masquerade(try func(t *trial)) func(t *trial) {
	return func(t *trial) {
		t.shortTracking(2)
		t.must(t.router.nft("add rule ip lab post oifname s masquerade random"))
		t.serve(t.server, at4)
		try(t)
	}
}

// rebound is a NAT that forgets all flows under load, so that the client has another port.
func rebound(flags ...string) func(t *trial) {
	return func(t *trial) {
		t.shortTracking(2)
		t.must(t.router.nft("add rule ip lab post oifname s masquerade random"))
		t.serve(t.server, at4, secret(flags)...)
		l := t.begin(t.client, at4, append(flags, "--deadline", "20s")...)
		t.pass(time.Second)
		_, err := t.router.run("conntrack", "-F")
		t.must(err)
		l.mark("flushed")
		l.until(5*time.Second, came)
		rep := l.stop()
		t.named(rep)
		t.within("back", rep.phase("flushed").Back, 4*time.Second)
	}
}

// firewall is a rule of the router, or of the client, that comes and goes.
func firewall(h func(t *trial) *host, hook, verdict string, d time.Duration) func(t *trial) {
	return func(t *trial) {
		t.serve(t.server, at4)
		l := t.begin(t.client, at4)
		t.pass(half)
		t.must(h(t).nft("table ip wall { chain c { type filter hook " + hook +
			" priority 0; meta l4proto udp " + verdict + "; } }"))
		t.pass(d)
		l.mark("open")
		t.must(h(t).nft("delete table ip wall"))
		t.pass(1500 * time.Millisecond)
		rep := l.stop()
		t.named(rep)
		t.within("back", rep.phase("open").Back, half)
	}
}

func onRouter(t *trial) *host { return t.router }
func onClient(t *trial) *host { return t.client }

// byName is a server under a name whose addresses do not all work, beside Go's dial of that name.
func byName(names, kind string, prepare func(t *trial), servers ...string) func(t *trial) {
	return func(t *trial) {
		t.must(t.client.names(names))
		if prepare != nil {
			prepare(t)
		}
		for _, addr := range servers {
			t.serve(t.server, addr, "--tcp")
		}
		const name = "server.lab:" + port
		tcp := t.begin(t.client, name, "--kind", "tcp", "--deadline", "4s").stop()
		l := t.begin(t.client, name, "--kind", kind, "--deadline", "4s")
		t.pass(50 * time.Millisecond)
		rep := l.stop()
		if rep.DialError == "" {
			t.endings(rep)
		}
		t.none("dials failed", dialFailed(rep))
		t.shown("net.Dial", float64(tcp.Dialled)/1e6, "ms")
		t.within("first answer", rep.Dialled, 2*time.Second)
		if tcp.DialError == "" {
			t.atMost("behind net.Dial", float64(rep.Dialled-tcp.Dialled)/1e6, 300, "ms")
		}
	}
}

const bothNames = server4 + " server.lab\n" + server6 + " server.lab\n"

// only6 takes IPv4 off the client.
func only6(t *trial) { t.must(t.client.sh("ip -4 addr flush dev eth0")) }

// lost drops what the router should forward to an address.
func lost(family, to string) func(t *trial) {
	return func(t *trial) {
		t.must(t.router.nft("table " + family + " gone { chain c { type filter hook forward priority" +
			" 0; " + family + " daddr " + to + " drop; } }"))
	}
}

// mapped dials an IPv4 address written as IPv6, from sockets of four kinds.
func mapped(t *trial) {
	t.must(t.client.names("::ffff:" + server4 + " server.lab\n"))
	t.serve(t.server, at4)
	for _, to := range []string{"[::ffff:" + server4 + "]:" + port, "server.lab:" + port} {
		for _, local := range []string{":0", "0.0.0.0:0", "[::]:0", client4 + ":0"} {
			l := t.begin(t.client, to, "--local", local)
			t.pass(50 * time.Millisecond)
			t.answered(l.stop())
		}
	}
}

// address takes the address away that the client's packets leave from. Another one stays.
func address(to, prepare, change string) func(t *trial) {
	return func(t *trial) {
		t.must(t.client.sh("%s", prepare))
		t.serve(t.server, to)
		l := t.begin(t.client, to, "--deadline", "20s")
		t.pass(half)
		t.must(t.client.sh("%s", change))
		l.mark("changed")
		l.until(5*time.Second, came)
		rep := l.stop()
		t.named(rep)
		t.within("back", rep.phase("changed").Back, 4*time.Second)
	}
}

// boundAway takes the only address of a bound socket away for three seconds.
func boundAway(t *trial) {
	t.serve(t.server, at4)
	l := t.begin(t.client, at4, "--local", client4+":0", "--deadline", "2s")
	t.pass(half)
	t.must(t.client.sh("ip addr del %s/24 dev eth0", client4))
	t.pass(3 * time.Second)
	l.mark("back")
	t.must(t.client.sh("ip addr add %s/24 dev eth0; ip route add default via %s", client4, router1))
	t.pass(3 * time.Second)
	rep := l.stop()
	t.named(rep)
	t.within("back", rep.phase("back").Back, time.Second)
}

// linkDown is the client's link, which the router loses for a while.
func linkDown(d, back time.Duration) func(t *trial) {
	return func(t *trial) {
		t.serve(t.server, at4)
		l := t.begin(t.client, at4)
		t.pass(half)
		t.must(t.router.sh("ip link set c down"))
		t.pass(d)
		t.must(t.router.sh("ip link set c up"))
		t.must(t.await("c", t.client)) // the kernel takes up to a second
		l.mark("up")
		t.pass(2 * time.Second)
		rep := l.stop()
		t.named(rep)
		t.within("back", rep.phase("up").Back, back)
	}
}

// restart is a server that is killed and comes back at its address.
func restart(after time.Duration) func(t *trial) {
	return func(t *trial) {
		s := t.serve(t.server, at4)
		l := t.begin(t.client, at4)
		t.pass(half)
		s.kill()
		t.pass(after)
		l.mark("restarted")
		t.serve(t.server, at4)
		l.until(3*time.Second, came)
		rep := l.stop()
		t.named(rep)
		t.within("back", rep.phase("restarted").Back, 1500*time.Millisecond)
	}
}

// suspended stops a process for a while. One second is no reason to fail anything.
func suspended(server bool, d time.Duration) func(t *trial) {
	return func(t *trial) {
		s := t.serve(t.server, at4)
		l := t.begin(t.client, at4)
		t.pass(half)
		l.mark("stopped")
		p := s
		if !server {
			p = l.child
		}
		p.signal(syscall.SIGSTOP)
		t.pass(d)
		p.signal(syscall.SIGCONT)
		l.mark("goes on")
		t.pass(1500 * time.Millisecond)
		rep := l.stop()
		if d < 3*time.Second {
			t.answered(rep)
		} else {
			t.named(rep)
		}
		t.within("back", rep.phase("goes on").Back, half)
	}
}

// closedPort is a server that is not there, on a machine that says so.
func closedPort(t *trial) {
	rep := t.begin(t.client, at4).stop()
	if rep.DialError == "" {
		t.must(fmt.Errorf("somebody answered at a closed port"))
	}
	t.within("error after", rep.Dialled, 300*time.Millisecond)
}

var awayCases = []testCase{
	{name: "pod-replaced", group: "nat", rows: "2", what: "pod killed, Service names another",
		ci:  true,
		try: replaced(false, "client", 2*time.Second)},
	{name: "pod-replaced-pool", group: "nat", rows: "2", what: "... called by a Pool",
		try: replaced(false, "pool", 2*time.Second)},
	{name: "pod-gone", group: "nat", rows: "2", what: "pod's machine gone, Service names another",
		try: replaced(true, "client", 5*time.Second)},
	{name: "nat-rebound", group: "nat", rows: "20", what: "conntrack -F under load", ci: true,
		try: rebound()},
	{name: "nat-rebound-psk", group: "nat", rows: "20", what: "... sealed",
		try: rebound("--psk", key)},
	{name: "nat-idle", group: "nat", rows: "20", what: "idle for 8 s, forgotten after 2",
		try: masquerade(func(t *trial) {
			l := t.begin(t.client, at4, "--callers", "1", "--every", "8s")
			t.pass(9 * time.Second)
			t.answered(l.stop())
		})},
	{name: "published", group: "nat", rows: "21", what: "DNAT and masquerade, server on all addresses",
		try: masquerade(func(t *trial) {
			t.point(server4)
			t.serve(t.server, ":31851")
			t.must(t.router.nft(fmt.Sprintf("add rule ip lab pre ip daddr %s udp dport 31851 dnat to"+
				" %s:31851", service, server4)))
			l := t.begin(t.client, service+":31851")
			t.pass(time.Second)
			t.answered(l.stop())
		})},
	{name: "reject-port", group: "firewall", rows: "19", what: "REJECT for 500 ms", ci: true,
		try: firewall(onRouter, "forward", "reject", half)},
	{name: "reject-host", group: "firewall", rows: "19", what: "... as host-prohibited",
		try: firewall(onRouter, "forward", "reject with icmp type host-prohibited", half)},
	{name: "reject-net", group: "firewall", rows: "19", what: "... as net-unreachable",
		try: firewall(onRouter, "forward", "reject with icmp type net-unreachable", half)},
	{name: "drop-forward", group: "firewall", what: "DROP for 2 s",
		try: firewall(onRouter, "forward", "drop", 2*time.Second)},
	{name: "drop-output", group: "firewall", rows: "15",
		what: "the client's own kernel says EPERM, 2 s",
		try:  firewall(onClient, "output", "drop", 2*time.Second)},
	{name: "v6-only", group: "names", rows: "7", what: "client without IPv4, name with A and AAAA",
		ci: true, try: byName(bothNames, "client", only6, at6)},
	{name: "v6-only-pool", group: "names", rows: "7,39", what: "... called by a Pool",
		try: byName(bothNames, "pool", only6, at6)},
	{name: "v4-dead", group: "names", rows: "7,39", what: "A and AAAA, packets over IPv4 vanish",
		try: byName(bothNames, "client", lost("ip", server4), at6)},
	{name: "v4-dead-pool", group: "names", rows: "39", what: "... called by a Pool",
		try: byName(bothNames, "pool", lost("ip", server4), at6)},
	{name: "v4-closed-pool", group: "names", rows: "39", what: "A and AAAA, a server on IPv6 alone",
		try: byName(bothNames, "pool", nil, at6)},
	{name: "v6-dead", group: "names", rows: "7", what: "A and AAAA, packets over IPv6 vanish",
		try: byName(bothNames, "client", lost("ip6", server6), at4)},
	{name: "first-dead", group: "names", rows: "7", what: "two A records, the first is dead", ci: true,
		try: byName("10.71.2.77 server.lab\n"+server4+" server.lab\n", "client",
			lost("ip", "10.71.2.77"), at4)},
	{name: "v4-mapped", group: "names", rows: "16", what: "::ffff:a.b.c.d from four kinds of sockets",
		try: mapped},
	{name: "address-v6", group: "address", rows: "13", what: "the IPv6 address in use is deleted",
		try: address(at6, "ip addr add fd71:1::2/64 dev eth0 nodad preferred_lft 0",
			"ip addr del fd71:1::1/64 dev eth0")},
	{name: "address-v4", group: "address", rows: "13", what: "the IPv4 address in use is deleted",
		ci: true, try: address(at4, "echo 1 >/proc/sys/net/ipv4/conf/all/promote_secondaries;"+
			" ip addr add 10.71.1.2/24 dev eth0",
			"ip addr del 10.71.1.1/24 dev eth0; ip route replace default via "+router1)},
	{name: "bound-away", group: "address", rows: "14", what: "bound address away for 3 s",
		try: boundAway},
	{name: "link-down", group: "address",
		what: "link down for 500 ms", try: linkDown(half, time.Second)},
	{name: "link-down-5s", group: "address", what: "link down for 5 s",
		try: linkDown(5*time.Second, 1500*time.Millisecond)},
	{name: "restart", group: "process", rows: "34", what: "kill -9, again after 200 ms", ci: true,
		try: restart(200 * time.Millisecond)},
	{name: "restart-5s", group: "process", rows: "34", what: "kill -9, again after 5 s",
		try: restart(5 * time.Second)},
	{name: "stop-server", group: "process", what: "SIGSTOP of the server for 1 s", ci: true,
		try: suspended(true, time.Second)},
	{name: "stop-client", group: "process", what: "SIGSTOP of the client for 1 s",
		try: suspended(false, time.Second)},
	{name: "stop-server-5s", group: "process", what: "SIGSTOP of the server for 5 s",
		try: suspended(true, 5*time.Second)},
	{name: "closed-port", group: "process", what: "nobody listens, ICMP says so", ci: true,
		turns: 3, try: closedPort},
}
