package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// maxFiles bounds how many files a server's descriptions may have.
const maxFiles = 1000

// ask asks the reflection service one question.
func ask(
	ctx context.Context, cc grpc.ClientConnInterface, q *reflection.ServerReflectionRequest,
) (*reflection.ServerReflectionResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := reflection.NewServerReflectionClient(cc).ServerReflectionInfo(ctx)
	if err == nil {
		err = stream.Send(q)
	}
	var a *reflection.ServerReflectionResponse
	if err == nil {
		a, err = stream.Recv()
	}
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, errors.New("the server does not describe its services: it must call " +
			"reflection.Register of google.golang.org/grpc/reflection")
	case err != nil:
		return nil, err
	}
	if e := a.GetErrorResponse(); e != nil {
		return nil, status.Error(codes.Code(e.GetErrorCode()), e.GetErrorMessage())
	}
	return a, nil
}

// listServices prints the names of the services.
func listServices(ctx context.Context, cc grpc.ClientConnInterface, out io.Writer) error {
	a, err := ask(ctx, cc, &reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{},
	})
	if err != nil {
		return err
	}
	var names []string
	for _, s := range a.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	slices.Sort(names)
	for _, n := range names {
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
	return nil
}

// describe returns the description of a method, /package.Service/Method.
func describe(
	ctx context.Context, cc grpc.ClientConnInterface, method string,
) (protoreflect.MethodDescriptor, error) {
	service, name, ok := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if !ok {
		return nil, fmt.Errorf("%w: %s is no method; want /package.Service/Method", errUsage, method)
	}
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	questions := []*reflection.ServerReflectionRequest{{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: service,
		},
	}}
	for len(questions) > 0 && len(set.File) < maxFiles {
		a, err := ask(ctx, cc, questions[0])
		if err != nil {
			return nil, fmt.Errorf("the description of %s: %w", service, err)
		}
		questions = questions[1:]
		for _, raw := range a.GetFileDescriptorResponse().GetFileDescriptorProto() {
			f := new(descriptorpb.FileDescriptorProto)
			if err := proto.Unmarshal(raw, f); err != nil {
				return nil, fmt.Errorf("the server's description of %s: %w", service, err)
			}
			if !seen[f.GetName()] {
				seen[f.GetName()] = true
				set.File = append(set.File, f)
			}
		}
		for _, f := range set.File {
			for _, d := range f.GetDependency() {
				if !seen[d] && len(questions) == 0 {
					questions = append(questions, &reflection.ServerReflectionRequest{
						MessageRequest: &reflection.ServerReflectionRequest_FileByFilename{
							FileByFilename: d,
						},
					})
				}
			}
		}
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("the server's description of %s: %w", service, err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, err
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no service", service)
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return nil, fmt.Errorf("%s has no method %s", service, name)
	}
	return m, nil
}

// call calls a method with a request as JSON, and prints its responses as JSON.
func call(
	ctx context.Context, cc grpc.ClientConnInterface, method string, body []byte, out io.Writer,
) error {
	m, err := describe(ctx, cc, method)
	if err != nil {
		return err
	}
	if m.IsStreamingClient() {
		return fmt.Errorf("%s takes a stream of requests, which this command does not send", method)
	}
	in := dynamicpb.NewMessage(m.Input())
	if len(body) > 0 {
		if err := protojson.Unmarshal(body, in); err != nil {
			return fmt.Errorf("%w: the request is no %s: %w", errUsage, m.Input().FullName(), err)
		}
	}
	method = "/" + strings.TrimPrefix(method, "/")
	show := func(msg proto.Message) error {
		_, err := fmt.Fprintln(out, protojson.Format(msg))
		return err
	}
	resp := dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingServer() {
		if err := cc.Invoke(ctx, method, in, resp); err != nil {
			return err
		}
		return show(resp)
	}
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err == nil {
		err = errors.Join(stream.SendMsg(in), stream.CloseSend())
	}
	for err == nil {
		if err = stream.RecvMsg(resp); err == nil {
			err = show(resp)
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}
