package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// suite is software that runs over grpcerpc.
type suite struct {
	// module is the one that is copied, as "path@version": none if grpc-go's has all.
	module string
	// hooks are the folders of packages that get the hook, or patterns of them, as filepath.Glob
	// takes them; what imports one has it.
	hooks []string
	// programs are those that it builds.
	programs []string
	// tests are the packages whose tests it runs, as go test takes them.
	tests []string
	run   func(*options, lists) ([]result, error)
}

// suites are all that there are, by their names.
var suites = map[string]suite{
	"test": {hooks: []string{"test"}, run: (*options).grpcTests},
	"interop": {
		hooks:    []string{"interop/client", "interop/server"},
		programs: []string{"interop/client", "interop/server"},
		run:      (*options).interop,
	},
	"conformance": {
		module:   "connectrpc.com/conformance@v1.0.7",
		hooks:    []string{"cmd/grpcclient", "cmd/grpcserver"},
		programs: []string{"cmd/connectconformance", "cmd/grpcclient", "cmd/grpcserver"},
		run:      (*options).conformance,
	},
	"middleware": {
		module: "github.com/grpc-ecosystem/go-grpc-middleware/v2@v2.3.4",
		hooks:  []string{"testing/testpb", "interceptors/protovalidate"},
		tests:  []string{"./..."}, run: (*options).moduleTests,
	},
	"grpcurl": {
		module: "github.com/fullstorydev/grpcurl@v1.9.4",
		hooks:  []string{""}, tests: []string{"./..."}, run: (*options).moduleTests,
	},
	"gateway": {
		module: "github.com/grpc-ecosystem/grpc-gateway/v2@v2.33.0",
		hooks:  []string{"examples/internal/server", "examples/internal/gateway"},
		tests:  []string{"./examples/internal/..."}, run: (*options).moduleTests,
	},
	"otelgrpc": {
		module: "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc@v0.72.0",
		hooks:  []string{"", "internal/test"}, tests: []string{"./..."}, run: (*options).moduleTests,
	},
	"ghz": {
		module: "github.com/bojand/ghz@v0.121.0", hooks: []string{"internal"},
		tests: []string{"./runner", "./protodesc", "./printer", "./cmd/ghz"},
		run:   (*options).moduleTests,
	},
	"examples": {
		module: "google.golang.org/grpc/examples@v0.0.0-20260825154716-030ee8becb20",
		hooks: []string{"*/*server", "*/*client", "features/*/*server", "features/*/*client",
			"features/*/*/server", "features/*/*/client"},
		run: (*options).examples,
	},
}

// folder returns where the packages of a suite are.
func (s suite) folder(dir string) string {
	if s.module == "" {
		return filepath.Join(dir, "grpc")
	}
	return filepath.Join(dir, "suite")
}

// layOut has go fetch the module, and copies it.
func (s suite) layOut(dir string) error {
	if s.module == "" {
		return nil
	}
	get := exec.Command(goTool, "mod", "download", "-json", s.module)
	get.Dir, get.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := get.Output()
	var at struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &at); err != nil || jsonErr != nil {
		return fmt.Errorf("go mod download %s: %w %w %s", s.module, err, jsonErr, at.Error)
	}
	if err := os.CopyFS(s.folder(dir), os.DirFS(at.Dir)); err != nil {
		return err
	}
	return dropReplaced(s.folder(dir))
}

// aboveIt is a line of go.mod that replaces a module by a folder above it: of its repository, which
// the copy is not in.
var aboveIt = regexp.MustCompile(`(?m)^(replace\s|\t).* => \.\./.*\n`)

// dropReplaced takes them from a module.
func dropReplaced(dir string) error {
	mod := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(mod)
	if err != nil {
		return err
	}
	return os.WriteFile(mod, aboveIt.ReplaceAll(text, nil), 0o666)
}

// hook adds a file that imports the hook to each package that gets it.
func (s suite) hook(dir string, replace map[string]string) error {
	for _, pattern := range s.hooks {
		folders, err := filepath.Glob(filepath.Join(s.folder(dir), pattern))
		if err != nil || len(folders) == 0 {
			return errors.Join(fmt.Errorf("there is no folder %s", pattern), err)
		}
		for _, folder := range folders {
			if err := hookPackage(dir, folder, replace); err != nil {
				return err
			}
		}
	}
	return nil
}

// hookPackage adds it to one.
func hookPackage(dir, folder string, replace map[string]string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("no package is in %s", folder), err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), files[0], nil, parser.PackageClauseOnly)
	if err != nil {
		return err
	}
	to := filepath.Join(dir, fmt.Sprintf("hook%d.go", len(replace))) // as each gets an entry
	text := fmt.Sprintf("package %s; import _ %q\n",
		strings.TrimSuffix(f.Name.Name, "_test"), grpcModule+"/erpchook")
	if err := os.WriteFile(to, []byte(text), 0o666); err != nil {
		return err
	}
	replace[filepath.Join(folder, "erpc.go")] = to
	return nil
}
