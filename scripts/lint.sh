#!/usr/bin/env bash
# usage: scripts/lint.sh format | check BUILD_DIRECTORY [FILES]
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.h' '*.cpp')
if [ "$1" = format ]; then
  clang-format-19 -i "${sources[@]}"
  exit
fi
clang-format-19 --dry-run -Werror "${sources[@]}"
echo "lint: the format of ${#sources[@]} files is right."

build=$2
shift 2
[ -f "$build/compile_commands.json" ] || { echo "lint: $build is not configured; run make build first." >&2; exit 1; }
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files 'easydel/*.cpp')
# clang cannot read g++'s precompiled header: tidy sees the same commands without it.
tidy=$(mktemp -d)
trap 'rm -rf "$tidy"' EXIT
sed -E 's/ -Winvalid-pch -include [^ ]+//; s/ -fopenmp / /; s/ -Wno-restrict / /' "$build/compile_commands.json" > "$tidy/compile_commands.json"
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p "$tidy" --quiet --warnings-as-errors='*'
echo "lint: clang-tidy has nothing to say about ${#files[@]} files."
