package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestModuleResults: of what go test -json says, each test without others in it counts once, and a
// package that failed without a test does.
func TestModuleResults(t *testing.T) {
	all, err := testResults("m", []byte(`
		{"Action":"output","Package":"m/p","Test":"TestA/x","Output":"    a_test.go:1: why\n"}
		{"Action":"fail","Package":"m/p","Test":"TestA/x"}
		{"Action":"pass","Package":"m/p","Test":"TestA/y"}
		{"Action":"fail","Package":"m/p","Test":"TestA"}
		{"Action":"fail","Package":"m/p"}
		{"Action":"skip","Package":"m","Test":"TestB"}
		{"Action":"pass","Package":"m"}
		{"Action":"fail","Package":"m/broken"}`))
	want := "[{{TestB false} false } {{broken false} true it failed} " +
		"{{p.TestA/x false} true a_test.go:1: why} {{p.TestA/y false} false }]"
	if got := fmt.Sprint(all); got != want || err != nil {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if _, err := testResults("m", []byte("no JSON")); err == nil {
		t.Error("what is no JSON has results")
	}
}

// TestConformanceResults: all cases count, and one that got lost is an error.
func TestConformanceResults(t *testing.T) {
	sent := "Sending request for \"A/b\"...\nSending request for \"A/c\"...\n" +
		"FAILED: A/c:\n\twhy\n\n"
	all, err := conformanceResults([]byte(sent + "Total cases: 2\n1 passed, 1 failed\n"))
	if got := fmt.Sprint(all); got != "[{{A/b false} false } {{A/c false} true why}]" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	for _, total := range []string{"", "Total cases: 3\n2 passed, 1 failed\n",
		"Total cases: 2\n0 passed, 2 failed\n"} {
		if _, err := conformanceResults([]byte(sent + total)); err == nil {
			t.Errorf("no error with %q", total)
		}
	}
}

// TestReadExamples: a script's examples have what its tables say of them, else the default; what
// grep takes as it is stays so.
func TestReadExamples(t *testing.T) {
	dir := t.TempDir()
	write := func(names string) {
		text := "export PORT=50051\nEXAMPLES=(\n" + names + `)
declare -A SERVER_ARGS=(
    ["default"]="-port $PORT"
)
declare -A CLIENT_ARGS=(
    ["b/c"]="-creds $(dirname $(realpath "$0"))/x"
    ["default"]="-addr localhost:$PORT"
)
declare -A SERVER_WAIT_COMMAND=(
    ["b/c"]="lsof -U | grep name"
    ["default"]="lsof -i :$PORT | grep $PORT"
)
declare -A EXPECTED_CLIENT_OUTPUT=(
    ["a"]="said \"1\" (2)"
)
`
		if err := os.WriteFile(filepath.Join(dir, exampleScript), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("    \"a\"\n    \"b/c\"\n")
	got, err := readExamples(dir)
	want := fmt.Sprintf(`[{a [-port 50051] [-addr localhost:50051] 50051  said "1" \(2\)} `+
		`{b/c [-port 50051] [-creds %s/x] name  }]`, dir)
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v\nwant %s", got, err, want)
	}
	write("")
	if _, err := readExamples(dir); err == nil {
		t.Error("a script without examples has some")
	}
}

// TestJudge: a test of the lists must fail, unless it fails with grpc-go too, or with shm alone.
func TestJudge(t *testing.T) {
	l := lists{"a": upstreamFile, "b": "http2.txt"}
	if status := l.judge([]result{{test: test{name: "a"}}}); status != 0 {
		t.Error("a test that fails with grpc-go too must fail")
	}
	if status := l.judge([]result{{test: test{name: "b"}}}); status == 0 {
		t.Error("a test of another list may pass")
	}
	shared := lists{"shm:a": "http2.txt"}
	failed := []result{{test: test{name: "a"}, failed: true}}
	if udp, shm := shared.over("udp").judge(failed), shared.over("shm").judge(failed); udp != 1 ||
		shm != 0 {
		t.Errorf("what may fail with shm alone has the status %d with UDP, %d with shm", udp, shm)
	}
}
