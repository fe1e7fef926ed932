package watch

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"sync"
)

//go:embed web
var files embed.FS

// policy lets the page load its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page serves the latest frame, as /frame.json, and a page that draws it. It is safe in any
// goroutine. Each frame is made once, for any number of viewers.
type Page struct {
	mu     sync.Mutex
	latest []byte
	static http.Handler
}

// NewPage returns a Page without a frame.
func NewPage() *Page {
	sub, _ := fs.Sub(files, "web") // it is embedded
	return &Page{static: http.FileServerFS(sub)}
}

// Show makes f the latest frame; why says why there is none, if f is nil.
func (p *Page) Show(f *Frame, why string) error {
	text, err := json.Marshal(struct {
		Frame *Frame
		Error string
	}{f, why})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = text
	return nil
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path != "/frame.json" {
		p.static.ServeHTTP(w, r)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	p.mu.Lock()
	text := p.latest
	p.mu.Unlock()
	if text == nil {
		text = []byte(`{"Frame":null,"Error":"no frame yet"}`)
	}
	_, _ = w.Write(text) // the browser has gone
}
