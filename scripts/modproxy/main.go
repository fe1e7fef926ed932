package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	var p proxy
	flag.StringVar(&p.repo, "repo", ".", "folder of the repository")
	flag.StringVar(&p.dir, "proxy", "", "folder of the proxy")
	flag.StringVar(&p.version, "version", "", "version of the modules")
	flag.StringVar(&p.commit, "commit", "HEAD", "commit that has them")
	flag.Parse()
	for _, folder := range flag.Args() {
		if err := p.add(folder); err != nil {
			fmt.Fprintf(os.Stderr, "modproxy: %s: %v\n", folder, err)
			os.Exit(1)
		}
	}
}

type proxy struct{ repo, dir, version, commit string }

// git returns what a git command prints.
func (p *proxy) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = p.repo
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

// add puts the module in a folder of the repository into the proxy.
func (p *proxy) add(folder string) (err error) {
	folder = strings.TrimPrefix(path.Clean(folder), ".")
	text, err := p.git("show", p.commit+":"+path.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	time, err := p.git("show", "-s", "--format=%cI", p.commit)
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath([]byte(text)), Version: p.version}
	escaped, err := module.EscapePath(m.Path)
	if err = errors.Join(err, module.Check(m.Path, m.Version)); err != nil {
		return err
	}
	at := filepath.Join(p.dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	info := fmt.Sprintf("{%q:%q,%q:%q}\n", "Version", m.Version, "Time", strings.TrimSpace(time))
	for name, content := range map[string]string{"list": m.Version + "\n", m.Version + ".mod": text,
		m.Version + ".info": info} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(at, m.Version+".zip"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return zip.CreateFromVCS(f, m, p.repo, p.commit, folder)
}
