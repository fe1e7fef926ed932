package memsize

import (
	"runtime"
	"testing"
	"testing/fstest"
)

const meminfo = "MemTotal:       24683560 kB\nMemFree:        23600000 kB\n"

// TestLimit: the least of the machine's memory and the limits of the group and those around it.
func TestLimit(t *testing.T) {
	const all = 24683560 * 1024
	for _, c := range []struct {
		name string
		want int64
		text map[string]string
	}{
		{"nothing", 0, nil},
		{"no meminfo", 0, map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "4096\n"}},
		{"no groups", all, map[string]string{"proc/meminfo": meminfo}},
		{"no limit", all, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}},
		{"the group", 1 << 30, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1073741824\n",
			"sys/fs/cgroup/a/memory.max":   "2147483648\n"}},
		{"one around it", 1 << 29, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1073741824\n",
			"sys/fs/cgroup/a/memory.max":   "536870912\n"}},
		{"a container's root", 1 << 28, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup":         "0::/../../host/x\n",
			"sys/fs/cgroup/memory.max": "268435456\n"}},
		{"version 1", 1 << 27, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "134217728\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n"}},
		{"version 1, seen from inside", 1 << 26, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup":                           "4:memory:/docker/0123\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "67108864\n"}},
		{"nonsense", all, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup":         "0::\n:::\nx\n4:memory\n0::/\n",
			"sys/fs/cgroup/memory.max": "-5\n"}},
		{"more than the machine", all, map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "99999999999999\n"}},
	} {
		files := fstest.MapFS{}
		for name, text := range c.text {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := limit(files); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// TestThisMachine: Linux tells.
func TestThisMachine(t *testing.T) {
	if got := Limit(); runtime.GOOS == "linux" && got < 1<<20 {
		t.Errorf("this machine has %d bytes", got)
	}
}
