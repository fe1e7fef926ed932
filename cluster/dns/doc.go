// Package dns is a source of servers that DNS names in SRV records (RFC 2782), as a headless
// Service of Kubernetes, Consul or a zone file does.
//
// # Map
//
//	owns       the times of its questions
//	called by  cluster.Resolver
//	never      an answer of DNS that fails takes away what the last one had
package dns
