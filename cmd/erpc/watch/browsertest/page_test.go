package browsertest

import (
	"context"
	"flag"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/userspace-rpc/erpc/cmd/erpc/watch"
)

// shots is where screenshots go, if anywhere.
var shots = flag.String("shots", "", "write screenshots into this folder")

// limit bounds each test.
const limit = 2 * time.Minute

// browser starts Chromium and returns its context, in which a tab is open.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is missing, and CI=true: .ci/run installs it")
		}
		t.Skip("chromium is missing: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(limit))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// stage serves a page whose frames the test makes.
type stage struct {
	t     *testing.T
	ctx   context.Context
	page  *watch.Page
	url   string
	trend []watch.Point

	mu    sync.Mutex
	urls  []string // that the browser asked for
	wrong []string // what the page complained of
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, ctx: browser(t), page: watch.NewPage()}
	srv := httptest.NewServer(s.page)
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/"
	s.run() // opens the tab
	listen := func(ev any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			s.urls = append(s.urls, ev.Request.URL)
		case *runtime.EventExceptionThrown:
			s.wrong = append(s.wrong, ev.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			s.wrong = append(s.wrong, string(ev.Type))
		}
	}
	if err := chromedp.Listen(s.ctx, listen); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		s.frame(false)
	}
	if _, err := chromedp.Call(s.ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	s.run(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.url))
	s.until("document.querySelectorAll('#loops tbody tr').length === 2")
	return s
}

// frame shows the next frame of a program; late says that a loop does not answer.
func (s *stage) frame(late bool) {
	n := float64(len(s.trend))
	wave := 1 + math.Sin(n/7)/2
	f := &watch.Frame{At: time.Unix(1_800_000_000, 0).Add(time.Duration(n) * time.Second),
		Program: "shop", PID: 4711, Over: 1}
	for i := range 2 {
		f.Loops = append(f.Loops, watch.Loop{Endpoint: "10.0.0.1:31850", Number: i + 1,
			Calls: 180e3 * wave, P50: 38 * wave, P99: 410 * wave, RTT50: 31, RTT99: 95 * wave,
			RX: 21e6 * wave, TX: 64e6 * wave, Sessions: 24, Active: 9, Limited: i, Rate: 43e9 * wave,
			InFlight: 61, Queued: 3, Resent: 12 * wave, Dropped: 2, Blind: 0.031, Late: late && i == 1})
	}
	f.Types = []watch.Type{
		{Name: "search", Server: true, Calls: 2100 * wave, P50: 2200, P99: 5400, Handler50: 2100,
			Handler99: 5300},
		{Name: "get", Server: true, Calls: 340e3 * wave, P50: 31, P99: 96, Handler50: 0.4,
			Handler99: 2.1},
	}
	for i := range 6 {
		f.Sessions = append(f.Sessions, watch.Session{Endpoint: "10.0.0.1:31850",
			Peer: "10.0.0.7:40112", Number: uint32(i), Connected: true, Client: i%2 == 0,
			InFlight: 8 - i, Credits: 24, Most: 32, RTT: 31.5, RTO: 5000, Rate: 25e9, Limited: i == 2})
	}
	f.Total = f.Loops[0]
	f.Total.Calls *= 2
	s.trend = append(s.trend, watch.Point{At: f.At, Calls: f.Total.Calls, P50: f.Total.P50,
		P99: f.Total.P99, RTT50: 31, RTT99: f.Total.RTT99, Rate: f.Total.Rate, RX: f.Total.RX,
		TX: f.Total.TX, Resent: f.Total.Resent, Lost: 2})
	f.Trend = s.trend
	if err := s.page.Show(f, ""); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) run(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	if err := chromedp.Do(s.ctx, actions...); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until an expression holds in the page.
func (s *stage) until(expression string) {
	s.t.Helper()
	s.run(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(limit)))
}

// text evaluates an expression in the page.
func (s *stage) text(expression string) string {
	s.t.Helper()
	return evaluate[string](s, "String("+expression+")")
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](s *stage, expression string, opts ...chromedp.EvaluateOption) T {
	s.t.Helper()
	v, err := chromedp.Run(s.ctx, chromedp.Evaluate[T](expression, opts...))
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// shot writes a screenshot, if there is to be one.
func (s *stage) shot(name string) {
	s.t.Helper()
	if *shots == "" {
		return
	}
	png, err := chromedp.Run(s.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name), png, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// end looks whether the page asked another host, or complained.
func (s *stage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.urls) == 0 {
		s.t.Error("no requests were seen")
	}
	for _, u := range s.urls {
		if !strings.HasPrefix(u, s.url) && !strings.HasPrefix(u, "data:") {
			s.t.Errorf("the page asked for %s", u)
		}
	}
	if len(s.wrong) > 0 {
		s.t.Errorf("the page complained: %q", s.wrong)
	}
}

const firstLine = "document.querySelector('polyline').getAttribute('points')"

// TestMoves: charts and tables follow the frames; the page says so when a loop does not answer and
// when the program has gone.
func TestMoves(t *testing.T) {
	s := newStage(t)
	if n := strings.Count(s.text(firstLine), ","); n != 60 {
		t.Errorf("%d points, want 60", n)
	}
	before := s.text(firstLine)
	s.frame(true)
	s.until("document.documentElement.dataset.frames === '61'")
	if s.text(firstLine) == before {
		t.Error("the charts do not move")
	}
	s.until("document.querySelectorAll('#loops tr.late').length === 1")
	if got := s.text("document.querySelector('#types tbody').innerText"); !strings.Contains(got,
		"search") || !strings.Contains(got, "5.30 ms") {
		t.Errorf("types: %q", got)
	}
	if err := s.page.Show(nil, "the program has ended"); err != nil {
		t.Fatal(err)
	}
	s.until("!document.getElementById('problem').hidden && " +
		"document.getElementById('problem').textContent === 'the program has ended'")
	s.frame(false)
	s.until("document.getElementById('problem').hidden")
	s.end()
}

// TestKeyboard: keys can do everything, and the page shows where the focus is.
func TestKeyboard(t *testing.T) {
	s := newStage(t)
	var seen []string
	for range 6 {
		s.run(chromedp.KeyEvent(kb.Tab))
		seen = append(seen, s.text("(e => e.id || e.className || e.tagName)(document.activeElement)"))
		if style := s.text("getComputedStyle(document.activeElement).outlineStyle"); style == "none" {
			t.Errorf("%s does not show its focus", seen[len(seen)-1])
		}
	}
	if got := strings.Join(seen, " "); got != "skip pause theme scroll scroll scroll" {
		t.Errorf("tab goes to %s", got)
	}
	s.run(chromedp.KeyEvent("p"))
	s.until("document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
	before := s.text(firstLine)
	s.frame(false)
	s.until("document.documentElement.dataset.rounds > 3+" +
		s.text("document.documentElement.dataset.rounds")) // in which it would have asked
	if s.text(firstLine) != before {
		t.Error("it does not pause")
	}
	s.run(chromedp.Focus(chromedp.ID("pause")), chromedp.KeyEvent(kb.Enter))
	s.until("document.getElementById('pause').getAttribute('aria-pressed') === 'false'")
	s.until("document.documentElement.dataset.frames === '61'")
	for _, want := range []string{"dark", "light", "undefined"} {
		s.run(chromedp.KeyEvent("t"))
		s.until("String(document.documentElement.dataset.theme) === '" + want + "'")
	}
	s.end()
}

// TestScreenReader: each chart, table and button has a name, and charts say their values.
func TestScreenReader(t *testing.T) {
	s := newStage(t)
	tree, err := chromedp.Call(s.ctx, accessibility.GetFullAXTree,
		accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		switch role {
		case "image", "img", "table", "button", "region", "group":
			count[role]++
			if name == "" {
				t.Errorf("a %s has no name", role)
			}
		}
		if (role == "image" || role == "img") && (!strings.Contains(name, ":") ||
			!strings.ContainsAny(name, "0123456789")) {
			t.Errorf("a chart says only %q", name)
		}
	}
	if count["image"]+count["img"] != 6 || count["table"] != 3 || count["button"] != 2 {
		t.Errorf("%v", count)
	}
	if s.text("document.getElementById('spoken').textContent") == "" {
		t.Error("nothing is spoken")
	}
	s.end()
}

// contrast returns the least contrast (WCAG 2.2, 1.4.3) of the page's inks on its grounds.
const contrast = `(() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(name).trim();
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let least = 99;
  for (const ink of ["--ink", "--soft", "--one", "--two", "--alarm"]) {
    for (const ground of ["--ground", "--panel"]) {
      const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
      least = Math.min(least, (a + 0.05) / (b + 0.05));
    }
  }
  return least;
})()`

// TestThemes: the page follows the system's theme, can be read in both, and fits a phone.
func TestThemes(t *testing.T) {
	s := newStage(t)
	grounds := map[string]bool{}
	for _, theme := range []string{"light", "dark"} {
		if _, err := chromedp.Call(s.ctx, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
			}); err != nil {
			t.Fatal(err)
		}
		if least := evaluate[float64](s, contrast); least < 4.5 {
			t.Errorf("%s: contrast %.2f, want 4.5", theme, least)
		}
		grounds[s.text("getComputedStyle(document.body).backgroundColor")] = true
		s.shot("top-" + theme + ".png")
	}
	if len(grounds) != 2 {
		t.Errorf("both themes look like %v", grounds)
	}
	s.run(chromedp.EmulateViewport(320, 640))
	if wide := s.text("document.documentElement.scrollWidth"); wide != "320" {
		t.Errorf("the page is %s wide on a phone of 320", wide)
	}
	s.end()
}
