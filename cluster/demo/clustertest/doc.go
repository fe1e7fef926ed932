// Package clustertest tests package cluster against an etcd in this process, with servers over UDP
// and gRPC's stock clients.
package clustertest
