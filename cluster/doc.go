// Package cluster tells clients which servers of a service there are. Servers announce themselves
// in etcd (package etcd), or are known to DNS (package dns) or to Kubernetes (the module kube). A
// [Resolver] follows one of these, chooses servers of the client's zone, a bounded number of them,
// and keeps a [Pool] of package erpc, or a gRPC client (package grpccluster), up to date.
//
// There is no consensus, membership or lock service here: etcd is the single source of truth, and
// whether a server answers is seen by the sessions to it, which know it within milliseconds. An
// entry says where a server may be; a session says whether it is there.
//
//	// a server
//	reg, err := etcd.Register(ctx, etcdClient, etcd.Config{Service: "web", Cluster: "prod"},
//		cluster.Entry{Addr: "10.0.0.1:31850", Zone: "a"})
//	defer reg.Close(ctx) // before Server.Shutdown: clients go elsewhere first
//
//	// a client
//	source, err := etcd.NewSource(etcdClient, etcd.Config{Service: "web", Cluster: "prod"})
//	resolver, err := cluster.NewResolver(source, cluster.Config{Zone: "a"})
//	pool, err := resolver.Pool(ctx, erpc.PoolConfig{}, loop)
//
// # Map
//
//	owns       entries and their form, views, the choice by zone and subset, the
//	           Resolver and what follows it
//	called by  applications; etcd, dns and kube, which are sources
//	never      a call waits for a source; an empty view takes the servers away
//	           that a client has; an entry that cannot be read hides others
//
// # Nouns
//
//	entry         a server as it is announced: addresses by transport, identity, zone, number,
//	              load, cluster
//	registration  a server's hold on its entry: a lease that it renews (package etcd)
//	lease         etcd's: the entry goes when it has not been renewed for its time to live
//	view          all entries of a service at one revision of a source
//	source        yields views: etcd, DNS SRV, EndpointSlices
//	watch         etcd's and Kubernetes' stream of changes since a revision
//	resolver      follows a source, and chooses
//	zone          servers that fail together, as a data centre of a region: calls stay in the
//	              client's, and spill over to others as its servers fail
//	subset        those of the servers that a client has sessions with
//	number        a server's place among those of its service and zone, or a client's among the
//	              clients: subsets are even by them
//
// # What stands in etcd
//
// One key for each server, under its lease. A server that also serves gRPC over TCP at the same
// address has it in the layout of etcd's naming/endpoints, where a stock gRPC client with etcd's
// resolver finds it:
//
//	web/10.0.0.1:31850
//	{"Op":0,"Addr":"10.0.0.1:31850","Metadata":{"erpc":1,"cluster":"prod","name":"web-0",
//	 "instance":"6f1c8e0b2a94d357","identity":"web.prod.example","zone":"a","number":1,
//	 "load":0.25,"transports":{"grpc":"10.0.0.1:31850","udp":"10.0.0.1:31850"}}}
//
// Any other has it, with the same value, under a prefix that no stock client looks at:
//
//	erpc/v1/servers/web/10.0.0.1:31850
//
// A server without a number of its own takes the lowest free one of its zone:
//
//	erpc/v1/numbers/web/a/1
//	6f1c8e0b2a94d357
//
// Clients that claim one have those, from 0:
//
//	erpc/v1/clients/web/a/0
//	client-0
//
// Who finds others that want a number too writes a key below the same prefix, and takes the number
// that its place in the line leaves:
//
//	erpc/v1/numbers/web/a/wait-6f1c8e0b2a94d357
//	6f1c8e0b2a94d357
//
// "erpc" in the metadata is the version of this form, [Version]. Fields that are not known are
// skipped; a form that old readers must not read gets another version. An entry of the naming
// layout without it is a gRPC server of somebody else: its one transport is "grpc".
//
// # Zones
//
// A Pool has the servers of the client's zone as its preferred ones, and as many others as spares,
// with sessions that are open. As long as five sevenths of the preferred ones are ready they get
// all calls; below that, each gets at most 1.4 times what it had, and the rest spills over to the
// spares. With none left the spares get all, and with the first that is back calls return. That is
// Envoy's rule for priority levels (overprovisioning factor 1.4). A client without a zone, or whose
// zone has no server, prefers all.
//
// # Subsets
//
// With Config.Subset k a client has k servers of its zone and k spares. Servers and clients stand
// on a ring by their numbers, at the points of van der Corput's sequence in base 2, and a client
// takes the k servers that follow it: a server that comes or goes changes one server of those
// clients alone that have it, and since the sequence fills the ring evenly however long it is, each
// server has nearly the same number of clients ("Reinventing Backend Subsetting at Google", ACM
// Queue 2022, calls it ROCKSTEADIERSLO's ring). Holes in the numbers cost evenness: new servers
// take the lowest free ones. Servers without a number, as those of DNS, stand at the hash of their
// address, where load is even only as chance has it.
//
// # Identities
//
// Entries are written by whoever may write to etcd, so what stands in them proves nothing. With TLS
// a client checks a server in three ways. The TLS config of its Loops checks that the certificate
// is of its authority, and names the host that was dialled or ServerName, which may be a name that
// all servers of the service have. [Config.Trusts] says which identities entries may have. And
// [Resolver.Authorize], for erpc.Config.Authorize of the Loops, demands of the server at an address
// the identity that the entry of that address has:
//
//	resolver, err := cluster.NewResolver(source, cluster.Config{Trusts: func(id string) bool {
//		return strings.HasSuffix(id, ".web.prod.example")
//	}})
//	loop, err := erpc.NewLoop(tr, erpc.Config{Authorize: resolver.Authorize,
//		TLS: &tls.Config{RootCAs: ours, ServerName: "web.prod.example"}})
//
// A stranger who can write entries, and has no certificate that these take, can then read no call
// and answer none. He can take servers away from clients, add addresses where nobody answers, and
// send all calls to few servers: who may write there has to be few (package etcd has the role).
// Without Trusts and ServerName anybody with any certificate of the authority can pose as a server.
//
// # Loads
//
// Entry.Load is for people, autoscalers and the application. No choice is made by it: it is some
// seconds old, and by old loads all clients choose the same server until the next news
// (Mitzenmacher, "How useful is old information?", 2000). A Pool knows something younger: which
// servers are ready, and with erpc.LeastLoaded how many of its own calls each has not answered.
//
// # What can go wrong
//
// Each is a named error. Those of entries are reported (Config.OnProblem), and the entry counts as
// missing; those of a source are in View.Err, and the last view holds.
//
//	ErrEntry         a stranger's value: no JSON, an address that is none, another key's address,
//	                 no instance
//	ErrEntryVersion  an entry of a form of later
//	ErrOtherCluster  an entry of another cluster (Config.Cluster) below the same key
//	ErrIdentity      an entry with an identity that the client does not trust (Config.Trusts); a
//	                 server whose certificate is not for its entry's (Resolver.Authorize)
//	ErrAddressTaken  two servers claim one address: the first one has it, unless both have one
//	                 Name, as a process that was started again has
//	ErrReplaced      a server's entry was taken by a later process of its Name
//	ErrLapsed        a process was stopped past its lease, and has not registered anew
//	ErrWrongEtcd     another etcd than the one of Config.EtcdID
//	ErrAuth          etcd wants a user, or refuses this one
//	ErrTLS           one of client and etcd speaks TLS, the other one does not, or not this one's
//	ErrUnavailable   etcd, DNS or Kubernetes does not answer: the view is kept
//
// A watch that etcd has compacted is begun anew with a list. So is one of an etcd that was restored
// from a backup, whose revision is below the view's. Drift of clocks does no harm to discovery. For
// [etcd.Registration.Held] the lease ends by Config.Drift earlier than etcd's, which ends it by a
// clock of its own. That counts CLOCK_BOOTTIME on Linux, so time in which the machine slept is not
// lost. A process stopped past its lease cannot know it before it runs: Registration.Serving
// compares the clock at each request, and refuses until the process has registered anew.
package cluster
