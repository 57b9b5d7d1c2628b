#!/usr/bin/env bash
# Installs what is missing and nothing else: Debian packages, .venv with torch, and for tests the Python references.
# usage: scripts/setup.sh build|test|lint
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MODE=${1:-build}
readonly TORCH_VERSION=2.13.0
readonly OLDEST_TORCH=2.11
readonly TORCHVISION_VERSION=0.28.0  # for TORCH_VERSION
readonly XGRAMMAR_VERSION=0.2.8  # as in cmake/EasydelXgrammar.cmake
readonly BUILD_PACKAGES=(g++ cmake ninja-build ccache mold pkg-config libcli11-dev libcurl4-openssl-dev libssl-dev zlib1g-dev
                         libopenmpi-dev openmpi-bin libpcre2-dev libutf8proc-dev libsentencepiece-dev
                         libedit-dev libyaml-cpp-dev libzstd-dev libboost-dev
                         libjpeg62-turbo-dev libpng-dev libwebp-dev libgif-dev libsndfile1-dev)
readonly TEST_PACKAGES=(libgtest-dev libgmock-dev clang-19 libclang-rt-19-dev chromium)
readonly LINT_PACKAGES=(clang-format-19 clang-tidy-19)
readonly NEEDED_MIB=3000

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

case $MODE in
  build) packages=("${BUILD_PACKAGES[@]}") ;;
  test)
    packages=("${TEST_PACKAGES[@]}")
    command -v npm > /dev/null || packages+=(nodejs npm)  # from elsewhere it comes as one package, which npm's conflicts with
    ;;
  lint) packages=("${LINT_PACKAGES[@]}") ;;
  *) die "usage: scripts/setup.sh build|test|lint; got \"$MODE\"." ;;
esac
changed=0

check_space() {
  local free
  free=$(df -Pm . | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$NEEDED_MIB" ] ||
    die "$(pwd) has $free MiB free; torch and a build need $NEEDED_MIB MiB. Free some, or clone to a larger disk."
  [ -w . ] || die "$(pwd) cannot be written by $(id -un)."
}

install_packages() {
  command -v dpkg-query > /dev/null || {
    say "no dpkg here; what the build needs of ${packages[*]} must be there already."
    return
  }
  local missing=() installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2> /dev/null | awk '$2 == "installed" {print $1}' || true)
  for package in "${packages[@]}"; do
    grep -qx "$package" <<< "$installed" || missing+=("$package")
  done
  # A machine without a package index or a network brings these by other means; cmake says what it lacks.
  [ "${EASYDEL_SKIP_APT:-}" = 1 ] && return
  [ ${#missing[@]} -eq 0 ] && return
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null && sudo -n true 2> /dev/null && sudo=(sudo) ||
      die "these Debian packages are missing, and only root can install them. Run: sudo apt-get install -y ${missing[*]}"
  fi
  check_space
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -qq && "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "apt-get could not install ${missing[*]}; its last words are above. EASYDEL_SKIP_APT=1 goes on without them."
  fi
  rm -f "$log"
  changed=1
}

version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

make_venv() {
  [ -x .venv/bin/python3 ] && .venv/bin/python3 -m pip --version > /dev/null 2>&1 && return
  check_space
  command -v python3 > /dev/null || die "python3 is missing. Run: apt-get install python3"
  if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
    packages=(python3-venv)
    install_packages
  fi
  say "making .venv"
  [ ! -d .venv ] || find .venv -mindepth 1 -maxdepth 1 ! -name 'xgrammar-*' -exec rm -rf {} +
  python3 -m venv .venv
  changed=1
}

pip_install() {
  check_space
  .venv/bin/python3 -m pip install --quiet --disable-pip-version-check "$@" 2> .venv/pip.log || {
    tail -n 20 .venv/pip.log >&2
    die "pip could not install $*; its last words are above."
  }
  changed=1
}

torch_directory() { printf '%s\n' .venv/lib/python3*/site-packages/torch; }

install_torch() {
  if [ -n "${EASYDEL_TORCH:-}" ]; then
    local file=$EASYDEL_TORCH/share/cmake/Torch/TorchConfigVersion.cmake version
    [ -f "$file" ] || die "EASYDEL_TORCH=$EASYDEL_TORCH holds no libtorch: share/cmake/Torch/TorchConfigVersion.cmake is missing."
    version=$(sed -n 's/^set(PACKAGE_VERSION "\([^"]*\)").*/\1/p' "$file")
    version_at_least "$OLDEST_TORCH" "$version" || die "torch $OLDEST_TORCH or newer is needed; EASYDEL_TORCH=$EASYDEL_TORCH is $version."
    return
  fi
  make_venv
  [ -f "$(torch_directory)/share/cmake/Torch/TorchConfig.cmake" ] && [ -f ".venv/.torch-$TORCH_VERSION" ] && return
  say "installing torch $TORCH_VERSION into .venv"
  pip_install "torch==$TORCH_VERSION"
  touch ".venv/.torch-$TORCH_VERSION"
}

# Of its source package only what the build compiles. pip asks a package for its metadata, for which it fetches the
# build backend; with a libtorch from elsewhere, the system's python3 will do.
install_xgrammar() {
  local name=xgrammar-$XGRAMMAR_VERSION python=.venv/bin/python3 directory
  [ -n "${EASYDEL_XGRAMMAR:-}" ] || [ -f ".venv/$name/.complete" ] && return
  [ -x "$python" ] || python=python3
  mkdir -p .venv
  say "fetching the sources of xgrammar $XGRAMMAR_VERSION into .venv"
  directory=$(mktemp -d .venv/fetching.XXXXXX)
  if "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary xgrammar \
       --dest "$directory" "xgrammar==$XGRAMMAR_VERSION" > .venv/pip.log 2>&1 &&
     tar -xf "$directory/$name.tar.gz" -C "$directory" "$name"/{LICENSE,NOTICE,cpp,include,3rdparty/picojson,3rdparty/dlpack}; then
    rm -rf ".venv/$name"
    mv "$directory/$name" ".venv/$name"
    touch ".venv/$name/.complete"
    changed=1
  else
    tail -n 5 .venv/pip.log >&2
    say "xgrammar could not be fetched; the build does without it, and answers cannot be bound to a schema."
  fi
  rm -rf "$directory"
}

install_references() {
  make_venv
  local stamp=.venv/.references
  cmp -s tests/reference/requirements.txt "$stamp" && return
  say "installing the Python references of the tests"
  pip_install -r tests/reference/requirements.txt
  cp tests/reference/requirements.txt "$stamp"
}

# What images are compared with, in a folder of its own: transformers imports torchvision wherever it finds it, and the
# package is a CUDA build, whose import fails beside a CPU torch unless a test prepares for it.
install_torchvision() {
  [ -f ".venv/torchvision/.torchvision-$TORCHVISION_VERSION" ] && return
  say "installing torchvision $TORCHVISION_VERSION into .venv/torchvision"
  rm -rf .venv/torchvision
  pip_install --no-deps --target .venv/torchvision "torchvision==$TORCHVISION_VERSION"
  touch ".venv/torchvision/.torchvision-$TORCHVISION_VERSION"
}

# What the tests of the server talk to it with: openai-python's own tests, and the openai package of npm.
install_clients() {
  local version
  version=$(sed -n 's/^openai==//p' tests/reference/requirements.txt)
  if [ ! -f ".venv/clients/openai-$version.tar.gz" ]; then
    say "getting the sources of openai-python $version"
    .venv/bin/python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary openai -d .venv/clients \
      "openai==$version" 2> .venv/pip.log || {
      tail -n 20 .venv/pip.log >&2
      die "pip could not get the sources of openai $version; its last words are above."
    }
    changed=1
  fi
  cmp -s tests/serve/package-lock.json tests/serve/node_modules/.easydel-lock && return
  command -v npm > /dev/null || {
    say "no npm here; the tests with the openai package of Node.js are skipped."
    return
  }
  say "installing the openai package of npm into tests/serve/node_modules"
  (cd tests/serve && npm ci --no-audit --no-fund --loglevel=error) > .venv/npm.log 2>&1 || {
    tail -n 20 .venv/npm.log >&2
    die "npm could not install what tests/serve/package.json asks for; its last words are above."
  }
  cp tests/serve/package-lock.json tests/serve/node_modules/.easydel-lock
  changed=1
}

install_packages
case $MODE in
  build)
    install_torch
    install_xgrammar
    ;;
  test)
    install_references
    install_torchvision
    install_clients
    ;;
esac
[ $changed -eq 1 ] || say "nothing to do for $MODE."
