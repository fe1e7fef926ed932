package packaging

import (
	"bufio"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestImage carries out the build lines of the Dockerfile, and then runs the commands in a folder
// that has nothing else, as the image's user. The first part needs no privileges.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the commands anew")
	}
	image := t.TempDir()
	bin := filepath.Join(image, "usr", "local", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	built := 0
	for _, line := range dockerfile(t) {
		run, ok := strings.CutPrefix(line, "RUN ")
		if !ok {
			continue
		}
		built++
		// .dockerignore leaves the workspace out.
		env := []string{"GOWORK=off"}
		output(t, env, "sh", "-ec", strings.ReplaceAll(run, "/out/", bin+"/"))
	}
	if built == 0 {
		t.Fatal("the Dockerfile builds nothing")
	}
	for _, name := range []string{"erpc", "erpc-kv", "erpc-index"} {
		f, err := elf.Open(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s is linked dynamically: FROM scratch has no loader", name)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if !t.Failed() {
		runImage(t, image)
	}
}

// runImage serves and pings in the folder as its root, as user 65532.
func runImage(t *testing.T, image string) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI runs this as root, for chroot")
		}
		t.Skip("chroot needs root")
	}
	for dir := image; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/usr/local/bin/erpc", args...)
		cmd.Dir = "/"
		cmd.Env = []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Pdeathsig: syscall.SIGKILL,
			Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	server := inside("server", "--addr", "127.0.0.1:0")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = server.Stdout
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}()
	addr := ""
	for s := bufio.NewScanner(out); addr == "" && s.Scan(); {
		addr = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(s.Text())
	}
	if addr == "" {
		t.Fatal("the server said no address")
	}
	ping := inside("ping", addr, "--count", "2")
	timer := time.AfterFunc(time.Minute, func() { _ = ping.Process.Kill() })
	defer timer.Stop()
	if text, err := ping.CombinedOutput(); err != nil {
		t.Errorf("ping: %v\n%s", err, text)
	}
}
