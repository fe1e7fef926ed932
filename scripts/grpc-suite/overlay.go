package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// insertion is a line that the overlay adds to a declaration: at the begin of a function, before
// its last statement, or as the first field of a struct.
type insertion struct {
	file string
	decl string // "F", "T.F" for a method of *T, "T" for a struct
	last bool
	text string
}

var insertions = []insertion{
	{"clientconn.go", "ClientConn", false, "erpc ErpcConn"},
	{"clientconn.go", "NewClient", true,
		"if cc.erpc, err = erpcDial(cc); err != nil { cc.Close(); return nil, err }"},
	{"clientconn.go", "ClientConn.exitIdleMode", false,
		"if cc.erpc != nil { cc.erpc.Connect(); return nil }"},
	{"clientconn.go", "ClientConn.Connect", false, "if cc.erpc != nil { cc.erpc.Connect(); return }"},
	{"clientconn.go", "ClientConn.GetState", false,
		"if cc.erpc != nil { return cc.erpc.GetState() }"},
	{"clientconn.go", "ClientConn.WaitForStateChange", false,
		"if cc.erpc != nil { return cc.erpc.WaitForStateChange(ctx, sourceState) }"},
	{"clientconn.go", "ClientConn.GetMethodConfig", false,
		"if cc.erpc != nil { return cc.erpc.GetMethodConfig(method) }"},
	{"clientconn.go", "ClientConn.Close", false,
		"if cc.erpc != nil { defer cc.erpc.Close() }"},
	{"call.go", "ClientConn.Invoke", false,
		"if cc.erpc != nil { return cc.erpc.Invoke(ctx, method, args, reply, opts...) }"},
	{"stream.go", "ClientConn.NewStream", false,
		"if cc.erpc != nil { return cc.erpc.NewStream(ctx, desc, method, opts...) }"},
	{"server.go", "Server", false, "erpc ErpcServer"},
	{"server.go", "NewServer", true, "s.erpc = erpcServe(s)"},
	{"server.go", "Server.register", true, "if s.erpc != nil { s.erpc.RegisterService(sd, ss) }"},
	{"server.go", "Server.Serve", false, "if s.erpc != nil { return s.erpc.Serve(lis) }"},
	{"server.go", "Server.stop", false,
		"if s.erpc != nil { if graceful { s.erpc.GracefulStop() } else { s.erpc.Stop() } }"},
}

// added are the files of the overlay that grpc-go has not, and where they are kept.
var added = map[string]string{
	"erpc.go":             "grpc.go.txt",
	"credentials/erpc.go": "credentials.go.txt",
	"erpchook/hook.go":    "erpchook.go.txt",
}

// layOut copies grpc-go's module to dir/grpc, and that of a suite to dir/suite, and writes the
// overlay, its JSON and a go.work beside them.
func layOut(root, dir string, of suite) error {
	from, err := moduleDir(filepath.Join(root, "grpcerpc"), filepath.Join(root, "go.work"), grpcModule)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	module, changed := filepath.Join(dir, "grpc"), filepath.Join(dir, "overlay")
	if err := os.CopyFS(module, os.DirFS(from)); err != nil {
		return err
	}
	replace := make(map[string]string)
	for at, kept := range added {
		path := filepath.Join(root, "scripts/grpc-suite/overlay", kept)
		replace[filepath.Join(module, at)] = path
	}
	if err := os.Mkdir(changed, 0o777); err != nil {
		return err
	}
	for _, in := range insertions {
		path := filepath.Join(module, in.file)
		replace[path] = filepath.Join(changed, in.file)
	}
	for path, to := range replace {
		if filepath.Dir(to) == changed {
			if err := insert(path, to); err != nil {
				return err
			}
		}
	}
	if err := of.layOut(dir); err != nil {
		return err
	}
	if err := of.hook(dir, replace); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o666); err != nil {
		return err
	}
	return workspace(root, dir, of)
}

// grpcModule is grpc-go's module.
const grpcModule = "google.golang.org/grpc"

// moduleDir returns where a module is that the one of a folder requires, in a workspace or without
// one ("off").
func moduleDir(folder, workspace, module string) (string, error) {
	list := exec.Command(goTool, "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = folder
	list.Env = append(os.Environ(), "GOWORK="+workspace)
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// genproto is a version from which those packages have gone that modules of their own have: some
// suites require an older one, and a workspace would have them twice.
const genproto = "google.golang.org/genproto v0.0.0-20261026165753-2ffab32bce7e"

// workspace has go use the copies beside the modules of this repository.
func workspace(root, dir string, of suite) error {
	mod, err := os.ReadFile(filepath.Join(root, "grpcerpc/go.mod"))
	if err != nil {
		return err
	}
	_, rest, ok := strings.Cut(string(mod), "github.com/userspace-rpc/erpc ")
	if !ok {
		return fmt.Errorf("grpcerpc/go.mod does not require erpc")
	}
	version, _, _ := strings.Cut(rest, "\n")
	use := []string{"./grpc", root, filepath.Join(root, "grpcerpc")}
	if of.module != "" {
		use = append(use, "./suite")
	}
	text := fmt.Sprintf("go 1.26.0\n\nuse (\n\t%s\n)\n\n"+
		"replace github.com/userspace-rpc/erpc %s => %s\n\n"+
		"replace google.golang.org/genproto => %s\n",
		strings.Join(use, "\n\t"), version, root, genproto)
	return os.WriteFile(filepath.Join(dir, "go.work"), []byte(text), 0o666)
}

// insert writes a file of grpc-go with its insertions to another place.
func insert(path, to string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, in := range insertions {
		if in.file != filepath.Base(path) {
			continue
		}
		at, err := in.find(text)
		if err != nil {
			return err
		}
		text = bytes.Join([][]byte{text[:at], text[at:]}, []byte("\n"+in.text+"\n"))
	}
	return os.WriteFile(to, text, 0o666)
}

// find returns where in a file's text the insertion goes.
func (in insertion) find(text []byte) (int, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, in.file, text, 0)
	if err != nil {
		return 0, err
	}
	for _, d := range f.Decls {
		if at := in.within(d); at != token.NoPos {
			return files.Position(at).Offset, nil
		}
	}
	return 0, fmt.Errorf("%s has no %s: mend the insertions of the overlay", in.file, in.decl)
}

// within returns the place in a declaration, NoPos if it is another one.
func (in insertion) within(d ast.Decl) token.Pos {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
				name = fmt.Sprint(star.X) + "." + name
			}
		}
		switch body := d.Body; {
		case name != in.decl:
		case in.last:
			return body.List[len(body.List)-1].Pos()
		default:
			return body.Lbrace + 1
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == in.decl {
				if st, ok := t.Type.(*ast.StructType); ok {
					return st.Fields.Opening + 1
				}
			}
		}
	}
	return token.NoPos
}

// maxDiff is how many lines of code the overlay may add to grpc-go, but comments: it hands options
// and calls on, and nothing else.
const maxDiff = 300

// codeLine is a line of a diff that has code.
var codeLine = regexp.MustCompile(`(?m)^[+-]([^+/\s-]|[ \t]+[^/\s])`)

// checkDiff returns an error if the overlay has become too large.
func checkDiff(dir string) error {
	text, err := diff(dir, filepath.Join(dir, "grpc"))
	if err != nil {
		return err
	}
	if n := len(codeLine.FindAll(text, -1)); n >= maxDiff {
		return fmt.Errorf("the overlay has %d lines of code, must have fewer than %d", n, maxDiff)
	}
	return nil
}

// diff returns what the overlay changes in a folder.
func diff(dir, in string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, "overlay.json"))
	if err != nil {
		return nil, err
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		return nil, err
	}
	var all []byte
	for _, path := range slices.Sorted(maps.Keys(overlay.Replace)) {
		if !strings.HasPrefix(path, in+string(filepath.Separator)) {
			continue
		}
		cmd := exec.Command("diff", "-U0", "-N", path, overlay.Replace[path])
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			return nil, fmt.Errorf("diff of %s: %w", path, err)
		}
		all = append(all, out...)
	}
	return all, nil
}
