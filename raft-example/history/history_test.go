package history

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
)

func put(t *testing.T, key, value string) kv.Command {
	t.Helper()
	k, err := kv.MakeKey(key)
	v, err2 := kv.MakeValue(value)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return kv.Command{Op: kv.Put, Key: k, Value: v}
}

func got(t *testing.T, value string) kv.Answer {
	return kv.Answer{Status: kv.OK, Found: true, Value: put(t, "k", value).Value}
}

// TestCheck: the checker refuses histories of a broken store, and takes those of a right one.
func TestCheck(t *testing.T) {
	ok, get := kv.Answer{Status: kv.OK}, put(t, "k", "")
	get.Op = kv.Get
	lost := errors.New("no answer")
	for name, tt := range map[string]struct {
		fill func(r *Recorder)
		bad  bool
	}{
		"stale read": {func(r *Recorder) {
			r.Add(0, put(t, "k", "a"), 1, 2, ok, nil)
			r.Add(0, put(t, "k", "b"), 3, 4, ok, nil)
			r.Add(1, get, 5, 6, got(t, "a"), nil)
		}, true},
		"lost write": {func(r *Recorder) {
			r.Add(0, put(t, "k", "a"), 1, 2, ok, nil)
			r.Add(1, get, 5, 6, kv.Answer{Status: kv.NotFound}, nil)
		}, true},
		"applied twice": {func(r *Recorder) {
			r.Add(0, put(t, "k", "a"), 1, 2, ok, nil)
			r.Add(0, put(t, "k", "b"), 3, 4, ok, nil)
			r.Add(1, get, 5, 6, got(t, "b"), nil)
			r.Add(1, get, 7, 8, got(t, "a"), nil)
		}, true},
		"unknown outcome, seen late": {func(r *Recorder) {
			r.Add(0, put(t, "k", "a"), 1, 0, ok, lost)
			r.Add(0, put(t, "k", "b"), 3, 4, ok, nil)
			r.Add(1, get, 5, 6, got(t, "b"), nil)
			r.Add(1, get, 7, 8, got(t, "a"), nil)
		}, false},
		"concurrent": {func(r *Recorder) {
			r.Add(0, put(t, "k", "a"), 1, 9, ok, nil)
			r.Add(1, get, 2, 3, kv.Answer{Status: kv.NotFound}, nil)
			r.Add(1, get, 4, 5, got(t, "a"), nil)
		}, false},
	} {
		var r Recorder
		tt.fill(&r)
		if err := r.Check(time.Minute); (err != nil) != tt.bad ||
			err != nil && !strings.Contains(err.Error(), "not linearizable") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
