package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// busyHost is a link that so many client processes fill at once, to a server that shares one
// processor with others which work all the time, beside as many flows of TCP cubic before to an
// iperf3 that shares it with the same ones. The launcher is in front of either server.
func busyHost(l shareLink, clients, others int, launcher ...string) func(t *trial) {
	return func(t *trial) {
		t.must(t.shape(l.mbit, l.queue))
		first := append([]string{"taskset", "-c", fmt.Sprint(t.processor())}, launcher...)
		defer t.burn(others, first[:3])()
		t.serveBy(first, t.server, at4)
		tcp := t.iperfBy(first, l.span, "-O", "2", "-C", "cubic", "-P", fmt.Sprint(clients))
		all := together(t.crowd(clients, l.span, "--deadline", "1m", "--size", fmt.Sprint(l.size),
			"--answer", "16", "--callers", fmt.Sprint(max(2, 8/clients))))
		t.answered(all)
		t.shown("TCP", tcp, "Mbit/s")
		t.atLeast("of TCP's", all.mbit("run")/tcp, 0.85, "times")
	}
}

// processor returns the first one that this process may use.
func (t *trial) processor() (cpu int) {
	var may unix.CPUSet
	t.must(unix.SchedGetaffinity(0, &may))
	for !may.IsSet(cpu) {
		cpu++
	}
	return cpu
}

// burn starts processes that do nothing but use a processor, and returns what ends them.
func (t *trial) burn(count int, launcher []string) (stop func()) {
	var ends []func()
	for range count {
		c := t.server.cmd(append(launcher[:len(launcher):len(launcher)],
			"sh", "-c", "while :; do :; done")...)
		t.must(c.Start())
		ends = append(ends, func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// busyCases is a table: one client and five, links of 10 and 100 Mbit/s, a server that takes turns
// with three others, and one that they leave a hundredth of the processor.
func busyCases() (list []testCase) {
	for _, l := range []shareLink{
		{10, 60_000, 40_000, 5 * time.Second}, {100, 60_000, 100_000, 5 * time.Second},
	} {
		for _, clients := range []int{1, 5} {
			name := fmt.Sprintf("busy-%g-%d", l.mbit, clients)
			what := fmt.Sprintf("%g Mbit/s and %d clients, to a server beside 3 that take its processor",
				l.mbit, clients)
			list = append(list,
				testCase{name: name, group: "busy", what: what, try: busyHost(l, clients, 3)},
				testCase{name: name + "-nice", group: "busy", what: what + ", and come first",
					try: busyHost(l, clients, 3, "nice", "-n", "15")})
		}
	}
	return list
}
