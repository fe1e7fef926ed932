package memsize

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Limit returns the memory in bytes that this process can use at most: the machine's, or less
// where a control group says so. It is 0 if the system does not tell.
func Limit() int64 { return limit(os.DirFS("/")) }

// limit is Limit of a system with the files of root.
func limit(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	note := func(n int64) {
		if n > 0 {
			least = min(least, n)
		}
	}
	for line := range strings.Lines(read(root, "proc/meminfo")) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			note(1024 * number(strings.TrimSuffix(strings.TrimSpace(rest), " kB")))
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	for line := range strings.Lines(read(root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			groups(root, "sys/fs/cgroup", parts[2], "memory.max", note)
			groups(root, "sys/fs/cgroup/unified", parts[2], "memory.max", note)
		case contains(parts[1], "memory"):
			groups(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", note)
		}
	}
	return least
}

// groups notes the limits of a group and of those around it. In a container the group's path may
// be the one that the host sees; then only the outermost directory is there.
func groups(root fs.FS, mount, group, file string, note func(int64)) {
	dir := path.Join(mount, path.Clean("/"+group))
	for {
		note(number(strings.TrimSpace(read(root, path.Join(dir, file)))))
		if dir == mount {
			return
		}
		dir = path.Dir(dir)
	}
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

// read returns the text of a file, nothing if it cannot be read.
func read(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(b)
}

// number returns a decimal number, 0 for any other text.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
