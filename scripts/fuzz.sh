#!/usr/bin/env bash
# Builds the libFuzzer targets under tests/fuzz with clang and runs them on their corpus.
# usage: scripts/fuzz.sh SECONDS [TARGET…]   fuzz each target (default: all) for so long; stops at the first finding
#        scripts/fuzz.sh runs TARGET COUNT   the fixed runs that ctest does; exits with 77, "skipped", without clang
# What is new in the corpus stays under build/fuzz/corpus, findings under build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BUILD=build/fuzz KEPT=tests/fuzz/corpus
readonly COMPILER=${EASYDEL_FUZZ_COMPILER:-clang++-19}
# No input may make a reader allocate what it only claims.
readonly LIMITS=(-malloc_limit_mb=256 -rss_limit_mb=1024 -timeout=10)

say() { printf 'fuzz: %s\n' "$*"; }

# Quiet unless it fails.
must() {
  "$@" > "$BUILD/build.log" 2>&1 || {
    tail -n 40 "$BUILD/build.log" >&2
    say "the targets could not be built; see above." >&2
    exit 1
  }
}

build() {
  mkdir -p "$BUILD"
  exec 9> "$BUILD/.lock"  # ctest runs the targets side by side
  flock 9
  local stamp=$BUILD/.configured setting="$COMPILER ${EASYDEL_TORCH:-}"
  if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$setting" ]; then
    must cmake --preset fuzz -DCMAKE_CXX_COMPILER="$COMPILER" -DEASYDEL_TORCH="${EASYDEL_TORCH:-}"
    echo "$setting" > "$stamp"
  fi
  must cmake --build "$BUILD" --target "$@"
  flock -u 9
}

report() {
  say "$1 has a finding: build/fuzz/findings/. Fix it, and keep the input as $KEPT/$1/found-WHAT." >&2
  exit 1
}

has_compiler() { command -v "$COMPILER" > /dev/null; }

fixed_runs() {
  local target=$1 count=$2
  if ! has_compiler; then
    say "skipped: $COMPILER is missing. On Debian: apt-get install clang-19 libclang-rt-19-dev"
    exit 77
  fi
  build "${target}_fuzz"
  mkdir -p "$BUILD/findings"
  new=$(mktemp -d)
  trap 'rm -rf "$new" "$new.log"' EXIT
  # The seed makes two runs alike; -runs counts the corpus too.
  "$BUILD/bin/${target}_fuzz" -seed=1 -runs="$count" "${LIMITS[@]}" -artifact_prefix="$BUILD/findings/${target}-" \
    -print_final_stats=1 "$new" "$KEPT/$target" > "$new.log" 2>&1 || {
    tail -n 60 "$new.log" >&2
    report "$target"
  }
  grep -aE '^(Done|stat::(number_of_executed|peak_rss))' "$new.log"
}

fuzz() {
  local seconds=$1 target
  shift
  has_compiler || { say "$COMPILER is missing. Run scripts/setup.sh test." >&2; exit 1; }
  [ $# -gt 0 ] || set -- $(ls "$KEPT")
  build all
  mkdir -p "$BUILD/findings"
  for target in "$@"; do
    say "$target for $seconds s"
    mkdir -p "$BUILD/corpus/$target"
    "$BUILD/bin/${target}_fuzz" -max_total_time="$seconds" "${LIMITS[@]}" -print_final_stats=1 \
      -artifact_prefix="$BUILD/findings/${target}-" "$BUILD/corpus/$target" "$KEPT/$target" > "$BUILD/$target.log" 2>&1 || {
      tail -n 60 "$BUILD/$target.log" >&2
      report "$target"
    }
    grep -aE '^(Done|stat::(new_units|peak_rss))' "$BUILD/$target.log"
  done
}

case ${1:-} in
  runs) fixed_runs "$2" "$3" ;;
  [0-9]*) fuzz "$@" ;;
  *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
esac
