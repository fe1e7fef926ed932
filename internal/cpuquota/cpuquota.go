package cpuquota

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

const (
	readEvery = 100 * time.Millisecond // the usual period of a quota
	findEvery = 10 * time.Second       // a quota comes, goes and moves rarely
)

// Watch reads the counters of the groups that have a quota. Any number of goroutines may share
// one. The zero Watch watches nothing.
type Watch struct {
	next  atomic.Int64 // when the files are worth a look
	count atomic.Uint64

	mu     sync.Mutex
	root   fs.FS
	findAt monotime.Time
	stats  []string // files that count
	last   uint64   // their sum
}

// New makes a Watch of the process's groups.
func New() *Watch { return Of(os.DirFS("/")) }

// Of makes a Watch of a process whose system has the files of root, with paths from "/".
func Of(root fs.FS) *Watch { return &Watch{root: root} }

// Throttled returns in how many periods the process was kept off the cores since the first call,
// as far as it is known at now. Most calls cost one load of a shared word. Every 100 ms one of
// them reads a small file of each group that has a quota; without one, some every 10 s.
func (w *Watch) Throttled(now monotime.Time) uint64 {
	if int64(now) >= w.next.Load() && w.mu.TryLock() {
		w.read(now)
		w.mu.Unlock()
	}
	return w.count.Load()
}

// read brings the count up to date.
func (w *Watch) read(now monotime.Time) {
	if w.root == nil {
		w.next.Store(int64(monotime.Never))
		return
	}
	found := now >= w.findAt
	if found {
		w.stats, w.findAt = find(w.root), now.Add(findEvery)
	}
	if len(w.stats) == 0 {
		w.next.Store(int64(w.findAt))
		return
	}
	w.next.Store(int64(now.Add(readEvery)))
	sum := uint64(0)
	for _, name := range w.stats {
		sum += periods(text(w.root, name))
	}
	if sum > w.last && !found { // the files may be those of other groups, or count older periods
		w.count.Add(sum - w.last)
	}
	w.last = sum
}

// periods returns the number of throttled periods that a cpu.stat names.
func periods(stat string) uint64 {
	for line := range strings.Lines(stat) {
		if rest, ok := strings.CutPrefix(line, "nr_throttled "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// find returns the cpu.stat of each group of the process, or around one, that has a quota.
func find(root fs.FS) (stats []string) {
	for line := range strings.Lines(text(root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			stats = groups(stats, root, "sys/fs/cgroup", parts[2])
			stats = groups(stats, root, "sys/fs/cgroup/unified", parts[2])
		case contains(parts[1], "cpu"):
			stats = groups(stats, root, path.Join("sys/fs/cgroup", parts[1]), parts[2])
			if parts[1] != "cpu" {
				stats = groups(stats, root, "sys/fs/cgroup/cpu", parts[2])
			}
		}
	}
	return stats
}

// groups appends the cpu.stat of a group and of those around it, if they have a quota. In a
// container the group's path may be the one that the host sees; then only the outermost directory
// is there.
func groups(stats []string, root fs.FS, mount, group string) []string {
	dir := path.Join(mount, path.Clean("/"+group))
	for {
		stat := path.Join(dir, "cpu.stat")
		if limited(root, dir) && !slices.Contains(stats, stat) {
			stats = append(stats, stat)
		}
		if dir == mount {
			return stats
		}
		dir = path.Dir(dir)
	}
}

// limited reports whether a group has a quota: "max 100000" and -1 are none.
func limited(root fs.FS, dir string) bool {
	quota, _, _ := strings.Cut(text(root, path.Join(dir, "cpu.max")), " ")
	if quota == "" {
		quota = strings.TrimSpace(text(root, path.Join(dir, "cpu.cfs_quota_us")))
	}
	n, err := strconv.ParseInt(quota, 10, 64)
	return err == nil && n > 0
}

// contains reports whether name is in a list with commas.
func contains(list, name string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part == name {
			return true
		}
	}
	return false
}

// text returns the text of a file, nothing if it cannot be read.
func text(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(b)
}
