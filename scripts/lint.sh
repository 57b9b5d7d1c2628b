#!/usr/bin/env bash
# usage: scripts/lint.sh format                        formats all C++ files in place
#        scripts/lint.sh check [FILES]                 the format of all files; clang-tidy over FILES, or all of easydel/
#        scripts/lint.sh changed [--format-only] [BASE]  both over what differs from where this branch left BASE, which is
#                                                      origin/main, or the last commit where there is none or this is it
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MOST_TIDY=20  # files that `changed` gives to clang-tidy: each takes about as long as compiling it

say() { printf 'lint: %s\n' "$*"; }

check_format() {  # FILES
  [ $# -gt 0 ] || return 0
  clang-format-19 --dry-run -Werror "$@"
  say "the format of $# files is right."
}

tidy_options=()
# Unity builds have no commands for single files, so clang-tidy takes those of the preset dev, which need not be built.
run_tidy() {  # FILES
  [ $# -gt 0 ] || return 0
  cmake --preset dev --log-level=ERROR > /dev/null
  # clang cannot read g++'s precompiled headers: tidy gets the headers themselves.
  tidy=$(mktemp -d)
  trap 'rm -rf "$tidy"' EXIT
  sed -E "s# -Winvalid-pch -include [^ ]*test_pch[^ ]*# -include $PWD/tests/support/pch.h#
          s# -Winvalid-pch -include [^ ]+# -include $PWD/cmake/pch.h#; s/ -fopenmp / /; s/ -Wno-restrict / /" \
    build/dev/compile_commands.json > "$tidy/compile_commands.json"
  printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p "$tidy" --quiet --warnings-as-errors='*' "${tidy_options[@]}"
  say "clang-tidy has nothing to say about $# files."
}

find_base() {  # [BASE]
  local name
  for name in ${1:-origin/main HEAD~1}; do
    git rev-parse --quiet --verify "$name^{commit}" > /dev/null || continue
    [ "$(git rev-parse "$name")" != "$(git rev-parse HEAD)" ] || [ -n "${1:-}" ] || continue
    git merge-base "$name" HEAD && return
  done
  return 1
}

mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.h' '*.cpp')
mode=${1:-}
[ $# -eq 0 ] || shift
case $mode in
  format) clang-format-19 -i "${sources[@]}" ;;
  check)
    check_format "${sources[@]}"
    files=("$@")
    [ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files 'easydel/*.cpp')
    run_tidy "${files[@]}"
    ;;
  changed)
    tidy_too=1
    [ "${1:-}" != --format-only ] || { tidy_too=0; shift; }
    if ! base=$(find_base "${1:-}"); then
      [ -z "${1:-}" ] || { echo "lint: there is no commit $1, or none in common with it." >&2; exit 1; }
      say "this clone has no commit to compare with; nothing was checked."
      exit
    fi
    mapfile -t files < <({ git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cpp'
                           git ls-files --others --exclude-standard '*.h' '*.cpp'; } | sort -u)
    say "${#files[@]} files differ from $(git rev-parse --short "$base")."
    check_format "${files[@]}"
    [ $tidy_too -eq 1 ] || exit 0
    headers=$(printf '%s\n' "${files[@]}" | grep '\.h$' | paste -sd '|' || true)
    tidy_options=(--header-filter="/(${headers:-none})\$")  # of headers, those that changed
    mapfile -t files < <(printf '%s\n' "${files[@]}" | grep '^easydel/.*\.cpp$' || true)
    [ ${#files[@]} -le $MOST_TIDY ] || say "not given to clang-tidy: ${files[*]:MOST_TIDY}"
    run_tidy "${files[@]:0:MOST_TIDY}"
    ;;
  *)
    echo "lint: usage: scripts/lint.sh format | check [FILES] | changed [--format-only] [BASE]; got \"$mode\"." >&2
    exit 1
    ;;
esac
