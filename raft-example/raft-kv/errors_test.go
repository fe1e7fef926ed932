package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestNamedErrors: what is wrong with an address, a file or a folder is said in one line that names
// it, with the exit status of bad usage if no cluster need be asked.
func TestNamedErrors(t *testing.T) {
	dir := t.TempDir()
	file, foreign := filepath.Join(dir, "file"), filepath.Join(dir, "foreign")
	err := os.WriteFile(file, []byte("no folder"), 0o600)
	if err == nil {
		err = os.Mkdir(foreign, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(foreign, "log"), []byte("no log"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	used, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	taken := used.LocalAddr().String()
	server := "server --id 1 --peers 1=127.0.0.1:1 --addr "
	quiet := " --timeout 300ms --servers 127.0.0.1:1"
	for _, tt := range []struct {
		args   string
		status int
		want   []string
	}{
		{server + taken, cli.Failed, []string{taken, "choose another --addr"}},
		{server + "nonsense", cli.Failed, []string{`"nonsense"`, "want host:port"}},
		{server + "127.0.0.1:99999", cli.Failed, []string{"127.0.0.1:99999", "no such port"}},
		{server + "127.0.0.1:0 --dir " + file, cli.Failed, []string{file}},
		{server + "127.0.0.1:0 --dir " + filepath.Join(file, "x"), cli.Failed, []string{file}},
		{server + "127.0.0.1:0 --dir " + foreign, cli.Failed, []string{foreign, "not a log"}},
		{server + "127.0.0.1:0 --keys=-1", cli.Usage, []string{"--keys -1", "negative"}},
		{server + "127.0.0.1:0 --scrub=-1s", cli.Usage, []string{"--scrub -1s", "negative"}},
		{server + "127.0.0.1:0 --tick 999us", cli.Usage, []string{"--tick 999µs", "1ms"}},
		{server + "127.0.0.1:0 --psk-file " + dir + "/none", cli.Usage, []string{dir + "/none"}},
		{"server --id 1 --addr 127.0.0.1:0 --peers 1=nonsense", cli.Usage, []string{"1=HOST:PORT"}},
		{"server --id 1 --addr 127.0.0.1:0 --peers 1=:5", cli.Usage, []string{"1=HOST:PORT"}},
		{"server --id 1 --addr 127.0.0.1:0 --peers 0=a:5", cli.Usage, []string{"1=HOST:PORT"}},
		{"server --id 1 --addr 127.0.0.1:0 --peers 1=a:", cli.Usage, []string{"1=HOST:PORT"}},
		{"get k --servers nonsense", cli.Usage, []string{`--servers "nonsense"`, "HOST:PORT"}},
		{"get k --servers ,", cli.Usage, []string{`--servers ","`, "HOST:PORT"}},
		{"status --servers a:1,", cli.Usage, []string{`--servers "a:1,"`, "HOST:PORT"}},
		{"get k --timeout 0s", cli.Usage, []string{"--timeout 0s", "positive"}},
		{"get k --remember " + dir + quiet, cli.Failed, []string{dir, "directory"}},
		{"get k" + quiet, cli.Failed, []string{"--servers 127.0.0.1:1", "--timeout 300ms"}},
		{"status" + quiet, cli.Failed, []string{"no replica answers at 127.0.0.1:1"}},
		{"member remove 4" + quiet, cli.Failed, []string{"--servers 127.0.0.1:1", "deadline"}},
		{"members 1=a:5" + quiet, cli.Failed, []string{"--servers 127.0.0.1:1", "no leader"}},
		{"member remove 0", cli.Usage, []string{"member remove 0", "numbered from 1"}},
		{"member lead 0", cli.Usage, []string{"member lead 0", "numbered from 1"}},
		{"member add 4 nonsense", cli.Usage, []string{`"nonsense"`, "HOST:PORT"}},
		{"members 4=nonsense", cli.Usage, []string{"1=HOST:PORT"}},
		{"cluster --dir " + file, cli.Failed, []string{"replica 1 did not start", file}},
		{"cluster --tick 1us --port 40000", cli.Failed, []string{"--tick 1µs"}},
		{"put  v", cli.Usage, []string{"<value>"}},
	} {
		status, out, errOut := runCommand(t, strings.Fields(tt.args)...)
		if status != tt.status || out != "" || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q", tt.args, status, out, errOut)
		}
		for _, want := range tt.want {
			if !strings.Contains(errOut, want) {
				t.Errorf("%s: %q does not say %q", tt.args, errOut, want)
			}
		}
	}
}
