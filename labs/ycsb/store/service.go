package store

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/userspace-rpc/erpc/labs/ycsb/ycsbpb"
	"github.com/userspace-rpc/erpc/ycsb"
)

// Service serves a Store. Each peer registers the same one.
type Service struct {
	pb.UnimplementedStoreServer
	Store Store
}

// code returns the status of an error of a store.
func code(err error) error {
	if err == nil {
		return nil
	}
	c := codes.Internal
	switch {
	case errors.Is(err, ycsb.ErrNotFound):
		c = codes.NotFound
	case errors.Is(err, ErrNoScans):
		c = codes.Unimplemented
	case errors.Is(err, ErrField), errors.Is(err, ErrTooMany):
		c = codes.InvalidArgument
	case errors.Is(err, ErrFull):
		c = codes.ResourceExhausted
	}
	return status.Error(c, err.Error())
}

// Read implements pb.StoreServer.
func (s *Service) Read(_ context.Context, in *pb.ReadRequest) (*pb.ReadReply, error) {
	record, err := s.Store.Read(in.Key)
	if err != nil {
		return nil, code(err)
	}
	return &pb.ReadReply{Record: record}, nil
}

// Update implements pb.StoreServer.
func (s *Service) Update(_ context.Context, in *pb.UpdateRequest) (*pb.UpdateReply, error) {
	if err := s.Store.Update(in.Key, int(in.Field), in.Value); err != nil {
		return nil, code(err)
	}
	return &pb.UpdateReply{}, nil
}

// Insert implements pb.StoreServer.
func (s *Service) Insert(_ context.Context, in *pb.InsertRequest) (*pb.InsertReply, error) {
	if err := s.Store.Insert(in.Key, in.Record); err != nil {
		return nil, code(err)
	}
	return &pb.InsertReply{}, nil
}

// Scan implements pb.StoreServer.
func (s *Service) Scan(_ context.Context, in *pb.ScanRequest) (*pb.ScanReply, error) {
	if in.Count > MaxScan {
		return nil, code(ErrTooMany)
	}
	out := &pb.ScanReply{Entries: make([]*pb.Entry, 0, in.Count)}
	entries := make([]pb.Entry, in.Count)
	err := s.Store.Scan(in.Key, int(in.Count), func(key, record []byte) {
		e := &entries[len(out.Entries)]
		e.Key, e.Record = key, record
		out.Entries = append(out.Entries, e)
	})
	if err != nil {
		return nil, code(err)
	}
	return out, nil
}
