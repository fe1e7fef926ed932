package main

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// suite is software that runs over grpcerpc.
type suite struct {
	// module is the one that is copied, as "path@version": none if grpc-go's has all.
	module string
	// hooks are the folders of packages that get the hook; what imports them has it.
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
	return os.CopyFS(s.folder(dir), os.DirFS(at.Dir))
}

// hook adds a file that imports the hook to each package that gets it.
func (s suite) hook(dir string, replace map[string]string) error {
	for i, folder := range s.hooks {
		folder = filepath.Join(s.folder(dir), folder)
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no package is in %s: %w", folder, err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), files[0], nil, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, fmt.Sprintf("hook%d.go", i))
		text := fmt.Sprintf("package %s; import _ %q\n",
			strings.TrimSuffix(f.Name.Name, "_test"), grpcModule+"/erpchook")
		if err := os.WriteFile(to, []byte(text), 0o666); err != nil {
			return err
		}
		replace[filepath.Join(folder, "erpc.go")] = to
	}
	return nil
}
