package securetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// Command is a command to be tested. Command lines are words between spaces.
type Command struct {
	// Run runs a command line.
	Run func(args ...string) (status int, out, errOut string)
	// Serve starts servers on 127.0.0.1 with flags, until the test ends, and returns the argument
	// that names them to clients.
	Serve func(flags ...string) (at string)
	// Works are command lines of clients that succeed, one after the other.
	Works []string
	// Clients are command lines of clients that fail if they are refused.
	Clients []string
	// Mistakes are command lines that fail without a server, for mistakes in the flags.
	Mistakes []string
}

// PSK writes a file of a shared key, 64 times a digit, and returns its flag.
func PSK(t testing.TB, digit string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(file, []byte(strings.Repeat(digit, 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--psk-file=" + file
}

// Line runs a command line and checks that it says one line with a text, and nothing else.
func (c *Command) Line(t testing.TB, wantStatus int, want, command string, flags ...string) {
	t.Helper()
	status, out, errOut := c.Run(append(strings.Fields(command), flags...)...)
	if status != wantStatus || out != "" || strings.Count(errOut, "\n") != 1 ||
		!strings.Contains(errOut, want) {
		t.Errorf("%s %v: status %d, %q, %q; want %d and a line with %q", command, flags, status, out,
			errOut, wantStatus, want)
	}
}

// All runs all tests.
func (c *Command) All(t *testing.T) {
	good, strange := sectest.Files(t.TempDir(), "127.0.0.1"), sectest.Files(t.TempDir(), "127.0.0.1")
	t.Run("usage", func(t *testing.T) { c.usage(t, good) })
	t.Run("TLS", func(t *testing.T) { c.tls(t, good, strange) })
	t.Run("PSK", func(t *testing.T) {
		shared := PSK(t, "5")
		at := c.Serve(shared)
		c.works(t, shared, at)
		c.refused(t, "does not encrypt", at)
		c.refused(t, "keys differ", at, PSK(t, "6"))
	})
	t.Run("plain", func(t *testing.T) { c.refused(t, "does not encrypt", append(good, c.Serve())...) })
}

func (c *Command) tls(t *testing.T, good, strange []string) {
	at := c.Serve(good...)
	c.works(t, append(slices.Clone(good), at)...)
	c.refused(t, "does not encrypt", at)
	c.refused(t, "unknown authority", append(slices.Clone(strange), at)...)
	c.refused(t, "didn't provide a certificate", good[2], at)
	c.refused(t, "other certificates than this side has", strange[0], strange[1], good[2], at)
	c.refused(t, "match elsewhere", append(slices.Clone(good), "--tls-name=elsewhere", at)...)
}

func (c *Command) works(t *testing.T, flags ...string) {
	t.Helper()
	for _, command := range c.Works {
		status, _, errOut := c.Run(append(strings.Fields(command), flags...)...)
		if status != cli.Done {
			t.Errorf("%s %v: status %d, %s", command, flags, status, errOut)
		}
	}
}

func (c *Command) refused(t *testing.T, want string, flags ...string) {
	t.Helper()
	for _, command := range c.Clients {
		c.Line(t, cli.Failed, want, command, flags...)
	}
}

func (c *Command) usage(t *testing.T, good []string) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := strings.TrimPrefix(PSK(t, "5"), "--psk-file=")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		want  string
		flags []string
	}{
		{"no such file", []string{good[0], "--tls-key=" + dir + "/none"}},
		{"no such file", []string{"--tls-ca=" + dir + "/none"}},
		{"no such file", []string{"--psk-file=" + dir + "/none"}},
		{"no certificate in it", []string{"--tls-ca=" + empty}},
		{"--psk-file " + empty, []string{"--psk-file=" + empty}},
		{"other users have a hand in it", []string{"--psk-file=" + open}},
		{"no regular file", []string{"--psk-file=/dev/zero"}},
		{"belong together", []string{good[0]}},
		{"choose one", []string{good[2], PSK(t, "5")}},
		{"need --tls-ca", []string{"--trust-local"}},
	} {
		for _, command := range c.Mistakes {
			c.Line(t, cli.Usage, m.want, command, m.flags...)
		}
	}
}
