package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// Config says which Service.
type Config struct {
	Namespace string // default "default"
	Service   string
	// Port is the name of the Service's port for erpc. Default "erpc".
	Port string
	// GRPC is the name of the port for gRPC over TCP. Empty: the servers serve none.
	GRPC string
	// IPv6 takes the IPv6 addresses of a Service that has both kinds.
	IPv6 bool
}

// Source is a cluster.Source of a Service's endpoints.
type Source struct {
	client kubernetes.Interface
	cfg    Config
}

// NewSource returns a Source. Errors: a *erpc.ConfigError.
func NewSource(client kubernetes.Interface, c Config) (*Source, error) {
	switch {
	case client == nil:
		return nil, &erpc.ConfigError{Field: "Client", Reason: "is nil"}
	case c.Service == "":
		return nil, &erpc.ConfigError{Field: "Service", Reason: "is missing"}
	}
	if c.Namespace == "" {
		c.Namespace = meta.NamespaceDefault
	}
	if c.Port == "" {
		c.Port = "erpc"
	}
	return &Source{client, c}, nil
}

// watching is one Watch.
type watching struct {
	*Source
	lister listers.EndpointSliceLister
	update func(cluster.View)

	mu     sync.Mutex // for callbacks of the informer, of several goroutines
	synced bool
	err    error
}

// Watch is that of cluster.Source.
func (s *Source) Watch(
	ctx context.Context, update func(cluster.View), _ func(error),
) error {
	w := &watching{Source: s, update: update}
	informer := cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}, s.client),
		new(discovery.EndpointSlice), 0, cache.Indexers{})
	w.lister = listers.NewEndpointSliceLister(informer.GetIndexer())
	changed := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tell(nil)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() }, // also of a list that is as it was
		DeleteFunc: func(any) { changed() },
	}); err != nil {
		return err
	}
	err := informer.SetWatchErrorHandlerWithContext(
		func(context.Context, *cache.Reflector, error) {}) // list and watch tell them
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	defer running.Wait()
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		w.mu.Lock()
		w.synced = true
		w.tell(nil)
		w.mu.Unlock()
	}
	<-ctx.Done()
	return ctx.Err()
}

// patience is how long an API server may take for a list, or for the beginning of a watch.
var patience = 15 * time.Second // the tests have less

// errUnable means that an API server may not be able to send all slices with a watch: a list
// follows, and tells what it knows.
var errUnable = errors.New("no initial events")

// list asks for the slices of the Service.
func (w *watching) list(
	ctx context.Context, o meta.ListOptions,
) (list runtime.Object, err error) {
	o.LabelSelector = labels.Set{discovery.LabelServiceName: w.cfg.Service}.String()
	w.ask(ctx, func(ctx context.Context) error {
		list, err = w.client.DiscoveryV1().EndpointSlices(w.cfg.Namespace).List(ctx, o)
		return err
	})
	return list, err
}

// watch asks for their changes, or for all of them first where the API server can do that.
func (w *watching) watch(
	ctx context.Context, o meta.ListOptions,
) (changes watch.Interface, err error) {
	o.LabelSelector = labels.Set{discovery.LabelServiceName: w.cfg.Service}.String()
	w.ask(ctx, func(ctx context.Context) error {
		changes, err = w.client.DiscoveryV1().EndpointSlices(w.cfg.Namespace).Watch(ctx, o)
		if o.SendInitialEvents != nil && apierrors.ReasonForError(err) != "" {
			return errUnable
		}
		return err
	})
	return changes, err
}

// ask makes a request, and gives it up if no answer comes. It tells why the API server cannot be
// asked, or that it can again: the informer says neither that a connection is refused or silent,
// nor that a Service has no slices still.
func (w *watching) ask(ctx context.Context, request func(context.Context) error) {
	limited, giveUp := context.WithCancel(ctx) // a watch that has begun lasts as long as ctx
	over := false                              // under mu
	late := time.AfterFunc(patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !over {
			w.tell(named(fmt.Errorf("no answer within %v", patience)))
			giveUp()
		}
	})
	defer late.Stop()
	err := request(limited)
	w.mu.Lock()
	defer w.mu.Unlock()
	over = true
	switch {
	case ctx.Err() != nil || err == errUnable:
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err): // a list follows at once
	case err != nil:
		w.tell(named(err))
	case w.err != nil:
		w.tell(nil)
	}
}

// tell tells the view, once the first list is there or has failed. It holds mu.
func (w *watching) tell(err error) {
	if !w.synced && err == nil || err != nil && w.err != nil {
		return
	}
	w.err = err
	list, lerr := w.lister.List(labels.Everything())
	if lerr != nil {
		list = nil // a lister of memory does not fail
	}
	w.update(cluster.NewView(w.entries(list), 0, err))
}

// better orders the entries of one address, which may be in several slices for a while: one that
// does not drain is first. The rest makes no difference but that it is always the same.
func better(a, b cluster.Entry) int {
	switch {
	case a.Draining != b.Draining && b.Draining:
		return -1
	case a.Draining != b.Draining:
		return 1
	}
	return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Name, b.Name))
}

// entries returns the endpoints of one family of addresses: IPv4 if there are some.
func (w *watching) entries(list []*discovery.EndpointSlice) []cluster.Entry {
	families := []discovery.AddressType{discovery.AddressTypeIPv4, discovery.AddressTypeIPv6,
		discovery.AddressTypeFQDN}
	if w.cfg.IPv6 {
		families[0], families[1] = families[1], families[0]
	}
	for _, family := range families {
		var found []cluster.Entry
		for _, s := range list {
			if s.AddressType == family {
				found = append(found, w.slice(s)...)
			}
		}
		if len(found) > 0 {
			slices.SortFunc(found, better)
			return found
		}
	}
	return nil
}

// slice returns the entries of a slice.
func (w *watching) slice(s *discovery.EndpointSlice) (list []cluster.Entry) {
	port, rpc := portOf(s, w.cfg.Port), portOf(s, w.cfg.GRPC)
	if port == "" {
		return nil
	}
	for i := range s.Endpoints {
		p := &s.Endpoints[i]
		ready, serving := is(p.Conditions.Ready, true), is(p.Conditions.Serving, false)
		drains := is(p.Conditions.Terminating, false)
		if len(p.Addresses) == 0 || !ready && !(serving && drains) {
			continue
		}
		host := p.Addresses[0] // all others are the same endpoint's
		e := cluster.Entry{Addr: net.JoinHostPort(host, port), Draining: drains}
		if rpc != "" {
			e.Transports = map[string]string{
				cluster.UDP: e.Addr, cluster.GRPC: net.JoinHostPort(host, rpc)}
		}
		if p.Zone != nil {
			e.Zone = *p.Zone
		}
		if p.TargetRef != nil {
			e.Name = p.TargetRef.Name
			e.Number = ordinal(e.Name)
		}
		list = append(list, e)
	}
	return list
}

// is returns a condition, or what it means if it is missing.
func is(c *bool, missing bool) bool {
	if c == nil {
		return missing
	}
	return *c
}

// portOf returns the number of a slice's port, "" if it has none of the name.
func portOf(s *discovery.EndpointSlice, name string) string {
	for _, p := range s.Ports {
		if name != "" && p.Name != nil && *p.Name == name && p.Port != nil {
			return strconv.Itoa(int(*p.Port))
		}
	}
	return ""
}

var pod = regexp.MustCompile(`-(0|[1-9][0-9]{0,6})$`)

// ordinal returns the number of a StatefulSet's pod from 1, or 0.
func ordinal(name string) int {
	m := pod.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // digits, and few
	return n + 1
}

// named gives an error of client-go the name that package cluster has for it.
func named(err error) error {
	name := cluster.ErrUnavailable
	switch text := err.Error(); {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		name = cluster.ErrAuth
	case strings.Contains(text, "x509:") || strings.Contains(text, "tls:") ||
		strings.Contains(text, "HTTP response to HTTPS client"):
		name = cluster.ErrTLS
	}
	return fmt.Errorf("%w: %w", name, err)
}
