#!/usr/bin/env bash
# Looks the sources over.
#   tools/lint.sh format            is every C++ and kernel file formatted as .clang-format says? (clang-format 14, Debian 12's)
#   tools/lint.sh format --fix      formats them
#   tools/lint.sh tidy [FILE ...]   clang-tidy with .clang-tidy over src/ and cli/, or over these files; takes minutes
set -euo pipefail
cd "$(dirname "$0")/.."

tracked() { git ls-files --cached --others --exclude-standard -- "$@"; }

format() {
  local files
  mapfile -t files < <(tracked '*.cpp' '*.hpp' '*.h' '*.c' '*.cuh' '*.cu' | grep -v '/wgmma_table\.cuh$')  # that one is generated
  if ! command -v clang-format >/dev/null; then
    echo "lint: clang-format is not installed (Debian package clang-format): formatting was not checked"
    return 0
  fi
  if [ "${1:-}" = --fix ]; then
    clang-format -i "${files[@]}"
  else
    clang-format --dry-run -Werror "${files[@]}"
  fi
}

tidy() {
  command -v clang-tidy >/dev/null || { echo "lint: clang-tidy is not installed (Debian package clang-tidy)" >&2; exit 1; }
  local build=${BUILD:-build} files=("$@")
  ((${#files[@]})) || mapfile -t files < <(tracked 'src/*.cpp' 'cli/*.cpp')
  cmake -S . -B "$build/lint" -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTANDEM_BUILD_TESTS=ON >/dev/null
  printf '%s\n' "${files[@]}" | xargs -P "${JOBS:-$(nproc)}" -n 1 clang-tidy -p "$build/lint" --quiet \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument
}

case ${1:-} in
  format) format "${@:2}" ;;
  tidy) tidy "${@:2}" ;;
  *)
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
