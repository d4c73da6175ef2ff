#!/usr/bin/env bash
# The whole path on loopback beside a peer, in turns: new connections a second
# and Gbit/s through two hops. Ours: `meshctl dev up --forward`, so that the core
# passes bytes on and no client crypto is measured. Peers: haproxy, nginx, where
# installed (Debian packages haproxy, nginx-full).
# usage: bench/run.sh [MESHCTL] ; ROUNDS=3 SECONDS_EACH=5 BYTES=1000000000
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
meshctl=$(realpath "${1:-bin/meshctl}")
rounds=${ROUNDS:-3} each=${SECONDS_EACH:-5} bytes=${BYTES:-1000000000}
work=$(mktemp -d)
pids=()
cleanup() {
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  for p in "${pids[@]}"; do wait "$p" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT

(cd "$here/.." && go build -o "$work/meshload" ./bench/meshload)
load=$work/meshload
"$load" origin --listen 127.0.0.1:19000 & pids+=($!)

names=() addrs=() snis=()
"$meshctl" dev up --servers 1 --dir "$work/mesh" --forward 127.0.0.1:19000 >"$work/dev.log" 2>&1 & pids+=($!)
for _ in $(seq 600); do
  grep -q '^ready' "$work/dev.log" && break
  kill -0 "${pids[-1]}" 2>/dev/null || { cat "$work/dev.log" >&2; exit 1; }
  sleep 0.1
done
link=$("$meshctl" admin device link laptop --credentials --socket "$work/mesh/mgmt.sock" -o json)
field() { sed -n "s/^ *\"$1\": \"\(.*\)\",*$/\1/p" <<<"$link" | head -1; }
entry=$(sed -n '/"entries"/,/]/s/^ *"\(127[^"]*\)".*/\1/p' <<<"$link" | head -1)
names+=(meshctl); addrs+=("$entry"); snis+=("$(field serverName)")

port=18443
for peer in haproxy nginx; do
  command -v "$peer" >/dev/null || continue
  pid=$("$here/peers/up.sh" "$peer" "$work/$peer" $port $((port + 1)) 19000 2); pids+=("$pid")
  names+=("$peer"); addrs+=("127.0.0.1:$port"); snis+=(a.example.test)
  port=$((port + 2))
done
sleep 1

pick() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p"; }
printf '%-8s %5s %10s %8s %8s %12s %12s\n' path round conn/s p50ms p99ms 1x-Gbit/s 64x-Gbit/s
for round in $(seq "$rounds"); do
  for i in "${!names[@]}"; do
    c=$("$load" connect --addr "${addrs[$i]}" --sni "${snis[$i]}" --workers 16 --duration "${each}s")
    one=$("$load" stream --addr "${addrs[$i]}" --sni "${snis[$i]}" --conns 1 --bytes "$bytes")
    many=$("$load" stream --addr "${addrs[$i]}" --sni "${snis[$i]}" --conns 64 --bytes $((bytes / 32)))
    printf '%-8s %5d %10.0f %8.1f %8.1f %12.2f %12.2f\n' "${names[$i]}" "$round" \
      "$(pick per_s <<<"$c")" "$(pick p50_ms <<<"$c")" "$(pick p99_ms <<<"$c")" "$(pick gbit_s <<<"$one")" "$(pick gbit_s <<<"$many")"
    for r in "$c" "$one" "$many"; do
      [ "$(pick failed <<<"$r")" = 0 ] || echo "         failures: $r"
    done
  done
done
