package watch

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Door lets those to a page who know its address, which has a random part. Others on this machine,
// and pages of other sites in this user's browser, can reach the port. Such a site may also have a
// name of its own lead to this machine (DNS rebinding): so the browser must have asked for this
// machine by its IP address, as localhost, or by the name that it was told to listen on.
type Door struct {
	token string
	host  string
	page  http.Handler
}

// NewDoor returns a Door to page for a server that listens on host, a name or an address.
func NewDoor(page http.Handler, host string) *Door { return &Door{rand.Text(), host, page} }

// Path returns the path of the page's address.
func (d *Door) Path() string { return "/" + d.token + "/" }

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !d.isOwn(r.Host):
		http.Error(w, "this is no page of "+d.host, http.StatusMisdirectedRequest)
	case !ok || subtle.ConstantTimeCompare([]byte(token), []byte(d.token)) == 0:
		http.Error(w, "the page's address has a secret: see what erpc top printed",
			http.StatusForbidden)
	default:
		inner := r.Clone(r.Context())
		inner.URL.Path, inner.URL.RawPath = "/"+rest, ""
		d.page.ServeHTTP(w, inner)
	}
}

// isOwn reports whether a Host header names this server.
func (d *Door) isOwn(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") ||
		d.host != "" && strings.EqualFold(host, d.host)
}
