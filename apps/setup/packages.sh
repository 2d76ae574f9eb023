# The Debian and Ubuntu packages dllm needs, and the function that installs those that are missing.
# Sourced by apps/quickstart and tests/run. Why each one: docs/dependencies.md.

DLLM_BUILD_PACKAGES=(g++ cmake ninja-build pkg-config libboost-dev libboost-program-options-dev libtbb-dev
                     libfmt-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev)
DLLM_TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy binutils
                    abigail-tools dpkg-dev file)
DLLM_FUZZ_PACKAGES=(clang-19 libclang-rt-19-dev)

# install_packages NAME...: installs those dpkg does not know as installed. Needs apt and, for a user
# who is not root, sudo.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! command -v apt-get >/dev/null; then
    echo "error: missing packages: ${missing[*]} (no apt-get here). Fix: install them with your system's package manager" >&2
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "error: missing packages: ${missing[*]} (not root, no sudo). Fix: run as root: apt-get install ${missing[*]}" >&2
      return 1
    }
    as_root=(sudo)
  fi
  local log
  log=$(mktemp)
  echo "Installing: ${missing[*]}" >&2
  if ! { "${as_root[@]}" apt-get update -qq &&
         "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
           --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "error: apt-get could not install: ${missing[*]} (whole log: $log)" >&2
    return 1
  fi
  rm -f "$log"
}

# cmake_launcher: arguments that make cmake use ccache where it is installed.
cmake_launcher() {
  if command -v ccache >/dev/null; then
    echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache
  fi
}
