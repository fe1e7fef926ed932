package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// asCommand makes the test binary behave as the command, for servers.
const asCommand = "ERPC_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// testKeys loads certificates of an authority of their own, and returns the flags that name them.
func testKeys(t *testing.T) (o *options, flags []string) {
	t.Helper()
	o = new(options)
	flags = sectest.Files(t.TempDir(), "127.0.0.1")
	files := map[string]*string{"--tls-cert": &o.keys.TLSCert, "--tls-key": &o.keys.TLSKey,
		"--tls-ca": &o.keys.TLSCA}
	for _, f := range flags {
		name, file, _ := strings.Cut(f, "=")
		*files[name] = file
	}
	if err := o.keys.Load(); err != nil {
		t.Fatal(err)
	}
	return o, flags
}

// startServer runs the command as a server until the test ends, and returns its address.
func startServer(t *testing.T, flags ...string) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], flags...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if addr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(addr)
}

// TestBare: each kind of bare handshake is made in full, and then resumed. A client with a
// certificate of another authority makes none.
func TestBare(t *testing.T) {
	o, keys := testKeys(t)
	stranger, _ := testKeys(t)
	for _, flags := range []string{"", "-tls-workers", "-tls-keys", "-tls-keys -tls-workers",
		"-tls-session", "-tls-session -tls-workers"} {
		t.Run(flags, func(t *testing.T) {
			words := strings.Fields(flags)
			server := append(append([]string{"-tls-bare", "-serve"}, keys...), words...)
			addr := startServer(t, server...)
			dial := func(cfg *tls.Config) (bool, error) {
				if strings.Contains(flags, "-tls-session") {
					return dialSession(addr, cfg, strings.Contains(flags, "-tls-workers"))
				}
				return dialBare(addr, cfg, strings.Contains(flags, "-tls-keys"))
			}
			cfg := clientConfig(t, o)
			for i := range 3 {
				if resumed, err := dial(cfg); err != nil || resumed != (i > 0) {
					t.Fatalf("dial %d: resumed %v, %v", i, resumed, err)
				}
			}
			if _, err := dial(clientConfig(t, stranger)); err == nil {
				t.Error("a stranger made a handshake")
			}
		})
	}
}

// clientConfig returns a client's config by the keys, with a cache of sessions.
func clientConfig(t *testing.T, o *options) *tls.Config {
	t.Helper()
	_, cfg, err := bareConfig(o)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	return cfg
}

// held is a session without a server.
type held struct{ v any }

func (h *held) UserData() any     { return h.v }
func (h *held) SetUserData(v any) { h.v = v }

// TestBareKeys: a handshake in a session ends only by packets of both sides that the new keys have
// sealed.
func TestBareKeys(t *testing.T) {
	o, _ := testKeys(t)
	server, client, err := bareConfig(o)
	if err != nil {
		t.Fatal(err)
	}
	shake := func(spoilLast, spoilAnswer bool) error {
		s, q := new(held), newSide(client, true, true)
		defer q.close()
		return q.drive(func(say []byte, done bool) ([]byte, error) {
			if done {
				say = append(say, q.last()...)
			}
			if done && spoilLast {
				say[len(say)-1] ^= 1
			}
			answer, err := answerStep(s, server, say)
			if done && spoilAnswer && err == nil {
				answer[len(answer)-1] ^= 1
			}
			if done && err == nil {
				err = q.endStep(answer)
			}
			return answer, err
		})
	}
	if err := shake(false, false); err != nil {
		t.Error("right keys:", err)
	}
	if err := shake(true, false); !errors.Is(err, security.ErrForged) {
		t.Error("a last packet by other keys:", err)
	}
	if err := shake(false, true); !errors.Is(err, security.ErrForged) {
		t.Error("an answer by other keys:", err)
	}
}
