package main

import (
	"fmt"
	"time"
)

// shared is a link that so many client processes fill at once, beside as many flows of TCP cubic
// before them: the part of those flows' goodput that all get, and how even their shares are (Jain's
// index). Requests are long and answers short, so that both fill one way.
func shared(l shareLink, clients int) func(t *trial) {
	return func(t *trial) {
		t.must(t.shape(l.mbit, l.queue))
		t.serve(t.server, at4)
		tcp := t.iperf(l.span, "-O", "2", "-C", "cubic", "-P", fmt.Sprint(clients))
		reps := t.crowd(clients, l.span, "--deadline", "1m", "--size", fmt.Sprint(l.size),
			"--answer", "16", "--callers", fmt.Sprint(max(2, 8/clients)),
			"--watch=false")
		all := together(reps)
		t.answered(all)
		var sum, squares float64
		for _, rep := range reps {
			x := rep.phase("run").mbit()
			sum, squares = sum+x, squares+x*x
		}
		t.shown("TCP", tcp, "Mbit/s")
		t.atLeast("of TCP's", sum/tcp, 0.85, "times")
		t.atLeast("Jain's index", sum*sum/squares/float64(clients), 0.9, "of 1")
	}
}

// shareLink is a link, and the requests that fill it.
type shareLink struct {
	mbit        float64
	queue, size int // bytes
	span        time.Duration
}

// shareCases is a table: links from 2 Mbit/s to 1 Gbit/s, with one client to forty.
func shareCases() (list []testCase) {
	for _, l := range []shareLink{
		{2, 60_000, 20_000, 20 * time.Second},
		{10, 60_000, 40_000, 10 * time.Second},
		{100, 60_000, 100_000, 5 * time.Second},
		{1000, 600_000, 100_000, 5 * time.Second},
	} {
		for _, clients := range []int{1, 5, 20, 40} {
			list = append(list, testCase{
				name: fmt.Sprintf("share-%g-%d", l.mbit, clients), group: "share",
				what: fmt.Sprintf("%g Mbit/s and %d clients, beside %[2]d TCP flows before them",
					l.mbit, clients),
				try: shared(l, clients)})
			if l.mbit == 1000 && clients > 5 {
				list = append(list, testCase{
					name: fmt.Sprintf("bare-1000-%d", clients), group: "share",
					what: fmt.Sprintf("1 Gbit/s and %d bare senders of datagrams", clients),
					try:  bareShared(l, clients)})
			}
		}
	}
	return list
}
