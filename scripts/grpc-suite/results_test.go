package main

import (
	"fmt"
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
