package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Version is that of the form of entries which this version writes and reads.
const Version = 1

// The names of transports in Entry.Transports. Others are the application's.
const (
	UDP  = "udp"  // erpc over UDP, and over shared memory beside it where the server has that
	GRPC = "grpc" // gRPC over TCP
)

// maxEntry bounds the value of an entry, in bytes.
const maxEntry = 16 << 10

// Entry is a server as it is announced.
type Entry struct {
	// Addr is the address that names the server, host:port without a slash.
	Addr string
	// Transports has the address of each transport that the server serves. Empty means that Addr is
	// that of UDP.
	Transports map[string]string
	// Name is the server's own, which it keeps when it is started again, as a pod's. A process may
	// take over the entry of an earlier one with the same Name, which is not empty.
	Name string
	// Instance is the registration's, drawn at random.
	Instance string
	// Identity is the name in the server's certificate, a DNS name or a SPIFFE ID; empty if it is the
	// host of the address. See Resolver.Authorize.
	Identity string
	// Zone is where the server stands.
	Zone string
	// Number is the server's among those of its service and zone, from 1; 0 if it has none.
	Number int
	// Load is the share of its capacity that the server uses, as it was told last. No choice is made
	// by it.
	Load float64
	// Draining says that the server takes no new sessions.
	Draining bool
	// Cluster is the id of the cluster that the server is of.
	Cluster string
}

// At returns the server's address for a transport, "" if it does not serve it.
func (e *Entry) At(transport string) string {
	if len(e.Transports) == 0 && transport == UDP {
		return e.Addr
	}
	return e.Transports[transport]
}

// update is the form of etcd's naming/endpoints, which gRPC's old naming package has set.
type update struct {
	Op       uint8
	Addr     string
	Metadata *metadata
}

// metadata has the fields of an entry beside its address.
type metadata struct {
	Version    int               `json:"erpc"`
	Cluster    string            `json:"cluster,omitempty"`
	Name       string            `json:"name,omitempty"`
	Instance   string            `json:"instance,omitempty"`
	Identity   string            `json:"identity,omitempty"`
	Zone       string            `json:"zone,omitempty"`
	Number     int               `json:"number,omitempty"`
	Load       float64           `json:"load,omitempty"`
	Draining   bool              `json:"draining,omitempty"`
	Transports map[string]string `json:"transports,omitempty"`
}

// Encode returns the entry as it stands in etcd. Errors: ErrEntry.
func (e *Entry) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	value, err := json.Marshal(update{Addr: e.Addr, Metadata: &metadata{
		Version: Version, Cluster: e.Cluster, Name: e.Name, Instance: e.Instance,
		Identity: e.Identity, Zone: e.Zone, Number: e.Number, Load: e.Load, Draining: e.Draining,
		Transports: e.Transports,
	}})
	if err == nil {
		err = checkSize(value)
	}
	return value, err
}

// checkSize says whether a value is too large for an entry.
func checkSize(value []byte) error {
	if len(value) > maxEntry {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrEntry, len(value), maxEntry)
	}
	return nil
}

// Decode reads an entry. One of etcd's naming layout without erpc's metadata is a gRPC server.
// Errors: ErrEntry, ErrEntryVersion.
func Decode(value []byte) (e Entry, err error) {
	if err = checkSize(value); err != nil {
		return e, err
	}
	var version struct {
		Addr     string
		Metadata json.RawMessage
	}
	if err = json.Unmarshal(value, &version); err != nil {
		return e, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	var own struct {
		Version json.RawMessage `json:"erpc"`
	}
	if json.Unmarshal(version.Metadata, &own) != nil || own.Version == nil {
		e = Entry{Addr: version.Addr, Transports: map[string]string{GRPC: version.Addr}}
		return e, e.check()
	}
	if text := string(own.Version); text != strconv.Itoa(Version) {
		return e, fmt.Errorf("%w: %.20q, this is %d", ErrEntryVersion, text, Version)
	}
	var u update
	if err = json.Unmarshal(value, &u); err != nil {
		return e, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	m := u.Metadata
	if m.Instance == "" {
		return e, fmt.Errorf("%w: %s: no instance", ErrEntry, u.Addr)
	}
	e = Entry{
		Addr: u.Addr, Transports: m.Transports, Name: m.Name, Instance: m.Instance,
		Identity: m.Identity, Zone: m.Zone, Number: m.Number, Load: m.Load, Draining: m.Draining,
		Cluster: m.Cluster,
	}
	return e, e.check()
}

// check says what is wrong with an entry.
func (e *Entry) check() error {
	if err := checkAddr(e.Addr); err != nil {
		return err
	}
	for name, addr := range e.Transports {
		if name == "" {
			return fmt.Errorf("%w: %s: a transport without a name", ErrEntry, e.Addr)
		}
		if err := checkAddr(addr); err != nil {
			return fmt.Errorf("transport %q: %w", name, err)
		}
	}
	switch {
	case strings.ContainsRune(e.Zone, '/'):
		return fmt.Errorf("%w: zone %q has a slash", ErrEntry, e.Zone)
	case e.Number < 0:
		return fmt.Errorf("%w: number %d", ErrEntry, e.Number)
	case !(e.Load >= 0 && e.Load < 1e6):
		return fmt.Errorf("%w: load %v", ErrEntry, e.Load)
	}
	return nil
}

// checkAddr says what is wrong with an address, host:port.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEntry, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%w: port of %q", ErrEntry, addr)
	}
	if host == "" || strings.ContainsAny(addr, "/ \t\r\n\x00") {
		return fmt.Errorf("%w: host of %q", ErrEntry, addr)
	}
	return nil
}
