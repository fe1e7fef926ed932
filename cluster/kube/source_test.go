package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/userspace-rpc/erpc/cluster"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ptr[T any](v T) *T { return &v }

// slice makes an EndpointSlice of pods: "web-0" is ready, "web-0!" is not, "web-0+" drains.
func slice(name string, pods ...string) *discovery.EndpointSlice {
	s := &discovery.EndpointSlice{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default",
			Labels: map[string]string{discovery.LabelServiceName: "web"}},
		AddressType: discovery.AddressTypeIPv4,
		Ports: []discovery.EndpointPort{{Name: ptr("metrics"), Port: ptr(int32(9))},
			{Name: ptr("erpc"), Port: ptr(int32(31850))}},
	}
	for _, p := range pods {
		pod := strings.TrimRight(p, "!+")
		e := discovery.Endpoint{
			Addresses: []string{"10.0.0." + pod[len(pod)-1:]}, Zone: ptr("zone-a"),
			TargetRef: &core.ObjectReference{Kind: "Pod", Name: pod},
			Conditions: discovery.EndpointConditions{Ready: ptr(p == pod), Serving: ptr(p[len(p)-1] != '!'),
				Terminating: ptr(p[len(p)-1] == '+')},
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// resolver follows the Service web.
func resolver(t *testing.T, c kubernetes.Interface) *cluster.Resolver {
	t.Helper()
	s, err := NewSource(c, Config{Service: "web"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := cluster.NewResolver(s, cluster.Config{Zone: "zone-a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// has waits until the view has these entries: "web-0" or "web-0+", which drains.
func has(t *testing.T, r *cluster.Resolver, want ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	var have []string
	_ = r.Follow(ctx, func(v cluster.View, c cluster.Choice) {
		have = nil
		for _, e := range v.Entries {
			name := e.Name
			if e.Draining {
				name += "+"
			}
			have = append(have, name)
			if e.Addr != "10.0.0."+e.Name[4:]+":31850" || e.Zone != "zone-a" ||
				strconv.Itoa(e.Number-1) != e.Name[4:] {
				t.Errorf("%+v", e)
			}
		}
		if v.Err == nil && slices.Equal(have, want) {
			cancel()
		}
	})
	if !slices.Equal(have, want) {
		t.Fatalf("have %q, want %q, %v", have, want, r.View().Err)
	}
}

// failing waits until the view has an error.
func failing(t *testing.T, r *cluster.Resolver, want error) cluster.View {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	var last cluster.View
	_ = r.Follow(ctx, func(v cluster.View, _ cluster.Choice) {
		if last = v; errors.Is(v.Err, want) {
			cancel()
		}
	})
	if !errors.Is(last.Err, want) {
		t.Fatalf("%v, want %v", last.Err, want)
	}
	return last
}

// TestFake: endpoints that come, drain and go, by client-go's fake.
func TestFake(t *testing.T) {
	ctx := within(t)
	c := fake.NewClientset(slice("web-1", "web-0", "web-1!"))
	r := resolver(t, c)
	has(t, r, "web-0")
	api := c.DiscoveryV1().EndpointSlices("default")
	_, err := api.Create(ctx, slice("web-2", "web-2"), meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, r, "web-0", "web-2")
	if _, err = api.Update(ctx, slice("web-1", "web-0+", "web-1"), meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	has(t, r, "web-0+", "web-1", "web-2")
	for _, e := range r.Choice().Preferred {
		if e.Draining {
			t.Errorf("%s drains and is chosen", e.Name)
		}
	}
	if err = api.Delete(ctx, "web-2", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has(t, r, "web-0+", "web-1")
}

// apiServer speaks the list and the watch of EndpointSlices over HTTP.
type apiServer struct {
	mu      sync.Mutex
	version int
	slices  map[string]*discovery.EndpointSlice
	events  []string      // one line of JSON each
	first   int           // the version of events[0]
	moved   chan struct{} // closed with each change
	refuse  int           // a status for all requests; 0: none
	lists   int
}

func newAPIServer(t *testing.T) (*apiServer, *httptest.Server) {
	a := &apiServer{slices: map[string]*discovery.EndpointSlice{}, moved: make(chan struct{}),
		version: 10, first: 11}
	h := httptest.NewServer(a)
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	return a, h
}

// change makes an event.
func (a *apiServer) change(kind string, s *discovery.EndpointSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	s.ResourceVersion = strconv.Itoa(a.version)
	s.TypeMeta = meta.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"}
	if a.slices[s.Name] = s; kind == "DELETED" {
		delete(a.slices, s.Name)
	}
	line, _ := json.Marshal(map[string]any{"type": kind, "object": s})
	a.events = append(a.events, string(line))
	close(a.moved)
	a.moved = make(chan struct{})
}

// expire forgets all events, and ends watches of before.
func (a *apiServer) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version += 10
	a.events, a.first = nil, a.version+1
	close(a.moved)
	a.moved = make(chan struct{})
}

// What an apiServer does instead of an answer.
const (
	hangs = -1 - iota
	drops
)

func (a *apiServer) answer(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = status
	close(a.moved)
	a.moved = make(chan struct{})
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	a.mu.Lock()
	refuse := a.refuse
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	query := q.URL.Query()
	switch {
	case refuse == hangs:
		<-q.Context().Done()
	case refuse == drops:
		panic(http.ErrAbortHandler)
	case refuse != 0:
		fail(w, refuse, "Forbidden")
	case q.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices" ||
		query.Get("labelSelector") != "kubernetes.io/service-name=web":
		fail(w, http.StatusNotFound, "NotFound")
	case query.Get("sendInitialEvents") != "":
		fail(w, http.StatusUnprocessableEntity, "Invalid")
	case query.Get("watch") != "":
		a.watch(w, q)
	default:
		a.list(w)
	}
}

func fail(w http.ResponseWriter, status int, reason string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   "Failure", Code: int32(status), Reason: meta.StatusReason(reason)})
}

func (a *apiServer) list(w http.ResponseWriter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists++
	l := discovery.EndpointSliceList{ListMeta: meta.ListMeta{ResourceVersion: strconv.Itoa(a.version)},
		TypeMeta: meta.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"}}
	for _, s := range a.slices {
		l.Items = append(l.Items, *s)
	}
	_ = json.NewEncoder(w).Encode(l)
}

func (a *apiServer) watch(w http.ResponseWriter, q *http.Request) {
	since, _ := strconv.Atoi(q.URL.Query().Get("resourceVersion"))
	w.(http.Flusher).Flush()
	for {
		a.mu.Lock()
		moved, refuse := a.moved, a.refuse
		gone := since+1 < a.first
		var lines []string
		if !gone {
			lines = a.events[since+1-a.first:]
			since += len(lines)
		}
		a.mu.Unlock()
		switch {
		case refuse != 0:
			return
		case gone:
			_, _ = fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1",`+
				`"status":"Failure","reason":"Expired","code":410}}`)
			return
		}
		for _, l := range lines {
			_, _ = fmt.Fprintln(w, l)
		}
		w.(http.Flusher).Flush()
		select {
		case <-moved:
		case <-q.Context().Done():
			return
		}
	}
}

// TestHTTP: the same over HTTP, with a watch whose revision has expired, and an API server that
// refuses for a while.
func TestHTTP(t *testing.T) {
	a, h := newAPIServer(t)
	c, err := kubernetes.NewForConfig(&rest.Config{Host: h.URL,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	a.change("ADDED", slice("web-1", "web-0"))
	r := resolver(t, c)
	has(t, r, "web-0")
	a.change("ADDED", slice("web-2", "web-1", "web-2"))
	has(t, r, "web-0", "web-1", "web-2")
	a.change("MODIFIED", slice("web-2", "web-1+", "web-2"))
	has(t, r, "web-0", "web-1+", "web-2")
	a.expire()
	a.change("DELETED", slice("web-1"))
	has(t, r, "web-1+", "web-2")
	a.answer(http.StatusForbidden)
	h.CloseClientConnections()
	if v := failing(t, r, cluster.ErrAuth); len(v.Entries) != 2 {
		t.Errorf("the view was not kept: %v", v)
	}
	a.answer(0)
	a.change("MODIFIED", slice("web-2", "web-2"))
	has(t, r, "web-2")
}

// TestAway: an API server that drops connections, or does not answer, is named, at first and later,
// and the view says when it is back, also if the Service has no slices.
func TestAway(t *testing.T) {
	before := patience
	patience = 50 * time.Millisecond
	t.Cleanup(func() { patience = before })
	for _, pods := range [][]string{{"web-0"}, nil} {
		for _, refuse := range []int{hangs, drops} {
			a, h := newAPIServer(t)
			c, err := kubernetes.NewForConfig(&rest.Config{Host: h.URL,
				ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
			if err != nil {
				t.Fatal(err)
			}
			if pods != nil {
				a.change("ADDED", slice("web-1", pods...))
			}
			a.answer(refuse)
			r := resolver(t, c)
			for range 2 {
				failing(t, r, cluster.ErrUnavailable)
				a.answer(0)
				has(t, r, pods...)
				a.answer(refuse)
				h.CloseClientConnections()
			}
		}
	}
}

// TestTwice: of an endpoint that is in two slices the one that does not drain counts.
func TestTwice(t *testing.T) {
	for range 20 {
		r := resolver(t, fake.NewClientset(slice("web-1", "web-0+"), slice("web-2", "web-0"),
			slice("web-3", "web-0+")))
		has(t, r, "web-0")
	}
}

// TestTLS: an API server that speaks no TLS to a client that does.
func TestTLS(t *testing.T) {
	_, h := newAPIServer(t)
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: strings.Replace(h.URL, "http:", "https:", 1)})
	if err != nil {
		t.Fatal(err)
	}
	failing(t, resolver(t, c), cluster.ErrTLS)
}
