//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// evil makes a terminal that obeys it clear the screen and change its title, in old and new ways.
const evil = "ok\x1b[2J\x1b]0;mine\a\u009b2J\u202e\r"

// obeyed returns what a terminal would obey of a text.
func obeyed(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, text)
}

// TestHostileServer: what a server answers, and its errors, are shown without being obeyed.
func TestHostileServer(t *testing.T) {
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		s.Handle(1, func(context.Context, []byte) ([]byte, error) { return []byte(evil), nil }),
		s.Handle(2, func(context.Context, []byte) ([]byte, error) { return nil, errors.New(evil) }),
		s.Handle(3, func(context.Context, []byte) ([]byte, error) {
			return []byte(`{"a":"` + "\u009b2J\x7f\u202e" + `"}`), nil
		})); err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	for line, want := range map[string]string{
		"1 x": `ok\u001b[2J\u001b]0;mine\u0007`, "2 x": `ok\u001b[2J`, "3 x": `{"a":"\u009b2J\u007f`,
		"3 {} --form json": `"a": "\u009b2J\u007f\u202e"`, "1 78 --form hex": "00000000  6f 6b 1b",
	} {
		_, out, said := runCommand(t, "call "+tr.LocalAddr().String()+" "+line)
		if bad := obeyed(out + said); bad != "" || !strings.Contains(out+said, want) {
			t.Errorf("%s: a terminal obeys %q of %q, %q", line, bad, out, said)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

// TestHostileProgram: what a program calls itself, and what its debug socket says, makes a terminal
// do nothing.
func TestHostileProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var refuse atomic.Bool
	served := make(chan error, 1)
	go func() {
		served <- http.Serve(lis, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case refuse.Load():
				http.Error(w, evil, http.StatusTeapot)
			case r.URL.Path == "/v1/about":
				_, _ = io.WriteString(w, `{"Program":"ok\u001b[2J\u009b2J"}`)
			default:
				_, _ = io.WriteString(w, "[]")
			}
		}))
	}()
	for _, line := range []string{" -c 1 --json", " -c 1"} {
		_, out, said := runCommand(t, "top "+path+line)
		if bad := obeyed(out + said); bad != "" {
			t.Errorf("top%s: a terminal obeys %q of %q, %q", line, bad, out, said)
		}
		refuse.Store(!refuse.Load())
	}
	far, near := openTerminal(t, 80, 24)
	shown := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(far) // until the near end is closed
		shown <- string(b)
	}()
	refuse.Store(false)
	if status := run(t.Context(), []string{"top", path, "-c", "1"}, strings.NewReader(""), near,
		io.Discard); status != cli.Done {
		t.Errorf("status %d", status)
	}
	_ = near.Close()
	if text := <-shown; strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\u009b") ||
		!strings.Contains(text, "ok") {
		t.Errorf("the screen gets %q", text)
	}
	_ = lis.Close()
	<-served
}

// TestTopPage: the page's address has a secret, and a name that leads here does not do.
func TestTopPage(t *testing.T) {
	_, socket := watched(t, "")
	p := start(t, "top "+socket+" --http 127.0.0.1:0 -i 10ms")
	line := waitFor(t, p.out, "showing ")
	url := strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
	root := url[:strings.Index(url[len("http://"):], "/")+len("http://")+1]
	for _, x := range []struct {
		url, host string
		want      int
	}{
		{url, "", 200}, {url + "frame.json", "", 200}, {url + "frame.json", "localhost", 200},
		{url + "frame.json", "rebound.test", 421}, {root, "", 403}, {root + "frame.json", "", 403},
		{root + "frame.json", "rebound.test", 421},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", x.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = x.host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != x.want {
			t.Errorf("%s for %q: %d, want %d", strings.TrimPrefix(x.url, root), x.host, resp.StatusCode,
				x.want)
		}
	}
	if said, err := p.interrupt(t); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}
