package clitest

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// Line runs a command line whose words are between spaces, without input.
func (c Command) Line(t testing.TB, line string) (status int, out, errOut string) {
	t.Helper()
	return c.Try(t, strings.Fields(line)...)
}

// Misused checks that a command line of the named command is refused: the exit status is that of a
// wrong use, and standard error has one line that contains want.
func (c Command) Misused(t testing.TB, name, line, want string) {
	t.Helper()
	status, out, errOut := c.Line(t, line)
	if status != cli.Usage || out != "" || !OneLine(name, errOut, want) {
		t.Errorf("%s %s: status %d, out %q, err %q; want 2 and one line with %q",
			name, line, status, out, errOut, want)
	}
}

// OneLine reports whether s is one line, of the named command, that contains want.
func OneLine(name, s, want string) bool {
	return strings.HasPrefix(s, name+": ") && strings.Count(s, "\n") == 1 &&
		strings.HasSuffix(s, "\n") && strings.Contains(s, want)
}

// DecodeOne decodes a text that is one JSON value of that type, without further fields.
func DecodeOne(t testing.TB, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than one JSON value in %q", text)
	}
}

// Some returns a list, but with -short every n-th of it: the race detector makes processes of a
// command slow to begin, and what differs between such cases is in all of them.
func Some[T any](n int, list ...T) (part []T) {
	if !testing.Short() {
		return list
	}
	for i := 0; i < len(list); i += n {
		part = append(part, list[i])
	}
	return part
}
