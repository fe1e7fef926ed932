package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/labs/benchrows"
)

// measureServers measures our server over a transport, beside memcached and redis as far as they
// are installed: servers on one core, their clients on another.
func measureServers(
	keys int, network, only string, rounds int, each time.Duration, asJSON bool,
) (err error) {
	w := newWords(keys)
	w.list = w.uniform()
	var peers []*peer
	defer func() {
		for _, p := range peers {
			p.Stop()
		}
	}()
	start := func(name string, start func(*words) (*peer, error)) *peer {
		if only != "" && !strings.Contains(only, name) {
			return nil
		}
		p, err := start(w)
		if p != nil {
			peers = append(peers, p)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "no rows of %s: %v\n", name, err)
			return nil
		}
		return p
	}
	mc, rd := start("memcached", startMemcached), start("redis", startRedis)
	r, err := newRemote(w, network)
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return err
	}
	own, err := connect(r.text, w)
	if err != nil {
		return err
	}
	peers = append(peers, own)
	rows := serverRows(r, own, mc, rd, network, keys)
	if only != "" {
		rows = benchrows.Choose(rows, strings.Split(only, ","))
	}
	times := benchrows.Measure(rows, rounds, each)
	for _, p := range peers {
		err = errors.Join(err, p.Err)
	}
	if err = errors.Join(err, r.load.Err); err != nil {
		return err
	}
	if w.wrong > 0 {
		return fmt.Errorf("%d wrong answers", w.wrong)
	}
	if asJSON {
		return times.JSON(os.Stdout, rows)
	}
	return times.Report(os.Stdout, rows)
}

// serverRows are the rows; mc and rd may be nil.
func serverRows(r *remote, own, mc, rd *peer, network string, keys int) []benchrows.Row {
	share := 0.8
	switch large := keys >= 16_000_000; {
	case network == "shm" && large:
		share = 0.55
	case network == "shm":
		share = 0.62
	case large:
		share = 0.7
	}
	const many, one = "multi-gets of 64", "pipelined gets"
	rows := []benchrows.Row{
		{Name: "bare RPC of 48 B", Run: r.bares},
		{Name: "GET", Base: "bare RPC of 48 B", Bar: share, Run: r.gets},
		{Name: "Zipf .99, GET", Base: "GET", Bar: 1, Run: r.w.skewed(r.w.zipf(), r.gets)},
	}
	if mc != nil {
		rows = append(rows, benchrows.Row{Name: "memcached, " + many, Run: mc.texts(multi)},
			benchrows.Row{Name: "memcached, " + one, Run: mc.texts(1)},
			benchrows.Row{Name: "GET beside memcached", Base: "memcached, " + many, Run: r.gets},
			benchrows.Row{Name: "multi-gets of 16 beside memcached", Base: "memcached, " + many, Bar: 5,
				Run: r.multis})
	}
	text := func(keys int, name string) {
		row := benchrows.Row{Name: "memcached's protocol, " + name, Run: own.texts(keys)}
		if mc != nil {
			row.Base, row.Bar = "memcached, "+name, 1
		}
		rows = append(rows, row)
	}
	text(multi, many)
	text(1, one)
	if rd != nil {
		rows = append(rows, benchrows.Row{Name: "redis, MGETs of 64", Run: rd.mgets(multi)},
			benchrows.Row{Name: "redis, pipelined GETs", Run: rd.mgets(1)},
			benchrows.Row{Name: "GET beside redis", Base: "redis, MGETs of 64", Run: r.gets},
			benchrows.Row{Name: "multi-gets of 16 beside redis", Base: "redis, MGETs of 64", Bar: 5,
				Run: r.multis})
	}
	return rows
}
