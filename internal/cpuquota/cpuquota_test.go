package cpuquota

import (
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// files makes a file system of texts.
func files(text map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, t := range text {
		root[name] = &fstest.MapFile{Data: []byte(t)}
	}
	return root
}

// TestFind: groups with a quota count, of either version, and those around the process's own.
func TestFind(t *testing.T) {
	const cg = "sys/fs/cgroup/"
	for _, c := range []struct {
		name, want string
		text       map[string]string
	}{
		{"nothing", "", nil},
		{"no quota", "", map[string]string{
			"proc/self/cgroup": "0::/a\n", cg + "a/cpu.max": "max 100000\n"}},
		{"the group", cg + "a/cpu.stat", map[string]string{
			"proc/self/cgroup": "0::/a\n", cg + "a/cpu.max": "50000 100000\n"}},
		{"it and one around it", cg + "a/b/cpu.stat " + cg + "a/cpu.stat", map[string]string{
			"proc/self/cgroup": "0::/a/b\n",
			cg + "a/b/cpu.max": "50000 100000\n", cg + "a/cpu.max": "150000 100000\n"}},
		{"a container's root", cg + "cpu.stat", map[string]string{
			"proc/self/cgroup": "0::/../../host/x\n", cg + "cpu.max": "50000 100000\n"}},
		{"version 1", cg + "cpu,cpuacct/a/cpu.stat", map[string]string{
			"proc/self/cgroup":                    "4:cpu,cpuacct:/a\n3:cpuset:/b\n0::/\n",
			cg + "cpu,cpuacct/a/cpu.cfs_quota_us": "50000\n",
			cg + "cpu,cpuacct/cpu.cfs_quota_us":   "-1\n",
			cg + "cpuset/b/cpu.cfs_quota_us":      "50000\n"}},
		{"version 1, mounted by its own name", cg + "cpu/cpu.stat", map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/a\n", cg + "cpu/cpu.cfs_quota_us": "50000\n"}},
		{"nonsense", "", map[string]string{
			"proc/self/cgroup": "0::\n:::\nx\n4:cpu\n0::/\n", cg + "cpu.max": "-5\n"}},
	} {
		if got := strings.Join(find(files(c.text)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// counting counts how often files are opened.
type counting struct {
	fs.FS
	opened int
}

func (c *counting) Open(name string) (fs.File, error) {
	c.opened++
	return c.FS.Open(name)
}

// TestThrottled: periods from before the first call do not count, later ones do, and the files are
// read rarely.
func TestThrottled(t *testing.T) {
	const stat = "sys/fs/cgroup/a/cpu.stat"
	f := files(map[string]string{
		"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"})
	set := func(n string) {
		text := "usage_usec 5\nnr_periods 9\nnr_throttled " + n + "\nthrottled_usec 7\n"
		f[stat] = &fstest.MapFile{Data: []byte(text)}
	}
	c := &counting{FS: f}
	w := &Watch{root: c}
	now := monotime.Time(time.Hour)
	check := func(step string, want uint64) {
		t.Helper()
		if got := w.Throttled(now); got != want {
			t.Errorf("%s: %d periods, want %d", step, got, want)
		}
	}
	set("3")
	check("before", 0)
	set("5")
	check("too early", 0)
	now = now.Add(readEvery)
	check("later", 2)
	c.opened = 0
	for range 1000 {
		check("the same time", 2)
	}
	now = now.Add(readEvery)
	check("nothing new", 2)
	if c.opened != 1 {
		t.Errorf("%d files opened", c.opened)
	}
	set("4") // the counter of another group with the same name
	now = now.Add(readEvery)
	check("less", 2)
	delete(f, stat)
	now = now.Add(readEvery)
	check("gone", 2)
	f["sys/fs/cgroup/a/cpu.max"] = &fstest.MapFile{Data: []byte("max 100000\n")}
	now = now.Add(findEvery)
	check("no quota", 2)
	c.opened = 0
	for range 99 {
		now = now.Add(findEvery / 100)
		check("no quota", 2)
	}
	if c.opened != 0 {
		t.Errorf("%d files opened though there is no quota", c.opened)
	}
	f["sys/fs/cgroup/a/cpu.max"] = &fstest.MapFile{Data: []byte("20000 100000\n")}
	set("100")
	now = now.Add(findEvery)
	check("a quota again", 2)
	set("101")
	now = now.Add(readEvery)
	check("used up", 3)
}

// TestShared: goroutines that share a Watch count nothing twice.
func TestShared(t *testing.T) {
	const stat = "sys/fs/cgroup/cpu.stat"
	f := files(map[string]string{
		"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1 2\n", stat: "nr_throttled 1\n"})
	w := &Watch{root: f}
	now := monotime.Time(time.Hour)
	w.Throttled(now)
	f[stat] = &fstest.MapFile{Data: []byte("nr_throttled 5\n")}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 100 {
				w.Throttled(now.Add(readEvery + time.Duration(i+j)))
			}
		})
	}
	all.Wait()
	if n := w.Throttled(now.Add(readEvery)); n != 4 {
		t.Errorf("%d periods, want 4", n)
	}
}

// TestNobody: the zero Watch reads nothing, and this machine's groups can be read.
func TestNobody(t *testing.T) {
	var w Watch
	for i := range monotime.Time(3) {
		if n := w.Throttled(monotime.Never/4*i + 1); n != 0 {
			t.Errorf("%d periods", n)
		}
	}
	if n := New().Throttled(1); n != 0 {
		t.Errorf("%d periods at the first call", n)
	}
}
