package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestBackup: a backup that is taken while clients write has all that was acknowledged before, and
// a new cluster begins with it. The old one goes on.
func TestBackup(t *testing.T) {
	o := operate(t, 3, "")
	o.fill("a", 4000) // more than a piece
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	tr, err := startTraffic(ctx, o.cf, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.stop()
	if err := tr.more(ctx, 100); err != nil {
		t.Fatal(err)
	}
	follower := o.f.children[o.leader()%3]
	for i, server := range []string{o.cf.Servers, follower.addr} {
		mark := fmt.Sprint("mark", i)
		o.fill(mark, 1)
		file := filepath.Join(t.TempDir(), "store.bak")
		o.want("backup "+file+" --servers "+server, cli.Done, "has the state up to entry")
		o.want("backup "+file, cli.Failed, "file already exists")
		addrs, err := freeAddrs(1)
		if err != nil {
			t.Fatal(err)
		}
		fresh := filepath.Join(t.TempDir(), "new")
		status, _, text := runCommand(t, "restore", file, "--addr", addrs[0], "--dir", fresh,
			"--new-cluster", "5")
		if status != cli.Usage || !strings.Contains(text, "--new-cluster 5: want another id") {
			t.Errorf("the old cluster's id: %d, %q", status, text)
		}
		if _, err := os.Lstat(fresh); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		n := o.found(9, addrs[0], "restore "+file)
		n.holds("a", 4000, true)
		n.holds(mark, 1, true)
		n.want("put more x", cli.Done, "ok\n")
		n.want("member add 7 "+n.join(7, int(n.Cluster)).addr, cli.Done, "ok\n")
	}
	if err := tr.end(ctx, o.cf); err != nil {
		t.Error(err)
	}
}

// TestBackupOfMinority: a replica that does not know what is committed gives no backup, and none is
// left behind.
func TestBackupOfMinority(t *testing.T) {
	o := operate(t, 3, "")
	leader := o.f.children[o.leader()-1].addr
	o.kill(2)
	dir := t.TempDir()
	o.want("backup "+filepath.Join(dir, "store.bak")+" --timeout 3s --servers "+leader, cli.Failed,
		"the leader changed meanwhile; a backup changes nothing: take it again")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	file := filepath.Join(dir, "other.bak")
	o.want("backup "+file+" --timeout 3s --servers "+leader+",127.0.0.1:1", cli.Failed,
		"; backup from 127.0.0.1:1: nobody listens")
	o = operate(t, 1, "")
	o.want("backup "+file+" --within 1ns", cli.Failed, "--within 1ns was too short")
	o.want("backup "+file+" --within 0s", cli.Usage, "--within 0s: want more than nothing")
	o.want("backup "+file+" --cluster 6", cli.Failed, "wrong cluster id")
}

// TestRestoreRefuses: a backup with any byte changed, or cut, and other files are refused by name,
// and no folder is made.
func TestRestoreRefuses(t *testing.T) {
	o := operate(t, 1, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "store.bak")
	o.want("backup "+file, cli.Done, "entry")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 45))
	bad := map[string][]byte{"empty": nil, "cut": whole[:len(whole)-1],
		"more": append(whole[:len(whole):len(whole)], 0), "other": bytes.Repeat([]byte("x"), 200)}
	for range 40 {
		i := r.IntN(len(whole))
		b := append([]byte(nil), whole...)
		b[i] ^= 1 << r.IntN(8)
		bad[fmt.Sprintf("byte %d, seed %d", i, seed)] = b
	}
	fresh := filepath.Join(dir, "new")
	for what, b := range bad {
		name := writeFile(t, string(b))
		status, _, errOut := runCommand(t, "restore", name, "--addr=127.0.0.1:1", "--dir="+fresh)
		if status != cli.Failed || !strings.Contains(errOut, "backup") ||
			!strings.Contains(errOut, "take ") {
			t.Errorf("%s: %d %q", what, status, errOut)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}

// TestBackupsAtOnce: backups of one replica at the same time are whole, or refused by name.
func TestBackupsAtOnce(t *testing.T) {
	o := operate(t, 1, "")
	o.fill("a", 4000)
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	whole := 0
	for i := range 6 {
		wg.Go(func() {
			file := filepath.Join(dir, fmt.Sprint(i))
			status, text := o.run("backup " + file)
			b, err := os.ReadFile(file)
			mu.Lock()
			defer mu.Unlock()
			if status == cli.Done {
				if _, _, err = parseBackup(bytes.NewReader(b), int64(len(b))); err != nil {
					t.Error(err)
				}
				whole++
			} else if err == nil || !strings.Contains(text, "begin again") &&
				!strings.Contains(text, "another backup") {
				t.Error(text, err)
			}
		})
	}
	wg.Wait()
	if whole == 0 {
		t.Error("none of the backups came to its end")
	}
}

// TestBackupRest: what a backup that was killed has left is begun anew, and what is another's
// stays: a part that is being written, a file that is none, a link, a file that got the name
// meanwhile.
func TestBackupRest(t *testing.T) {
	o := operate(t, 1, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "store.bak")
	rest := binary.LittleEndian.AppendUint64(nil, backupMagic)
	for _, left := range [][]byte{nil, append(rest, make([]byte, 1<<20)...),
		make([]byte, 1<<20)} { // the head was not on the disk yet

		if err := os.WriteFile(file+".part", left, 0o600); err != nil {
			t.Fatal(err)
		}
		o.want("backup "+file, cli.Done, "has the state up to entry")
		b, err := os.ReadFile(file)
		if err == nil {
			_, _, err = parseBackup(bytes.NewReader(b), int64(len(b)))
		}
		if err = errors.Join(err, os.Remove(file)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, put := range []func(string) error{
		func(name string) error { return os.Symlink(other, name) },
		func(name string) error { return os.Link(other, name) },
		func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		if err := put(file + ".part"); err != nil {
			t.Fatal(err)
		}
		o.want("backup "+file, cli.Failed, "no part of a backup: remove it")
		if err := os.Remove(file + ".part"); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"x", strings.Repeat("x", 200),
		strings.Repeat("\x00", backupHead-1) + "x"} {
		if err := os.WriteFile(file+".part", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o.want("backup "+file, cli.Failed, "no part of a backup: remove it")
		if b, err := os.ReadFile(file + ".part"); err != nil || string(b) != text {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if err := os.Remove(file + ".part"); err != nil {
		t.Fatal(err)
	}
	p, err := newPart(file)
	if err != nil {
		t.Fatal(err)
	}
	o.want("backup "+file, cli.Failed, "another process holds "+file+".part")
	if err := os.Symlink(other, file); err != nil {
		t.Fatal(err)
	}
	if err := p.end(nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that got the name meanwhile: %v", err)
	}
	c := backupCmd{clientFlags: clientFlags{Servers: "a,b"}}
	_, err = c.fromAny(t.Context(), t.Context(), nil, p) // whose file is closed
	if !errors.Is(err, fs.ErrClosed) || strings.Contains(err.Error(), "from b") {
		t.Errorf("the disk fails: %v", err)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "of another" {
		t.Errorf("%q, %v", b, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Error(left, err)
	}
}

// TestBackupPartOfOthers: a part that other users may read, change or have under another name is
// refused by name, and nothing is written to it.
func TestBackupPartOfOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.bak")
	part := file + ".part"
	for want, put := range map[string]func() error{
		"has mode 0666": func() error { return os.Chmod(part, 0o666) },
		"has mode 0640": func() error { return os.Chmod(part, 0o640) },
		"has 2 names":   func() error { return os.Link(part, file+".link") },
		"belongs to user 65533": func() error {
			if os.Geteuid() != 0 {
				return errors.ErrUnsupported // only root can give files away
			}
			return os.Chown(part, 65533, 65533)
		},
	} {
		err := errors.Join(os.RemoveAll(part), os.WriteFile(part, nil, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		if err = put(); errors.Is(err, errors.ErrUnsupported) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		p, err := newPart(file)
		if err == nil {
			_ = p.Close()
		}
		if !errors.Is(err, errPart) || !strings.Contains(fmt.Sprint(err), part+" "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestBackupPartEnds: a part that cannot get its name is removed, and one that is another's by then
// stays.
func TestBackupPartEnds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "store.bak")
	p, err := newPart(file)
	if err != nil {
		t.Fatal(err)
	}
	p.name = filepath.Join(dir, "none", "store.bak")
	if err := p.end(nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to a folder that is none: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if p, err = newPart(file); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Remove(file+".part"), os.WriteFile(file+".part", []byte("x"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.end(nil); err == nil || !strings.Contains(err.Error(), "removed meanwhile") {
		t.Errorf("another file has the name: %v", err)
	}
	if b, err := os.ReadFile(file + ".part"); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}
