package main

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	ran := []mutant{
		{File: "a.go", Line: 1, Status: killed},
		{File: "a.go", Line: 2, Status: timedOut},
		{File: "a.go", Line: 3, Status: lived},
		{File: "a.go", Line: 4, Status: lived},
		{File: "a.go", Line: 5, Status: notViable},
		{File: "b.go", Line: 1, Status: notCovered},
		{File: "b.go", Line: 2, Status: notCovered},
		{File: "b.go", Line: 3, Status: killed},
	}
	matched := map[place]bool{{"a.go", 4, 0, ""}: true, {"b.go", 2, 0, ""}: true,
		{"c.go", 1, 0, ""}: true}
	v := judge(ran, matched)
	a := tally{killed: 1, timedOut: 1, lived: 1, equivalent: 1, notViable: 1}
	b := tally{killed: 1, notCovered: 1, equivalent: 1}
	if v.files["a.go"] != a || v.files["b.go"] != b || len(v.files) != 2 {
		t.Errorf("files: %+v", v.files)
	}
	want := tally{killed: 2, timedOut: 1, lived: 1, notCovered: 1, equivalent: 2, notViable: 1}
	if v.total != want {
		t.Errorf("total: %+v, want %+v", v.total, want)
	}
	if n := v.total.mutants(); n != 7 {
		t.Errorf("%d mutants, want 7 without the one that does not compile", n)
	}
	if s := v.total.score(); s != 60 {
		t.Errorf("score %v, want 60: 3 of 5", s)
	}
	if len(v.survivors) != 2 || v.survivors[0] != ran[2] || v.survivors[1] != ran[5] {
		t.Errorf("survivors: %v", v.survivors)
	}
	if len(v.wrong) != 0 {
		t.Errorf("wrong: %q", v.wrong)
	}
}

// TestKilledEquivalent: what a test kills is not equivalent.
func TestKilledEquivalent(t *testing.T) {
	for _, status := range []string{killed, timedOut} {
		v := judge([]mutant{{File: "a.go", Status: status}}, map[place]bool{{file: "a.go"}: true})
		if len(v.wrong) != 1 || !strings.Contains(v.wrong[0], "not equivalent") {
			t.Errorf("%s: %q", status, v.wrong)
		}
	}
}

func TestScoreOfNone(t *testing.T) {
	if s := (tally{equivalent: 3, notViable: 1}).score(); s != 100 {
		t.Errorf("score %v without a mutant to kill, want 100", s)
	}
}

func TestTable(t *testing.T) {
	v := judge([]mutant{
		{File: "b.go", Line: 1, Status: killed}, {File: "b.go", Line: 2, Status: killed},
		{File: "b.go", Line: 3, Status: lived}, {File: "b.go", Line: 4, Status: notViable},
		{File: "longer.go", Line: 1, Status: timedOut},
	}, nil)
	want := `           mutants  killed  lived  timed out  not covered  equivalent   score
b.go             3       2      1          0            0           0   66.7%
longer.go        1       0      0          1            0           0  100.0%
p                4       2      1          1            0           0   75.0%
1 more do not compile
`
	if got := v.table("p"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestReport: the least score and the list of equivalents decide.
func TestReport(t *testing.T) {
	ran := []mutant{{File: "a.go", Line: 1, Status: killed}, {File: "a.go", Line: 2, Status: lived}}
	v := judge(ran, nil)
	var out strings.Builder
	if !report(&out, "p", v, 50) {
		t.Error("50 % are not enough for 50 %")
	}
	if !strings.Contains(out.String(), "not killed in p:\n\tlived a.go:2:0") {
		t.Errorf("no survivor in:\n%s", out.String())
	}
	out.Reset()
	const missed = "50.0% killed, at least 50.1% wanted"
	if report(&out, "p", v, 50.1) || !strings.Contains(out.String(), missed) {
		t.Errorf("50 %% are enough for 50.1 %%:\n%s", out.String())
	}
	v.wrong = []string{"stale"}
	out.Reset()
	if report(&out, "p", v, 50) || !strings.Contains(out.String(), "p/mutants.txt: stale") {
		t.Errorf("a stale entry is good enough:\n%s", out.String())
	}
}
