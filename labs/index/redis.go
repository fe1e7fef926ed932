package main

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/userspace-rpc/erpc/labs/benchrows"
)

// redis is a redis-server of this program's own. It has two sorted sets: "v" with values as scores,
// "k" with no scores, which is in the order of its members.
type redis struct {
	*benchrows.Peer
	b *bench
}

// newRedis starts redis-server and fills it.
func newRedis(b *bench) (*redis, error) {
	p, err := benchrows.StartRedis()
	if err != nil {
		return nil, err
	}
	r := &redis{p, b}
	const some = 500
	for at := 0; at < len(b.keys); at += some {
		list := b.keys[at:min(at+some, len(b.keys))]
		for _, set := range []string{"v", "k"} {
			args := []string{"ZADD", set}
			for i, k := range list {
				score := "0"
				if set == "v" {
					score = strconv.Itoa(at + i)
				}
				args = append(args, score, string(binary.BigEndian.AppendUint64(nil, k)))
			}
			r.Command(args...)
			_ = r.Out.Flush()
			r.Reply(nil)
		}
	}
	if r.Err != nil {
		r.Stop()
		return nil, r.Err
	}
	return r, nil
}

// gets keeps depth ZSCOREs under way: half of them are sent while the others are answered.
func (r *redis) gets(each time.Duration) float64 {
	var asked []entry
	return r.Pipelined(each, depth, func() {
		e := r.b.next(1)[0]
		asked = append(asked, e)
		r.Command("ZSCORE", "v", string(binary.BigEndian.AppendUint64(nil, e.key)))
	}, func() {
		text, _ := r.Reply(nil)
		v, err := strconv.ParseUint(string(text), 10, 64)
		r.b.check(v, asked[0].value, err == nil)
		asked = asked[1:]
	})
}

// scans keeps depth scans of 128 members under way.
func (r *redis) scans(each time.Duration) float64 {
	return r.Pipelined(each, depth, func() {
		from := binary.BigEndian.AppendUint64([]byte("["), r.b.next(1)[0].key)
		r.Command("ZRANGEBYLEX", "k", string(from), "+", "LIMIT", "0", "128")
	}, func() {
		if _, n := r.Reply(nil); n == 0 {
			r.b.wrong++
		}
	})
}
