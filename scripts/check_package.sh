#!/usr/bin/env bash
# Runs what `make package` made where nothing else is: in a root directory with the archive, and in another with the
# .deb, beside the libraries of libc6, libstdc++6 and libgcc-s1 alone. Needs root, or user namespaces.
# usage: scripts/check_package.sh PACKAGES_DIRECTORY
set -euo pipefail
[ $# -eq 1 ] || { echo "check_package: usage: scripts/check_package.sh PACKAGES_DIRECTORY" >&2; exit 1; }
packages=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

readonly SYSTEM_LIBRARIES=(libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 librt.so.1 libpthread.so.0 libresolv.so.2
                           libutil.so.1 libanl.so.1 libstdc++.so.6 libgcc_s.so.1)
readonly BOOK=examples/demo/pride_and_prejudice.txt
roots=$(mktemp -d)
trap 'rm -rf "$roots"' EXIT

say() { printf 'check_package: %s\n' "$*"; }
die() { printf 'check_package: %s\n' "$*" >&2; exit 1; }

only_file() {  # PATTERN
  local found=("$packages"/$1)
  [ ${#found[@]} -eq 1 ] && [ -f "${found[0]}" ] || die "$packages must have one $1. Run: make package"
  printf '%s\n' "${found[0]}"
}

make_root() {  # DIRECTORY PROGRAM
  local library path
  mkdir -p "$1"/{dev,lib64,proc/self,tmp,usr/lib/x86_64-linux-gnu}
  ln -s usr/lib "$1/lib"
  cp -L /lib64/ld-linux-x86-64.so.2 "$1/lib64/"
  for library in "${SYSTEM_LIBRARIES[@]}"; do
    path=$(ldconfig -p | awk -v name="$library" '$1 == name && /x86-64/ && !found {print $NF; found = 1}')
    [ -n "$path" ] || die "this system has no $library"
    cp -L "$path" "$1/usr/lib/x86_64-linux-gnu/"
  done
  # What is read of /proc: mounting it takes more rights than chroot. The loader asks the link where the program lies.
  cat /proc/cpuinfo > "$1/proc/cpuinfo"
  cat /proc/meminfo > "$1/proc/meminfo"
  ln -s "$2" "$1/proc/self/exe"
  cp "$BOOK" "$1/book.txt"
}

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(unshare --user --map-root-user)

run_in() {  # ROOT PROGRAM ARGUMENTS
  local root=$1
  shift
  say "in a bare root: $*"
  env -i HOME=/tmp OMP_NUM_THREADS=2 "${as_root[@]}" "$(command -v chroot)" "$root" "$@" || die "$* failed"
}

check() {  # ROOT PROGRAM
  run_in "$1" "$2" --version
  run_in "$1" "$2" doctor
  run_in "$1" "$2" demo --corpus /book.txt --output /tmp/demo --steps 2 --hidden 64 --layers 1 --batch 4 --length 32 \
    --vocabulary 300 | tee "$1/tmp/demo.txt"
  local model
  model=$(sed -n 's/^model: *//p' "$1/tmp/demo.txt")
  [ -n "$model" ] || die "the demo named no model"
  run_in "$1" "$2" generate "$model" --prompt "It is a truth" --max-new-tokens 8
}

archive=$(only_file 'easydel-*.tar.gz')
program=/$(basename "$archive" .tar.gz)/bin/easydel
make_root "$roots/archive" "$program"
tar -xzf "$archive" -C "$roots/archive"
say "$(basename "$archive"): $(du -h "$archive" | cut -f 1), $(du -sh "$roots/archive" | cut -f 1) unpacked"
check "$roots/archive" "$program"
rm -rf "$roots/archive"

deb=$(only_file 'easydel_*.deb')
make_root "$roots/deb" /usr/bin/easydel
dpkg-deb -x "$deb" "$roots/deb"
say "$(basename "$deb"): $(dpkg-deb -f "$deb" Depends)"
check "$roots/deb" /usr/bin/easydel
say "both packages run without anything else."
