#!/usr/bin/env bash
# The small-RPC rate and latency of this library beside grpc-go's, on the same two cores:
# pairs of runs, one after the other, and the medians. No privileges needed. grpc-go is
# not pinned, which suits it better.
#
#   bench/compare.sh [PAIRS]     default 5; each pair takes about 13 s
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pairs=${1:-5}
make -s build
(cd bench/grpc && go build -buildvcs=false -o ../../bin/grpc-echo .)

# field NAME: the number of that name in the JSON object on standard input.
field() { sed -n "s/.*\"$1\":\([0-9.eE+-]*\).*/\1/p"; }
median() { sort -g | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }

ours=() theirs=() ours_p50=() theirs_p50=()
for ((i = 1; i <= pairs; i++)); do
  ours+=("$(bin/erpc bench rate --window 60 --duration 3s --json 2>/dev/null | field rps)")
  theirs+=("$(bin/grpc-echo -json -pin=false -window 60 -duration 3s 2>/dev/null | field rps)")
  ours_p50+=("$(bin/erpc bench latency --duration 2s --json 2>/dev/null | field p50_us)")
  theirs_p50+=("$(bin/grpc-echo -json -pin=false -window 1 -duration 2s 2>/dev/null | field p50_us)")
  echo "pair $i of $pairs: erpc ${ours[-1]} RPC/s, grpc-go ${theirs[-1]} RPC/s" >&2
done
o=$(printf '%s\n' "${ours[@]}" | median)
t=$(printf '%s\n' "${theirs[@]}" | median)
ol=$(printf '%s\n' "${ours_p50[@]}" | median)
tl=$(printf '%s\n' "${theirs_p50[@]}" | median)
awk -v o="$o" -v t="$t" -v ol="$ol" -v tl="$tl" 'BEGIN {
  printf "%-24s %14s %14s %8s\n", "32 B unary, 2 processes", "erpc", "grpc-go", "ratio"
  printf "%-24s %12.0f/s %12.0f/s %8.1f\n", "60 in flight", o, t, o / t
  printf "%-24s %11.1f us %11.1f us %8.1f\n", "1 in flight, median", ol, tl, tl / ol
}'
