package secure

import (
	"bytes"
	"crypto/tls"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// process has what a process of a command has of its flags: files that it reads.
type process struct {
	t     testing.TB
	flags Flags
	files map[string]string // paths by flag
	said  bytes.Buffer
	*reloader
}

// newProcess makes one whose files have texts, by flag.
func newProcess(t testing.TB, texts map[string]string) *process {
	t.Helper()
	p := &process{t: t, files: map[string]string{}}
	dir := t.TempDir()
	for flag := range texts {
		p.files[flag] = filepath.Join(dir, flag)
	}
	p.write(texts)
	p.flags = Flags{TLSCert: p.files["cert"], TLSKey: p.files["key"], TLSCA: p.files["ca"],
		PSKFile: p.files["psk"]}
	p.flags.Members("--members", p.files["members"])
	p.flags.Admins("--admins", p.files["admins"])
	if err := p.flags.Load(); err != nil {
		t.Fatal(err)
	}
	c, err := p.flags.read()
	if err != nil {
		t.Fatal(err)
	}
	p.reloader = newReloader(&p.flags, c, &p.said)
	return p
}

// write replaces files, each at once.
func (p *process) write(texts map[string]string) {
	p.t.Helper()
	for flag, text := range texts {
		next := p.files[flag] + ".new"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			p.t.Fatal(err)
		}
		if err := os.Rename(next, p.files[flag]); err != nil {
			p.t.Fatal(err)
		}
	}
}

// change replaces files, and sees that the process takes them.
func (p *process) change(texts map[string]string) {
	p.t.Helper()
	p.write(texts)
	p.look(false)
	p.says("")
	p.look(false)
	p.says("new keys are in use")
}

// says checks that what was said since is one line with a text, or nothing.
func (p *process) says(want string) {
	p.t.Helper()
	got := p.said.String()
	p.said.Reset()
	if lines := strings.Count(got, "\n"); !strings.Contains(got, want) || want == "" && got != "" ||
		want != "" && lines != 1 {
		p.t.Errorf("said %q, want a line with %q", got, want)
	}
}

// inUse checks which contents the keys are of.
func (p *process) inUse(want contents) {
	p.t.Helper()
	if p.taken != want {
		p.t.Error("other keys are in use")
	}
}

// TestReload: files that are missing, half written, or do not belong together change nothing, and
// that is said once; the whole ones are taken.
func TestReload(t *testing.T) {
	ca := sectest.NewCA("ours")
	cert, key := ca.IssuePEM("127.0.0.1")
	cert2, key2 := ca.IssuePEM("127.0.0.1")
	other := sectest.NewCA("another").PEM()
	good := map[string]string{"cert": cert, "key": key, "ca": ca.PEM()}
	for _, bad := range []struct {
		name, says string
		texts      map[string]string
	}{
		{"an empty certificate", "failed to find any PEM", map[string]string{"cert": ""}},
		{"half a certificate", "failed to find any PEM", map[string]string{"cert": cert[:200]}},
		{"half a chain", "no end", map[string]string{"cert": cert + other[:200]}},
		{"another's key", "does not match", map[string]string{"key": key2}},
		{"another's certificate", "does not match", map[string]string{"cert": cert2}},
		{"half a key", "failed to find any PEM", map[string]string{"key": key[:60]}},
		{"no authority", "no certificate in it", map[string]string{"ca": "-"}},
		{"half of two authorities", "no end", map[string]string{"ca": ca.PEM() + other[:300]}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			p := newProcess(t, good)
			first := p.taken
			p.write(bad.texts)
			p.look(false) // somebody may still write
			p.says("")
			p.look(false)
			p.says(bad.says)
			p.look(false)
			p.says("")
			p.look(true) // the user asks
			p.says(bad.says)
			p.inUse(first)
			p.change(map[string]string{"cert": cert2, "key": key2, "ca": ca.PEM() + other})
			p.look(true)
			p.says("have not changed")
		})
	}
	t.Run("no file", func(t *testing.T) {
		p := newProcess(t, good)
		first := p.taken
		if err := os.Remove(p.files["key"]); err != nil {
			t.Fatal(err)
		}
		p.look(false)
		p.says("")
		p.look(false)
		p.says("no such file")
		p.inUse(first)
		p.write(map[string]string{"key": key})
		p.look(false)
		p.says("")
		p.write(map[string]string{"cert": cert2, "key": key2})
		p.look(true)
		p.says("new keys are in use")
	})
}

// TestReloadPSK: the same of shared keys.
func TestReloadPSK(t *testing.T) {
	const one, two = "11111111111111111111111111111111", "22222222222222222222222222222222"
	p := newProcess(t, map[string]string{"psk": one + "\n"})
	first := p.taken
	for _, bad := range []struct{ text, says string }{
		{"", "the file has none"}, {two + "\n" + one[:9], "line 2"}, {one[:30], "15 bytes"},
	} {
		p.write(map[string]string{"psk": bad.text})
		p.look(false)
		p.look(false)
		p.look(false)
		p.says(bad.says)
		p.inUse(first)
	}
	p.change(map[string]string{"psk": two + "\n" + one + "\n"})
}

// TestReloadRoles: who is a member and who an admin follows the files. No other file may have an
// admins' key, whichever changes.
func TestReloadRoles(t *testing.T) {
	const one, two, three = "11111111111111111111111111111111\n",
		"22222222222222222222222222222222\n", "33333333333333333333333333333333\n"
	p := newProcess(t, map[string]string{"psk": one, "members": two, "admins": three})
	name := func(key string) string {
		keys, err := security.ParsePSK([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return security.PSKName(keys[0])
	}
	holds := func(members, admins string, shared bool) {
		t.Helper()
		for _, key := range []string{one, two, three} {
			if p.flags.IsMember(name(key)) != strings.Contains(members, key) ||
				p.flags.IsAdmin(name(key)) != strings.Contains(admins, key) {
				t.Errorf("key %q", key)
			}
		}
		if p.flags.MembersShared() != shared {
			t.Errorf("shared: %v", !shared)
		}
	}
	holds(two, three, false)
	for _, bad := range []struct{ file, text, says string }{
		{"psk", one + three, "key 1 is one of --psk-file"},
		{"members", three, "key 1 is one of --members"},
		{"members", one + two, "key 1, which members use, is one of --psk-file"},
		{"admins", three + one, "key 2 is one of --psk-file"}, {"admins", "", "the file has none"},
	} {
		before := map[string]string{"psk": one, "members": two, "admins": three}[bad.file]
		p.write(map[string]string{bad.file: bad.text})
		p.look(true)
		p.says(bad.says)
		holds(two, three, false)
		p.write(map[string]string{bad.file: before})
		p.look(true)
		p.says("have not changed")
	}
	p.change(map[string]string{"members": two + one})
	holds(two+one, three, true)
	p.change(map[string]string{"psk": three, "members": two, "admins": one})
	holds(two, one, false)
}

// TestReloadTCP: servers of TLS over TCP take new keys too, with tickets of before.
func TestReloadTCP(t *testing.T) {
	before, after := sectest.NewCA("before"), sectest.NewCA("after")
	texts := func(ca *sectest.CA) map[string]string {
		cert, key := ca.IssuePEM("127.0.0.1")
		return map[string]string{"cert": cert, "key": key, "ca": ca.PEM()}
	}
	p := newProcess(t, texts(before))
	server := p.flags.Server()
	cache, both := tls.NewLRUClientSessionCache(1), before.Pool.Clone()
	both.AppendCertsFromPEM([]byte(after.PEM()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	meet := func(ca *sectest.CA) error {
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s := tls.Server(c, server)
			if s.Handshake() == nil {
				_, _ = s.Write([]byte("x"))
			}
			_ = s.Close()
		}()
		cfg := ca.Config("127.0.0.1", "")
		cfg.RootCAs, cfg.ClientSessionCache = both, cache
		c, err := tls.Dial("tcp", ln.Addr().String(), cfg)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
		return err
	}
	if err := meet(before); err != nil {
		t.Error(err)
	}
	p.change(texts(after))
	if err := meet(before); err == nil || !strings.Contains(err.Error(), "remote error") {
		t.Errorf("the server has dropped the authority: %v", err)
	}
	if err := meet(after); err != nil {
		t.Error(err)
	}
}

// merged returns the entries of maps, those of later ones before others.
func merged(list ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range list {
		maps.Copy(all, m)
	}
	return all
}
