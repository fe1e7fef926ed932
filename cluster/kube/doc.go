// Package kube is a source of servers that Kubernetes knows: the endpoints of a Service, as its
// EndpointSlices have them. It is a module of its own: client-go is large, and users of etcd
// compile nothing of it.
//
// The pod's service account may list and watch them:
//
//	apiVersion: rbac.authorization.k8s.io/v1
//	kind: Role
//	rules:
//	  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
//
// # Map
//
//	owns       an informer for each Watch
//	called by  cluster.Resolver
//	never      an API server that does not answer takes away what it said last
//
// # Entries
//
// Each address of an EndpointSlice is one: with the zone of its node, the name of its pod, and the
// number of a StatefulSet's pod. An endpoint that is terminating and still serves drains: it gets
// no new sessions, and calls under way end. One that is not ready is no entry.
package kube
