package main

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/routeguide/routeguidepb"
)

// guide is the service, as it would be with grpc-go.
type guide struct {
	pb.UnimplementedRouteGuideServer
	features []*pb.Feature

	mu    sync.Mutex
	notes map[place][]*pb.RouteNote
}

// place is a point as a key.
type place struct{ latitude, longitude int32 }

func at(p *pb.Point) place { return place{p.GetLatitude(), p.GetLongitude()} }

func newGuide() *guide { return &guide{features: sights(), notes: make(map[place][]*pb.RouteNote)} }

// point returns a point of degrees.
func point(latitude, longitude float64) *pb.Point {
	return &pb.Point{Latitude: int32(math.Round(latitude * 1e7)),
		Longitude: int32(math.Round(longitude * 1e7))}
}

// sights returns the features that the guide knows.
func sights() []*pb.Feature {
	return []*pb.Feature{
		{Name: "Cologne Cathedral", Location: point(50.9413, 6.9583)},
		{Name: "Aachen Cathedral", Location: point(50.7747, 6.0839)},
		{Name: "Beethoven's birthplace, Bonn", Location: point(50.7363, 7.1011)},
		{Name: "Porta Nigra, Trier", Location: point(49.7597, 6.6440)},
		{Name: "Brandenburg Gate, Berlin", Location: point(52.5163, 13.3777)},
	}
}

func (g *guide) GetFeature(_ context.Context, p *pb.Point) (*pb.Feature, error) {
	for _, f := range g.features {
		if proto.Equal(f.Location, p) {
			return f, nil
		}
	}
	return &pb.Feature{Location: p}, nil
}

func (g *guide) ListFeatures(r *pb.Rectangle, s grpc.ServerStreamingServer[pb.Feature]) error {
	for _, f := range g.features {
		if !inside(f.GetLocation(), r) {
			continue
		}
		if err := s.Send(f); err != nil {
			return err
		}
	}
	return nil
}

// inside reports whether a point is in a rectangle.
func inside(p *pb.Point, r *pb.Rectangle) bool {
	between := func(x, a, b int32) bool { return min(a, b) <= x && x <= max(a, b) }
	lo, hi := r.GetLo(), r.GetHi()
	return between(p.GetLatitude(), lo.GetLatitude(), hi.GetLatitude()) &&
		between(p.GetLongitude(), lo.GetLongitude(), hi.GetLongitude())
}

func (g *guide) RecordRoute(s grpc.ClientStreamingServer[pb.Point, pb.RouteSummary]) error {
	sum, metres := &pb.RouteSummary{}, 0.0
	var last *pb.Point
	for {
		p, err := s.Recv()
		if errors.Is(err, io.EOF) {
			sum.Distance = int32(math.Round(metres))
			return s.SendAndClose(sum)
		}
		if err != nil {
			return err
		}
		sum.PointCount++
		if f, err := g.GetFeature(s.Context(), p); err == nil && f.GetName() != "" {
			sum.FeatureCount++
		}
		if last != nil {
			metres += distance(last, p)
		}
		last = p
	}
}

func (g *guide) RouteChat(s grpc.BidiStreamingServer[pb.RouteNote, pb.RouteNote]) error {
	for {
		n, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		key := at(n.GetLocation())
		g.mu.Lock()
		before := g.notes[key]
		g.notes[key] = append(before[:len(before):len(before)], n)
		g.mu.Unlock()
		for _, old := range before {
			if err := s.Send(old); err != nil {
				return err
			}
		}
	}
}

// distance returns the metres between two points on a globe, by the haversine formula.
func distance(a, b *pb.Point) float64 {
	const radius = 6_371_000 // of the earth, in metres
	rad := func(x int32) float64 { return float64(x) / 1e7 * math.Pi / 180 }
	latA, latB := rad(a.GetLatitude()), rad(b.GetLatitude())
	north, east := latB-latA, rad(b.GetLongitude())-rad(a.GetLongitude())
	h := math.Pow(math.Sin(north/2), 2) +
		math.Cos(latA)*math.Cos(latB)*math.Pow(math.Sin(east/2), 2)
	return 2 * radius * math.Asin(math.Sqrt(min(h, 1)))
}
