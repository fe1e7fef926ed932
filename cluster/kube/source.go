package kube

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"

	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
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
	only := labels.Set{discovery.LabelServiceName: s.cfg.Service}.String()
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithNamespace(s.cfg.Namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.LabelSelector = only }))
	slices := factory.Discovery().V1().EndpointSlices()
	w := &watching{Source: s, lister: slices.Lister(), update: update}
	informer := slices.Informer()
	changed := func() { w.tell(nil) }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() }, // also of a list that is as it was
		DeleteFunc: func(any) { changed() },
	}); err != nil {
		return err
	}
	err := informer.SetWatchErrorHandlerWithContext(
		func(_ context.Context, _ *cache.Reflector, err error) {
			if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) { // a list follows at once
				w.tell(named(err))
			}
		})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		w.mu.Lock()
		w.synced = true
		w.mu.Unlock()
		w.tell(nil)
	}
	<-ctx.Done()
	return ctx.Err()
}

// tell tells the view, once the first list is there or has failed.
func (w *watching) tell(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
