#!/bin/sh
# Measures erpc and grpc-go in turns, 32 B echo between two processes on the same two
# cores, and prints how many times gRPC erpc is. Usage: bench/compare.sh [ROUNDS [SECONDS]]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/erpc" ./cmd/erpc
(cd bench/grpc && go build -o "$dir/grpc" .)
value() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
i=0
while [ "$i" -lt "$rounds" ]; do
	i=$((i + 1))
	echo "round $i of $rounds" >&2
	"$dir/erpc" bench rate --duration "${seconds}s" --json 2>/dev/null | value rps >>"$dir/er"
	"$dir/grpc" -duration "${seconds}s" -json | value rps >>"$dir/gr"
	"$dir/erpc" bench latency --duration "${seconds}s" --json 2>/dev/null | value p50_us >>"$dir/el"
	"$dir/grpc" -window 1 -duration "${seconds}s" -json | value p50_us >>"$dir/gl"
done
er=$(median <"$dir/er") gr=$(median <"$dir/gr") el=$(median <"$dir/el") gl=$(median <"$dir/gl")
awk -v er="$er" -v gr="$gr" -v el="$el" -v gl="$gl" 'BEGIN {
	printf "32 B echo, medians     erpc        grpc-go     erpc is\n"
	printf "60 in flight, RPCs/s   %-10.0f  %-10.0f  %.1f times the rate\n", er, gr, er / gr
	printf "1 in flight, p50 us    %-10.2f  %-10.2f  1/%.1f of the latency\n", el, gl, gl / el
}'
