package etcd

import (
	"context"
	"strings"
)

// taken has the claims of numbers below a prefix, and the line of those that want one. Who is first
// tries the lowest number that is free. If another one was faster, or some wait already, it writes
// a key into the line, and the revision of that is its place: with n before it, it takes the free
// number behind the n lowest. So those that come at a time each try another one, and leave no
// holes. The key goes with the claim, or with the lease.
type taken struct {
	prefix string
	id     string // of the process
	owner  string // the value of its claim
	lease  int64

	claims map[string]pair // by their keys
	place  pair            // in the line; its key is empty: none
	before int             // those that are before it
	tried  bool
}

// waits is how the keys of those begin that are in the line, behind the prefix.
const waits = "wait-"

// list brings it up to date, and takes a place in the line if others want numbers too.
func (t *taken) list(ctx context.Context, s store) error {
	me := pair{key: t.prefix + waits + t.id, value: t.owner}
	for waiting := t.tried; ; waiting = true {
		if waiting && t.place.key == "" {
			if _, _, err := s.put(ctx, t.lease, me); err != nil {
				return named(err)
			}
		}
		list, _, err := s.list(ctx, t.prefix)
		if err != nil {
			return named(err)
		}
		t.claims = map[string]pair{}
		var line []pair
		for _, p := range list {
			switch {
			case p.key == me.key:
				t.place = p
			case strings.HasPrefix(p.key[len(t.prefix):], waits):
				line = append(line, p)
			default:
				t.claims[p.key] = p
			}
		}
		t.before = 0
		for _, p := range line {
			if p.revision < t.place.revision {
				t.before++
			}
		}
		t.tried = true
		if len(line) == 0 || t.place.key != "" {
			return nil
		}
	}
}

// at returns the claim of a number, and whether it is free: nobody has it, or an earlier process of
// the owner.
func (t *taken) at(key string) (pair, bool) {
	p := t.claims[key]
	return pair{key, t.owner, p.revision}, p.revision == 0 || p.value == t.owner
}

// choose returns the claim of a number, and the number, from 0: one that is free, or that of an
// earlier process of the owner if it comes before that.
func (t *taken) choose(key func(int) string) (pair, int) {
	skip := t.before
	for n := 0; ; n++ {
		p, free := t.at(key(n))
		if free && (skip == 0 || p.revision != 0) {
			return p, n
		}
		if free {
			skip--
		}
	}
}

// leave returns what takes it out of the line, with the claim: nothing if it is not there.
func (t *taken) leave() []pair {
	if t.place.key == "" {
		return nil
	}
	return []pair{{key: t.place.key, revision: t.place.revision}}
}
