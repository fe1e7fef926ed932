package conformance

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// Decorator tests that a decorator passes on what it does not change: every method but the bursts,
// which [Run] tests, reaches the transport that wrap decorates, and its answer comes back. It has
// no Kind, since nothing else can take its place. wrap is given no faults and no delays to add. A
// decorator that embeds the transport passes, and goes on to pass when the contract grows.
func Decorator(t *testing.T, wrap func(transport.Transport) transport.Transport) {
	testDecorator(t, wrap)
}

func testDecorator(tb testing.TB, wrap func(transport.Transport) transport.Transport) {
	inner := &spy{called: map[string]int{}}
	outer := wrap(inner)
	contract := reflect.TypeFor[transport.Transport]()
	for i := range contract.NumMethod() {
		m := contract.Method(i)
		var args []reflect.Value
		for k := range m.Type.NumIn() {
			args = append(args, argument(m.Type.In(k)))
		}
		switch m.Name {
		case "TxBurst", "RxBurst", "Close", "Kind":
			continue
		}
		before := inner.called[m.Name]
		got := values(reflect.ValueOf(outer).MethodByName(m.Name).Call(args))
		asked := inner.called[m.Name] > before || m.Name == "Caps" && before > 0
		want := values(reflect.ValueOf(inner).MethodByName(m.Name).Call(args))
		if m.Name == "Caps" { // it may lend
			caps := got[0].(transport.Caps)
			caps.TxCopies = true
			got[0] = caps
		}
		if !asked || !reflect.DeepEqual(got, want) {
			tb.Errorf("%s gives %v, and reached the inner transport: %v; that says %v", m.Name, got,
				asked, want)
		}
	}
	if kind := outer.Kind(outer); kind != nil {
		tb.Errorf("Kind of the decorator is %v, that of what it decorates: one may take its place", kind)
	}
	if err := outer.Close(); !errors.Is(err, errSpy) {
		tb.Errorf("Close: %v; the inner transport says %v", err, errSpy)
	}
}

// argument returns an argument of a type: room for a hint, or the zero value.
func argument(t reflect.Type) reflect.Value {
	if t == reflect.TypeFor[[]transport.Hint]() {
		return reflect.ValueOf(make([]transport.Hint, 1))
	}
	return reflect.Zero(t)
}

func values(vs []reflect.Value) (all []any) {
	for _, v := range vs {
		all = append(all, v.Interface())
	}
	return all
}

// spy is a transport whose answers nobody else would give. It counts its calls.
type spy struct{ called map[string]int }

var errSpy = errors.New("conformance: the inner transport was asked")

func (s *spy) note(name string) { s.called[name]++ }

func (s *spy) Caps() transport.Caps {
	s.note("Caps")
	return transport.Caps{Name: "spy", MTU: 777, RxRing: 55, TxBatch: 3, TxCopies: true, ECN: true}
}

func (s *spy) LocalAddr() transport.Addr {
	s.note("LocalAddr")
	return transport.Addr{Port: 7}
}

func (s *spy) Resolve(string) (transport.Addr, error) {
	s.note("Resolve")
	return transport.Addr{Port: 8}, errSpy
}

func (s *spy) Addrs(string) []transport.Addr {
	s.note("Addrs")
	return []transport.Addr{{Port: 9}}
}

func (s *spy) Path(transport.Addr) transport.Path {
	s.note("Path")
	return transport.Path{MTU: 776, HostDelay: 3, Shared: true, Checksummed: true, Private: true,
		Alone: true}
}

func (s *spy) IsPrivate(transport.Addr) bool {
	s.note("IsPrivate")
	return true
}

func (s *spy) Kind(self transport.Transport) any {
	if self == transport.Transport(s) {
		return "spy"
	}
	return nil
}

func (s *spy) Waited() time.Duration {
	s.note("Waited")
	return 4
}

func (s *spy) Hints(hints []transport.Hint) int {
	s.note("Hints")
	hints[0] = transport.Hint{Kind: transport.HintGone}
	return 1
}

func (s *spy) Register([]byte) (key uint32, err error) {
	s.note("Register")
	return 9, errSpy
}

func (s *spy) PrepareWait() (idle bool, err error) {
	s.note("PrepareWait")
	return true, errSpy
}

func (s *spy) WaitFDs() []int {
	s.note("WaitFDs")
	return []int{7}
}

func (s *spy) Stats() transport.Stats {
	s.note("Stats")
	return transport.Stats{TxPackets: 1, RxPackets: 2, TxCalls: 3, RxCalls: 4, RxDropped: 5}
}

func (s *spy) TxBurst(items []transport.TxItem) (int, error) { return len(items), nil }
func (s *spy) RxBurst([]transport.RxPacket) (int, error)     { return 0, nil }
func (s *spy) Unregister([]byte, uint32)                     { s.note("Unregister") }
func (s *spy) Flush()                                        { s.note("Flush") }
func (s *spy) Wake()                                         { s.note("Wake") }
func (s *spy) Renew(transport.Addr) error                    { s.note("Renew"); return errSpy }
func (s *spy) Nap(time.Duration) error                       { s.note("Nap"); return errSpy }
func (s *spy) Wait(time.Duration) error                      { s.note("Wait"); return errSpy }
func (s *spy) FinishWait(uint32) error                       { s.note("FinishWait"); return errSpy }
func (s *spy) Close() error                                  { return errSpy }
