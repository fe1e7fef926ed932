package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a package as `go list` describes it.
type listed struct {
	Dir      string
	GoFiles  []string
	CgoFiles []string
	Module   *struct {
		Path string
		Dir  string
	}
	EmbedFiles []string
}

// goList runs `go list` in a folder.
func goList(ctx context.Context, goCmd, dir string, args ...string) ([]listed, error) {
	args = append([]string{"list", "-json=Dir,GoFiles,CgoFiles,Module,EmbedFiles"}, args...)
	cmd := exec.CommandContext(ctx, goCmd, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	var list []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}

// moduleOf returns the folder of the module that a package of the repository at root is in, "." for
// the one at root.
func moduleOf(root, pkg string) string {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return dir
		}
	}
	return "."
}

// relative returns the folder of a package as commands in its module's folder name it.
func relative(module, pkg string) string {
	if module == "." {
		return "./" + pkg
	}
	return "." + strings.TrimPrefix(pkg, module)
}

// fillScratch copies into dst the packages in the folders pkgs of the repository at root, which are
// of one module, with tests and testdata, and what they import from the repository, without tests.
// Folders keep their names.
func fillScratch(ctx context.Context, goCmd, root, dst string, pkgs []string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	module := moduleOf(root, pkgs[0])
	args := []string{"-deps", "-test"}
	for _, p := range pkgs {
		args = append(args, relative(module, p))
	}
	list, err := goList(ctx, goCmd, filepath.Join(root, module), args...)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, p := range list {
		dir, err := filepath.Rel(root, p.Dir)
		if err != nil || p.Module == nil || !filepath.IsLocal(dir) || done[dir] {
			continue // of another repository
		}
		done[dir] = true
		tested := slices.Contains(pkgs, filepath.ToSlash(dir))
		if err := copyPackage(root, dst, dir, tested, p.EmbedFiles); err != nil {
			return err
		}
	}
	return copyModules(ctx, goCmd, root, dst)
}

// copyModules copies the go.mod and go.sum of all modules at root and below. In the copies they
// require each other by absolute paths, as gremlins copies a module elsewhere: the workspace does
// not reach there.
func copyModules(ctx context.Context, goCmd, root, dst string) error {
	var dirs []string // of modules, in dst
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (d.Name()[0] == '.' || d.Name() == "out") {
			return fs.SkipDir
		}
		if d.Name() != "go.mod" && d.Name() != "go.sum" {
			return nil
		}
		file, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.Name() == "go.mod" {
			dirs = append(dirs, filepath.Join(dst, filepath.Dir(file)))
		}
		return copyFile(root, dst, file)
	})
	if err != nil {
		return err
	}
	paths := make([]string, len(dirs))
	for i, dir := range dirs {
		if paths[i], err = modulePath(ctx, goCmd, dir); err != nil {
			return err
		}
	}
	for i, dir := range dirs {
		args := []string{"mod", "edit"}
		for j, to := range dirs {
			if i != j {
				args = append(args, "-replace="+paths[j]+"="+to)
			}
		}
		if len(args) == 2 {
			continue
		}
		cmd := exec.CommandContext(ctx, goCmd, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

// modulePath returns the path of the module in a folder.
func modulePath(ctx context.Context, goCmd, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, goCmd, "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod edit in %s: %w", dir, err)
	}
	var mod struct{ Module struct{ Path string } }
	err = json.Unmarshal(out, &mod)
	return mod.Module.Path, err
}

// copyPackage copies the files of one folder, and those below it that are embedded.
func copyPackage(root, dst, dir string, tested bool, embedded []string) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return err
	}
	names := slices.Clone(embedded)
	for _, e := range entries {
		switch {
		case e.Type().IsRegular() && (tested || !strings.HasSuffix(e.Name(), "_test.go")):
			names = append(names, e.Name())
		case e.IsDir() && tested && e.Name() == "testdata":
			sub := os.DirFS(filepath.Join(root, dir))
			err := fs.WalkDir(sub, "testdata", func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					names = append(names, filepath.FromSlash(name))
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if err := copyFile(root, dst, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(root, dst, name string) error {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return err
	}
	to := filepath.Join(dst, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// gitEnv makes git ignore the settings of user and machine. The diff names files relative
// to the folder it is called in and has no lines of context: gremlins compares the names with
// those relative to the package, and takes each hunk for one block of changed lines.
func gitEnv(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(s string) bool {
		return strings.HasPrefix(s, "GIT_")
	})
	env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=mutants", "GIT_AUTHOR_EMAIL=",
		"GIT_COMMITTER_NAME=mutants", "GIT_COMMITTER_EMAIL=")
	settings := []string{"diff.relative=true", "diff.context=0", "diff.interHunkContext=0",
		"diff.algorithm=minimal", "core.autocrlf=false"}
	for i, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key),
			fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
}

// commitAndMark makes the scratch module a git repository. Its one commit holds the module
// as it is; after that each of the given lines is marked, so that git reports them as
// changed and no other.
func commitAndMark(ctx context.Context, scratch, pkg string, lines map[string][]int) error {
	commit := []string{"commit", "-q", "-m", "unmarked"}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, commit} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Env = scratch, gitEnv(os.Environ())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w\n%s", args, err, out)
		}
	}
	for file, numbers := range lines {
		name := filepath.Join(scratch, pkg, file)
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(mark(string(b), numbers)), 0o644); err != nil {
			return err
		}
	}
	return nil
}
