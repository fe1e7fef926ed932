package grpcerpc

import (
	"context"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// callInfo holds what the options, the service config and the context say of a call.
type callInfo struct {
	coding
	method       string
	only         chosen // where the call goes; nil: the picker chooses
	stats        []stats.Handler
	subtype      string
	compressName string
	failFast     bool
	waited       bool // for the resolver
	counts       bool // for the ClientConn's idleness, until the stream has ended
	maxRecv      int
	maxSend      int
	creds        []credentials.PerRPCCredentials
	md           metadata.MD
	retries      retries
	retryBuffer  int // bytes of messages that a stream keeps for another try
	headers      []*metadata.MD
	trailers     []*metadata.MD
	peers        []*peer.Peer
	*rare
}

// rare holds what few calls have, apart from the rest, so that other calls are small.
type rare struct {
	authority string // CallAuthority's
	called    string // the authority of this try, if it is not the connection's
	onFinish  []func(error)
}

// ordinary is the rare of calls that have none of it, which all share. It does not change.
var ordinary = new(rare)

// own returns the rare of a call, to be changed.
func (c *callInfo) own() *rare {
	if c.rare == ordinary {
		c.rare = new(rare)
	}
	return c.rare
}

// chosen takes calls of this package's own, whatever the picker says.
type chosen interface {
	// choose returns the link with one call counted in.
	choose() (*link, error)
}

// callInfoOf reads the options of a call.
func (cc *ClientConn) callInfoOf(method string, opts []grpc.CallOption) (*callInfo, error) {
	c := &callInfo{method: method, failFast: true, maxRecv: defaultMaxRecv, maxSend: defaultMaxSend,
		retryBuffer: defaultRetryBuffer, stats: cc.opts.stats, rare: ordinary,
		coding: coding{answering: plainly}}
	if !strings.HasPrefix(method, "/") || strings.LastIndexByte(method, '/') == 0 {
		return nil, status.Errorf(codes.Unimplemented, "malformed method name: %q", method)
	}
	m := cc.config.Load().of(method)
	if m.waitForReady != nil {
		c.failFast = !*m.waitForReady
	}
	if !cc.opts.noRetry {
		c.retries = retries{policy: m.retry, throttle: cc.throttle.Load(), most: cc.opts.maxAttempts}
	}
	for _, o := range opts {
		if err := c.take(o); err != nil {
			return nil, err
		}
	}
	if m.maxRequest != nil {
		c.maxSend = min(c.maxSend, *m.maxRequest)
	}
	if m.maxResponse != nil {
		c.maxRecv = min(c.maxRecv, *m.maxResponse)
	}
	return c, c.chooseCoding(&cc.opts.coders)
}

// take reads one option.
func (c *callInfo) take(o grpc.CallOption) error {
	switch o := o.(type) {
	case grpc.EmptyCallOption, grpc.StaticMethodCallOption:
	case grpc.HeaderCallOption:
		c.headers = append(c.headers, o.HeaderAddr)
	case grpc.TrailerCallOption:
		c.trailers = append(c.trailers, o.TrailerAddr)
	case grpc.PeerCallOption:
		c.peers = append(c.peers, o.PeerAddr)
	case grpc.FailFastCallOption:
		c.failFast = o.FailFast
	case grpc.OnFinishCallOption:
		own := c.own()
		own.onFinish = append(own.onFinish, o.OnFinish)
	case grpc.MaxRecvMsgSizeCallOption:
		c.maxRecv = o.MaxRecvMsgSize
	case grpc.MaxSendMsgSizeCallOption:
		c.maxSend = o.MaxSendMsgSize
	case grpc.PerRPCCredsCallOption:
		c.creds = append(c.creds, o.Creds)
	case grpc.CompressorCallOption:
		c.compressName = o.CompressorType
	case grpc.ContentSubtypeCallOption:
		c.subtype = o.ContentSubtype
	case grpc.AuthorityOverrideCallOption:
		c.own().authority = o.Authority
	case grpc.ForceCodecCallOption:
		c.codec = codecV1{o.Codec}
	case grpc.ForceCodecV2CallOption:
		c.codec = o.CodecV2
	case grpc.MaxRetryRPCBufferSizeCallOption: // of streams: other requests are in memory anyway
		c.retryBuffer = o.MaxRetryRPCBufferSize
	default:
		meant := optionIn(reflect.ValueOf(o))
		if meant == nil || reflect.TypeOf(meant) == reflect.TypeOf(o) {
			return status.Errorf(codes.Internal, "grpcerpc: call option %T is not supported", o)
		}
		return c.take(meant)
	}
	return nil
}

// The type of all options, whose methods are grpc's own, and that of options which mean nothing.
var (
	optionType = reflect.TypeFor[grpc.CallOption]()
	emptyType  = reflect.TypeFor[grpc.EmptyCallOption]()
)

// optionIn returns the option of grpc that v is or embeds: an option of a type of one's own has its
// methods, and so means what it means. Options for interceptors embed grpc.EmptyCallOption. It
// returns nil for one that cannot be read.
func optionIn(v reflect.Value) grpc.CallOption {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid() || v.Type() == emptyType: // or a pointer to nothing
		return grpc.EmptyCallOption{}
	case v.Type().PkgPath() == optionType.PkgPath() && v.CanInterface():
		return v.Interface().(grpc.CallOption)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Anonymous && f.Type.Implements(optionType) {
				return optionIn(v.Field(i))
			}
		}
	}
	return nil
}

// chooseCoding finds codec and compressor, which may be one of by.
func (c *callInfo) chooseCoding(by *coders) error {
	switch {
	case c.codec != nil:
		if c.subtype == "" {
			c.subtype = strings.ToLower(c.codec.Name())
		}
	default:
		if c.codec = codecFor(c.subtype); c.codec == nil {
			return status.Errorf(codes.Internal, "no codec registered for content-subtype %s", c.subtype)
		}
	}
	if c.compressName == "" && by.compressor != nil {
		c.compressName = by.compressor.Name()
	}
	if c.compressName != "" && c.compressName != encoding.Identity {
		c.answering = &answering{decompressor: by.decoder(c.compressName)}
		if c.compressor = by.encoder(c.compressName); c.compressor == nil {
			return status.Errorf(codes.Internal,
				"grpc: Compressor is not installed for requested grpc-encoding %q", c.compressName)
		}
	} else {
		c.compressName = ""
	}
	return nil
}

// answeredBy takes the compressor of answers that is not the one of requests.
func (c *callInfo) answeredBy(name string, by *coders) error {
	c.answering = &answering{decompressor: by.decoder(name)}
	if c.decompressor == nil {
		return status.Errorf(codes.Internal,
			"grpc: Decompressor is not installed for grpc-encoding %q", name)
	}
	return nil
}

// typed adds the content type to the header of an answer. It does not travel: it is the call's.
func (c *callInfo) typed(header metadata.MD) metadata.MD {
	if header == nil {
		header = make(metadata.MD, 1)
	}
	header["content-type"] = []string{contentType(c.subtype)}
	return header
}

// contentType returns the content type of messages of a codec; "" is that which is not named.
func contentType(subtype string) string {
	if subtype == "" {
		return "application/grpc"
	}
	return "application/grpc+" + subtype
}

// outgoing collects the metadata of a call: the context's, the credentials', the balancer's.
func (l *link) outgoing(ctx context.Context, c *callInfo, extra metadata.MD) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(extra) > 0 {
		md = metadata.Join(md, extra)
	}
	c.call(extra[":authority"])
	if c.called != "" && l.creds.seals {
		return status.Errorf(codes.Unavailable, "grpcerpc: the authority %q of a call cannot be "+
			"checked by the certificate of a session with TLS", c.called)
	}
	if len(l.creds.perRPC)+len(c.creds) > 0 {
		more, err := l.authenticate(ctx, c)
		if err != nil {
			return err
		}
		md = metadata.Join(md, more)
	}
	if len(md) > 0 {
		if err := checkMD(md); err != nil {
			return err
		}
	}
	c.md = c.retries.announce(md)
	return nil
}

// call chooses the authority of a try: CallAuthority's, else the picker's (gRFC A81).
func (c *callInfo) call(picked []string) {
	called := c.authority
	if called == "" && len(picked) > 0 {
		called = picked[0]
	}
	if called != c.called {
		c.own().called = called
	}
}

// authenticate asks the credentials for metadata.
func (l *link) authenticate(ctx context.Context, c *callInfo) (metadata.MD, error) {
	ctx = credentials.NewContextWithRequestInfo(ctx, credentials.RequestInfo{
		Method: c.method, AuthInfo: l.creds.authInfo(),
	})
	audience := "https://" + l.cc.authority + c.method[:strings.LastIndexByte(c.method, '/')]
	md := metadata.MD{}
	add := func(from credentials.PerRPCCredentials, code codes.Code) error {
		data, err := from.GetRequestMetadata(ctx, audience)
		if err != nil {
			return credsError(err, code)
		}
		for k, v := range data {
			md.Append(k, v)
		}
		return nil
	}
	for _, from := range l.creds.perRPC {
		if err := add(from, codes.Unauthenticated); err != nil {
			return nil, err
		}
	}
	for _, from := range c.creds {
		if from.RequireTransportSecurity() && !l.creds.seals {
			return nil, status.Error(codes.Unauthenticated,
				"transport: cannot send secure credentials on an insecure connection")
		}
		if err := add(from, codes.Internal); err != nil {
			return nil, err
		}
	}
	return md, nil
}

// head returns what the call begins with.
func (c *callInfo) head() frame.Head {
	return frame.Head{Method: []byte(c.method), MD: c.md, Compressor: []byte(c.compressName),
		Subtype: []byte(c.subtype), Authority: []byte(c.called)}
}

// within applies the timeout of the service config.
func (cc *ClientConn) within(
	ctx context.Context, method string,
) (context.Context, context.CancelFunc) {
	if t := cc.config.Load().of(method).timeout; t != nil {
		return context.WithTimeout(ctx, *t)
	}
	return ctx, func() {}
}

// finish tells the throttle and the options how the call ended.
func (c *callInfo) finish(err error) {
	if err == nil {
		c.retries.throttle.succeed()
	}
	for _, f := range c.onFinish {
		f(err)
	}
}

// timeoutOf returns how much time a context has left, in microseconds; 0 if it has no deadline.
func timeoutOf(ctx context.Context) uint64 {
	at, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return uint64(max(time.Until(at).Microseconds(), 1))
}
