package grpcerpc

//lint:file-ignore SA1019 this file serves the older compressors of grpc

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
)

// oldCoder is a compressor and a decompressor of grpc's older kind, or one of both, as one of the
// newer kind.
type oldCoder struct {
	grpc.Compressor   // nil: there is none
	grpc.Decompressor // nil: there is none
}

func (c *oldCoder) Name() string {
	if c.Compressor != nil {
		return c.Compressor.Type()
	}
	return c.Decompressor.Type()
}

func (c *oldCoder) Compress(w io.Writer) (io.WriteCloser, error) {
	return &oldWriter{by: c.Compressor, to: w}, nil
}

func (c *oldCoder) Decompress(r io.Reader) (io.Reader, error) {
	data, err := c.Decompressor.Do(r)
	return bytes.NewReader(data), err
}

// oldWriter compresses all that was written when it is closed.
type oldWriter struct {
	bytes.Buffer
	by grpc.Compressor
	to io.Writer
}

func (w *oldWriter) Close() error { return w.by.Do(w.to, w.Bytes()) }

// coders are the compressors of the older kind that a ClientConn or a Server has; both may be nil.
type coders struct {
	compressor   *oldCoder // of all messages that are sent
	decompressor *oldCoder // of its type
}

// encoder returns the compressor of a name, nil if there is none.
func (c *coders) encoder(name string) encoding.Compressor {
	if c.compressor != nil && c.compressor.Name() == name {
		return c.compressor
	}
	return encoding.GetCompressor(name)
}

// decoder returns what decompresses messages of a name, nil if nothing does.
func (c *coders) decoder(name string) encoding.Compressor {
	if c.decompressor != nil && c.decompressor.Name() == name {
		return c.decompressor
	}
	return encoding.GetCompressor(name)
}

// dialTCP returns the options of grpc that mean the same.
func (c *coders) dialTCP() (opts []grpc.DialOption) {
	if c.compressor != nil {
		opts = append(opts, grpc.WithCompressor(c.compressor.Compressor))
	}
	if c.decompressor != nil {
		opts = append(opts, grpc.WithDecompressor(c.decompressor.Decompressor))
	}
	return opts
}

// serveTCP returns the options of grpc that mean the same.
func (c *coders) serveTCP() (opts []grpc.ServerOption) {
	if c.compressor != nil {
		opts = append(opts, grpc.RPCCompressor(c.compressor.Compressor))
	}
	if c.decompressor != nil {
		opts = append(opts, grpc.RPCDecompressor(c.decompressor.Decompressor))
	}
	return opts
}

// usual are compressors that a client says it has registered: grpc does not tell which there are.
var usual = []string{"deflate", "gzip", "lz4", "s2", "snappy", "zstd"}

// accepted returns the names of the usual compressors that are registered.
func accepted() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(usual), func(name string) bool {
		return encoding.GetCompressor(name) == nil
	}), ",")
}

// errNoCompressor says that an option was given none.
var errNoCompressor = errors.New("grpcerpc: the compressor is nil")

// WithCompressor compresses all requests whose call does not say UseCompressor. It is deprecated in
// grpc.
func WithCompressor(c grpc.Compressor) DialOption {
	return func(o *dialOptions) error {
		if c == nil {
			return errNoCompressor
		}
		o.coders.compressor = &oldCoder{Compressor: c}
		return nil
	}
}

// WithDecompressor decompresses answers of its type, in place of a registered compressor. It is
// deprecated in grpc. It bounds by itself how much it makes of an answer.
func WithDecompressor(d grpc.Decompressor) DialOption {
	return func(o *dialOptions) error {
		if d == nil {
			return errNoCompressor
		}
		o.coders.decompressor = &oldCoder{Decompressor: d}
		return nil
	}
}

// RPCCompressor compresses all answers. It is deprecated in grpc. Nil means nothing.
func RPCCompressor(c grpc.Compressor) ServerOption {
	return func(o *serverOptions) {
		if c != nil {
			o.coders.compressor = &oldCoder{Compressor: c}
		}
	}
}

// RPCDecompressor decompresses requests of its type, in place of a registered compressor. It is
// deprecated in grpc. It bounds by itself how much it makes of a request. Nil means nothing.
func RPCDecompressor(d grpc.Decompressor) ServerOption {
	return func(o *serverOptions) {
		if d != nil {
			o.coders.decompressor = &oldCoder{Decompressor: d}
		}
	}
}
