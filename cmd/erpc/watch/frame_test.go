package watch

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/userspace-rpc/erpc/debug"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// start is when the first snapshot is taken.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// snaps returns what two loops look like after n seconds of 1000 calls a second each, of which
// every tenth failed and each took 2 ms, the handler 1 ms of it.
func snaps(n int) []*erpc.Snapshot {
	var list []*erpc.Snapshot
	for loop := range 2 {
		s := &erpc.Snapshot{Addr: transport.Addr{IP: [16]byte{15: 1}, Port: 31850}, Loop: loop + 1,
			At: start.Add(time.Duration(n) * time.Second)}
		served := new(erpc.CallStats)
		for range 1000 * n {
			served.Latency.Add(2e6)
			served.Handler.Add(1e6)
			s.Stats.RTT.Add(50e3)
		}
		served.Ended[erpc.CodeOK], served.Ended[erpc.CodeInternal] = uint64(900*n), uint64(100*n)
		s.Types = []erpc.TypeStats{{Type: 7, Server: served}}
		s.Stats.RequestsServed = uint64(1000 * n)
		s.Stats.Transport.TxBytes = uint64(1e6 * n)
		s.Stats.Protocol.Retransmits = uint64(10 * n)
		s.Stats.BlindTime = time.Duration(n) * 250 * time.Millisecond
		s.Stats.Sessions = 3
		for i := range 3 {
			s.Sessions = append(s.Sessions, erpc.SessionState{Number: uint32(i), Client: true,
				InFlight: i, Credits: 30, MaxCredits: 32, RTT: 50 * time.Microsecond, Rate: 25e9})
		}
		list = append(list, s)
	}
	return list
}

// about is the program of all tests.
var about = debug.About{Program: "shop", PID: 4711, TypeNames: map[uint8]string{7: "get"}}

func near(got, want float64) bool { return math.Abs(got-want) <= 0.04*want }

// TestFrame: the second frame has rates and quantiles of the time between; a loop that begins anew
// has none for once.
func TestFrame(t *testing.T) {
	m := NewMeter(about)
	if f := m.Next(snaps(1)); f.Over != 0 || f.Total.Calls != 0 || len(f.Trend) != 0 {
		t.Errorf("the first frame: %+v", f.Total)
	}
	f := m.Next(snaps(3))
	all := &f.Total
	if f.Over != 2 || !near(all.Calls, 2000) || !near(all.P99, 2000) || !near(all.RTT50, 50) ||
		!near(all.TX, 2e6) || !near(all.Resent, 20) || !near(all.Blind, 0.25) || all.Sessions != 6 {
		t.Errorf("over %v s: %+v", f.Over, all)
	}
	if len(f.Types) != 1 || f.Types[0].Name != "get" || !f.Types[0].Server ||
		!near(f.Types[0].Calls, 2000) || !near(f.Types[0].Failed, 200) ||
		!near(f.Types[0].Handler99, 1000) {
		t.Errorf("%+v", f.Types)
	}
	if len(f.Sessions) != 6 || f.Sessions[0].InFlight != 2 || len(f.Trend) != 1 {
		t.Errorf("%+v, %+v", f.Sessions, f.Trend)
	}
	young := snaps(1)
	young[0].At, young[1].At = start.Add(4*time.Second), start.Add(4*time.Second)
	if f := m.Next(young); f.Total.Calls != 0 || f.Total.P99 != 0 || f.Types[0].Calls != 0 {
		t.Errorf("after a restart: %+v, %+v", f.Total, f.Types)
	}
}

// TestTrend: a frame has the last points and no more.
func TestTrend(t *testing.T) {
	m := NewMeter(about)
	var f *Frame
	for n := range 2 * Trend {
		s := snaps(0)
		s[0].At = start.Add(time.Duration(n) * time.Second)
		f = m.Next(s)
	}
	if len(f.Trend) != Trend || !f.Trend[Trend-1].At.Equal(f.At) {
		t.Errorf("%d points", len(f.Trend))
	}
}

// TestText: a frame fits any terminal, shows what matters most in the smallest, and everything in a
// large one.
func TestText(t *testing.T) {
	m := NewMeter(about)
	m.Next(snaps(1))
	f := m.Next(snaps(2))
	for width := 1; width < 250; width += 3 {
		for height := 1; height < 60; height += 5 {
			lines := f.Text(Style{Width: width, Height: height}, "q ends")
			if len(lines) > max(height, minHeight) {
				t.Fatalf("%d lines in %d", len(lines), height)
			}
			for _, l := range lines {
				if utf8.RuneCountInString(l) > max(width, minWidth) {
					t.Fatalf("%q is too long for %d columns", l, width)
				}
			}
		}
	}
	for _, x := range []struct {
		width, height int
		want          []string
	}{
		{40, 24, []string{"shop  pid 4711", "2 k/s", "CALLS/S", "get", "HANDLER P99", "q ends"}},
		{200, 60, []string{"shop", "[::1]:31850/2", "25.0%", "30/32", "25 Gbit/s", "BLIND", "server"}},
	} {
		text := strings.Join(f.Text(Style{Width: x.width, Height: x.height}, "q ends"), "\n")
		for _, w := range x.want {
			if !strings.Contains(text, w) {
				t.Errorf("%d columns: no %q in\n%s", x.width, w, text)
			}
		}
		if strings.Contains(text, "\x1b") {
			t.Error("there is colour")
		}
	}
	colour := f.Text(Style{Width: 80, Height: 24, Colour: true}, "")
	if !strings.Contains(colour[0], "\x1b[1m") {
		t.Error("there is no colour")
	}
}

// TestLate: a loop that does not answer is named.
func TestLate(t *testing.T) {
	m := NewMeter(about)
	m.Next(snaps(1))
	late := snaps(2)
	late[1].Late, late[1].Types, late[1].Sessions = true, nil, nil
	f := m.Next(late)
	text := strings.Join(f.Text(Style{Width: 80, Height: 30}, ""), "\n")
	if !strings.Contains(text, "does not answer") || !strings.Contains(text, "LATE") {
		t.Error(text)
	}
	var lines strings.Builder
	if err := f.Lines(&lines); err != nil || strings.Count(lines.String(), "late=true") != 1 {
		t.Errorf("%v\n%s", err, &lines)
	}
}

// TestLines: a line for each loop and type, each with the time and fields.
func TestLines(t *testing.T) {
	m := NewMeter(about)
	m.Next(snaps(1))
	var b strings.Builder
	if err := m.Next(snaps(2)).Lines(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "2026-01-02T03:04:07.000Z loop ") ||
		!strings.Contains(lines[2], `type name="get" side=server calls=2000 failed=200`) {
		t.Errorf("%q", lines)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0 ", 1: "1 ", 0.5: "0.50 ", 999: "999 ",
		999.7: "1.00 k", 12345: "12.3 k", 1e6: "1 M", 2.5e9: "2.50 G"} {
		if got := Count(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "-", 2.5: "2.50 us", 1500: "1.50 ms", 2e6: "2 s"} {
		if got := Micros(v); got != want {
			t.Errorf("%v us: %q, want %q", v, got, want)
		}
	}
	if got := Spark([]float64{9, 0, 4, 8}, 3); got != "▁▅█" {
		t.Errorf("%q", got)
	}
	if got := Spark(nil, -1); got != "" {
		t.Errorf("%q", got)
	}
}

// TestPage: the page has its own files, lets the browser load no others, and gives the latest
// frame.
func TestPage(t *testing.T) {
	p := NewPage()
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	for path, want := range map[string]string{"/": "erpc top", "/app.js": "frame.json",
		"/style.css": "prefers-color-scheme", "/frame.json": "no frame yet"} {
		w := get("GET", path)
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		if strings.Contains(text, "://") {
			t.Errorf("%s names another host", path)
		}
	}
	if w := get("POST", "/frame.json"); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
	if w := get("GET", "/../frame.go"); w.Code == 200 {
		t.Error("it serves what is not its own")
	}
	m := NewMeter(about)
	m.Next(snaps(1))
	if err := p.Show(m.Next(snaps(2)), ""); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Frame *Frame
		Error string
	}
	if err := json.Unmarshal(get("GET", "/frame.json").Body.Bytes(), &got); err != nil ||
		got.Frame.Program != "shop" || len(got.Frame.Loops) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := p.Show(nil, "gone"); err != nil {
		t.Fatal(err)
	}
	if text := get("GET", "/frame.json").Body.String(); !strings.Contains(text, `"Error":"gone"`) {
		t.Error(text)
	}
}

// TestDoor: the page is for those who know its address, and ask for it by a name of this machine.
func TestDoor(t *testing.T) {
	d := NewDoor(NewPage(), "box.test")
	get := func(host, path string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Host = host
		d.ServeHTTP(w, r)
		if w.Code != 200 && strings.Contains(w.Body.String(), d.token) {
			t.Errorf("%s %s: it gives the secret away", host, path)
		}
		return w.Code
	}
	for _, host := range []string{"127.0.0.1:80", "127.0.0.1", "[::1]:80", "[::1]", "localhost:8080",
		"LOCALHOST", "box.test:1", "Box.test."} {
		for _, file := range []string{"", "app.js", "style.css", "frame.json"} {
			if code := get(host, d.Path()+file); code != 200 {
				t.Errorf("%s: %q: %d", host, file, code)
			}
		}
	}
	for _, host := range []string{"rebound.test:80", "rebound.test", "127.0.0.1.rebound.test", "",
		"localhost.rebound.test:80", "xbox.test"} {
		if code := get(host, d.Path()); code != 421 {
			t.Errorf("%q: %d", host, code)
		}
	}
	other := NewDoor(nil, "").Path()
	for _, path := range []string{"/", "/frame.json", d.Path()[:9] + "/", strings.TrimSuffix(d.Path(),
		"/"), other, other + "frame.json", strings.ToLower(d.Path()), "//", "/../frame.json"} {
		if code := get("localhost", path); code != 403 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if len(d.token) < 26 { // 128 bits
		t.Errorf("the secret is %q", d.token)
	}
}

// TestNames: what a program calls itself and its types makes a terminal do nothing, in any form.
func TestNames(t *testing.T) {
	const bad = "a\x1b[2J\u009b2J\u202eb\r\nc\xff"
	m := NewMeter(debug.About{Program: bad, TypeNames: map[uint8]string{7: bad}})
	m.Next(snaps(1))
	f := m.Next(snaps(2))
	var lines strings.Builder
	if err := f.Lines(&lines); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"lines": strings.ReplaceAll(lines.String(), "\n", ""),
		"JSON":   string(text),
		"screen": strings.Join(f.Text(Style{Width: 200, Height: 40}, ""), "")} {
		if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s: %.60q", form, text[i:])
		}
		if !strings.Contains(text, "[2J") || !strings.Contains(text, "u202e") {
			t.Errorf("%s: the names are not there: %q", form, text)
		}
	}
}
