package grpcerpc_test

//lint:file-ignore SA1019 the table has what is deprecated too

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// optionsOf returns the functions of a package that make an option of one of the types.
func optionsOf(t *testing.T, dir string, types ...string) map[string]map[string]bool {
	t.Helper()
	found := make(map[string]map[string]bool)
	for _, typ := range types {
		found[typ] = make(map[string]bool)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*.go"))
	is(t, "the files", err, codes.OK)
	for _, name := range list {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		is(t, name, err, codes.OK)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Results.NumFields() != 1 {
				continue
			}
			if id, ok := fn.Type.Results.List[0].Type.(*ast.Ident); ok && found[id.Name] != nil {
				found[id.Name][fn.Name.Name] = true
			}
		}
	}
	return found
}

// tables returns the rows of a document's tables by heading: the first column and the second.
func tables(t *testing.T, name string) map[string]map[string]string {
	t.Helper()
	b, err := os.ReadFile(name)
	is(t, "the document", err, codes.OK)
	all, heading := make(map[string]map[string]string), ""
	row := regexp.MustCompile("^\\| `([^`]+)` \\| (\\w+) \\|")
	for line := range strings.Lines(string(b)) {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(h)
			all[heading] = make(map[string]string)
		} else if m := row.FindStringSubmatch(line); m != nil {
			all[heading][m[1]] = m[2]
		}
	}
	return all
}

// TestOptionsTable: the document has each option of grpc-go, and what it says of it is true.
func TestOptionsTable(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/grpc").Output()
	is(t, "go list", err, codes.OK)
	theirs := optionsOf(t, strings.TrimSpace(string(out)), "DialOption", "ServerOption", "CallOption")
	ours := optionsOf(t, ".", "DialOption", "ServerOption")
	table := tables(t, filepath.Join("..", "docs", "grpc-options.md"))
	for heading, typ := range map[string]string{"Dial options": "DialOption",
		"Server options": "ServerOption", "Call options": "CallOption"} {
		rows, names := table[heading], slices.Sorted(maps.Keys(theirs[typ]))
		if listed := slices.Sorted(maps.Keys(rows)); !slices.Equal(listed, names) {
			t.Errorf("%s: the document has %v, grpc-go %v", heading, listed, names)
		}
		for name, what := range rows {
			if typ != "CallOption" && (what == "same") != ours[typ][name] {
				t.Errorf("%s: the document says %q; it is here: %v", name, what, ours[typ][name])
			}
		}
	}
	testCallOptions(t, table["Call options"])
	fields := fieldsOf(t, filepath.Join(strings.TrimSpace(string(out)), "service_config.go"))
	if listed := slices.Sorted(maps.Keys(table["Service config"])); !slices.Equal(listed, fields) {
		t.Errorf("service config: the document has %v, grpc-go %v", listed, fields)
	}
}

// fieldsOf returns the fields of service configs that grpc-go reads.
func fieldsOf(t *testing.T, name string) (list []string) {
	t.Helper()
	f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
	is(t, name, err, codes.OK)
	prefix := map[string]string{"jsonSC": "", "jsonMC": "methodConfig."}
	ast.Inspect(f, func(n ast.Node) bool {
		typ, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if before, read := prefix[typ.Name.Name]; read {
			for _, field := range typ.Type.(*ast.StructType).Fields.List {
				first, rest := field.Names[0].Name[:1], field.Names[0].Name[1:]
				list = append(list, before+strings.ToLower(first)+rest)
			}
		}
		return false
	})
	slices.Sort(list)
	return list
}

// testCallOptions makes a call with each option that the document refuses, and one with all others.
func testCallOptions(t *testing.T, rows map[string]string) {
	r := newRig(t, nil)
	refused := map[string]grpc.CallOption{"CallCustomCodec": grpc.CallCustomCodec(nil)}
	for name, what := range rows {
		opt := refused[name]
		if (what == "refused") != (opt != nil) {
			t.Errorf("%s: the document says %q", name, what)
		}
		if opt == nil {
			continue
		}
		_, err := r.client.SayHello(within(t), &pb.HelloRequest{}, opt)
		is(t, name, err, codes.Internal)
		if !strings.Contains(err.Error(), "CallOption is not supported") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{},
		grpc.CallAuthority("x"), grpc.CallContentSubtype("proto"), grpc.FailFast(true),
		grpc.ForceCodec(upper{}),
		grpc.ForceCodecV2(nil), grpc.Header(new(metadata.MD)), grpc.MaxCallRecvMsgSize(99),
		grpc.MaxCallSendMsgSize(99), grpc.MaxRetryRPCBufferSize(99), grpc.OnFinish(func(error) {}),
		grpc.Peer(new(peer.Peer)), grpc.PerRPCCredentials(token{}), grpc.StaticMethod(),
		grpc.Trailer(new(metadata.MD)), grpc.UseCompressor("identity"), grpc.WaitForReady(true))
	is(t, "all others", err, codes.OK)
}
