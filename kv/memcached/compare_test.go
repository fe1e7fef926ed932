package memcached

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// original starts memcached on a socket of its own, and returns a connection to it.
func original(t *testing.T) net.Conn {
	t.Helper()
	exe, err := exec.LookPath("memcached")
	if err != nil {
		if os.Getenv("CI") == "true" && os.Getuid() == 0 {
			t.Fatal("memcached is not installed: apt-get install memcached")
		}
		t.Skip("memcached is not installed")
	}
	dir, err := os.MkdirTemp("", "mc") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, "s")
	args := []string{"-s", sock, "-m", "64", "-t", "1", "-U", "0"}
	if os.Getuid() == 0 {
		args = append(args, "-u", "root")
	}
	cmd := exec.Command(exe, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	})
	for {
		c, err := net.Dial("unix", sock)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("memcached ended: %v", err)
		default:
		}
	}
}

// talk sends commands, and returns the answers up to that to the last one, mn.
func talk(t *testing.T, c net.Conn, r *bufio.Reader, said string) string {
	t.Helper()
	go func() { _, _ = fmt.Fprint(c, said+"mn\r\n") }() // else both may wait for the other to read
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q, said %q", err, b.String(), said)
		}
		if line == "MN\r\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

// unspecified matches the parts that may differ: versions, the seconds that are left, as the two
// clocks do not tick at once, and how far a number is padded.
var unspecified = regexp.MustCompile(`(VALUE \S+ \d+ \d+) \d+|( [ct])\d+`)
var padded = regexp.MustCompile(`(VALUE [nm] \d+|VA) \d+(.*\r\n\d+) *`)

func comparable(answer string) string {
	answer = unspecified.ReplaceAllString(answer, "$1$2")
	return padded.ReplaceAllString(answer, "$1$2")
}

// TestSameAsMemcached: the same random commands have the same answers.
func TestSameAsMemcached(t *testing.T) {
	theirs := original(t)
	s, _ := newServer(t, 2, mica.Config{})
	ours := listen(t, s)()
	r1, r2 := bufio.NewReader(theirs), bufio.NewReader(ours)
	rnd := rand.New(rand.NewPCG(1, 2))
	steps := 3000
	if testing.Short() {
		steps = 300
	}
	for range steps {
		said := randomCommand(rnd)
		a, b := comparable(talk(t, theirs, r1, said)), comparable(talk(t, ours, r2, said))
		if a != b {
			t.Fatalf("%q:\nmemcached %q\nwe        %q", said, a, b)
		}
	}
}

// randomCommand returns a command with its value, often a wrong one.
func randomCommand(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	key := pick("a", "b", "c", "d", strings.Repeat("k", 250), strings.Repeat("k", 251))
	if r.IntN(4) > 0 {
		key = pick("a", "b", "c", "d")
	}
	known := key[:min(len(key), maxKey)] // memcached runs the value of a longer one as commands
	quiet := pick("", "", "", " noreply")
	value := pick("", "abc", "-1", "y z")
	name := pick("set", "set", "add", "replace", "append", "prepend")
	if r.IntN(3) == 0 { // numbers, to which nothing is appended: some are padded
		key = pick("n", "m")
		known, value = key, pick("1", "20", "18446744073709551615", "7")
		name = pick("set", "add", "replace")
	}
	modes := pick("", " ME", " MR", " q", " k Ox", " C999999")
	if key != "n" && key != "m" && r.IntN(3) == 0 {
		modes = pick("", " C999999") + pick(" MA", " MP")
	}
	switch r.IntN(14) {
	case 0, 1, 2:
		return fmt.Sprintf("%s %s %s %s %d%s\r\n%s\r\n", name, known, pick("0", "1", "4294967295"),
			pick("0", "0", "100", "-1"), len(value), quiet, value)
	case 3:
		return fmt.Sprintf("cas %s 0 0 %d %s%s\r\n%s\r\n", known, len(value),
			pick("1", "999999"), quiet, value)
	case 4, 5:
		return fmt.Sprintf("%s %s %s\r\n", pick("get", "gets"), key, pick("", "a", "b c d"))
	case 6:
		return fmt.Sprintf("%s %s %s%s\r\n", pick("incr", "decr"), key,
			pick("1", "5", "18446744073709551615", "x"), quiet)
	case 7:
		return fmt.Sprintf("delete %s%s%s\r\n", key, pick("", "", " 0", " 1"), quiet)
	case 8:
		return fmt.Sprintf("touch %s %s%s\r\n", key, pick("0", "100", "-1", "x"), quiet)
	case 9:
		return fmt.Sprintf("%s %s %s\r\n", pick("gat", "gats"), pick("0", "100", "x"), key)
	case 10:
		return fmt.Sprintf("mg %s%s%s%s\r\n", key, pick("", " v", " v f"), pick("", " k t"),
			pick("", " Oabc", " q", " T100"))
	case 11:
		return fmt.Sprintf("ms %s %d%s%s\r\n%s\r\n", known, len(value), pick("", " F5", " T100", " c"),
			modes, value)
	case 12:
		return fmt.Sprintf("%s %s%s\r\n", pick("md", "ma"), key,
			pick("", " q", " q k", " Oabc k", " C999999"))
	}
	level := pick("0", "x", "1 x", "1 2 3", "-1", "noreply", "x noreply")
	return pick("get\r\n", "gat 1\r\n", "nothing\r\n", "incr a\r\n", "touch a\r\n",
		"delete\r\n", "verbosity "+level+"\r\n", "ma a v D3\r\n", "ma a v q\r\n", "ma a v MD t\r\n",
		"flush_all\r\n",
		"mg\r\n")
}
