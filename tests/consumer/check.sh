#!/usr/bin/env bash
# Installs a build into a temporary prefix and uses it as a stranger would: find_package from C++, pkg-config from C; looks at the library's
# name, symbols and needs.
#   check.sh BUILD VERSION       VERSION: as the project declares it
set -euo pipefail
build=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
fail() {
  echo "FAILED: $*"
  exit 1
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; fail "cmake --install"; }
library=$(find "$prefix" -name libtandem.so)
[ -n "$library" ] || fail "no libtandem.so was installed"
folder=$(dirname "$library")

echo "== the library"
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
[ "$soname" = "libtandem.so.${version%%.*}" ] || fail "SONAME is '$soname', not libtandem.so.${version%%.*}"
[ -e "$folder/$soname" ] || fail "$soname is not there"
[ -f "$folder/libtandem.so.$version" ] || fail "libtandem.so.$version is not there"
foreign=$(nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | grep -v '^tandem_' || true)
[ -z "$foreign" ] || fail "exports beside tandem_*: $(echo "$foreign" | wc -l), such as $(echo "$foreign" | head -3 | c++filt | paste -sd, | cut -c1-300)"
declared=$(grep -oE '\btandem_[a-z_]+\(' "$prefix/include/tandem/tandem.h" | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | sort -u)
[ "$declared" = "$exported" ] || fail "declared and exported differ: $(diff <(echo "$declared") <(echo "$exported") | grep '^[<>]' | paste -sd' ')"
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p')
echo "$needed" | grep -qE 'cuda|nvrtc|torch' && fail "needs $(echo "$needed" | paste -sd' '): CUDA is opened at run time"
readelf -d "$library" | grep -qE 'RPATH|RUNPATH' && fail "carries a path of the machine that built it"

echo "== headers, each alone"
for header in "$prefix"/include/tandem/*; do
  echo "#include <tandem/$(basename "$header")>" | c++ -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" -x c++ -
done
for standard in c99 c17; do
  echo "#include <tandem/tandem.h>" | cc -std=$standard -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" -x c -
done

echo "== find_package"
cmake -S "$here/project" -B "$work/project" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >"$work/project.log" 2>&1 || { cat "$work/project.log"; fail "configuring the project"; }
cmake --build "$work/project" >"$work/project.log" 2>&1 || { cat "$work/project.log"; fail "building the project"; }
"$work/project/consumer"
cmake -S "$here/project" -B "$work/other" -DCMAKE_PREFIX_PATH="$work/nowhere" -Dtandem_DIR="$work/nowhere" >/dev/null 2>&1 && fail "found without being installed"

echo "== pkg-config, from a prefix that was moved"
moved=$work/moved
mv "$prefix" "$moved"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$moved" -name tandem.pc)")
[ "$(pkg-config --modversion tandem)" = "$version" ] || fail "pkg-config says version $(pkg-config --modversion tandem)"
flags=$(pkg-config --cflags --libs tandem)
# shellcheck disable=SC2086 # several words
cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$here/consumer.c" -o "$work/consumer" $flags
LD_LIBRARY_PATH=$(dirname "$(find "$moved" -name libtandem.so)") "$work/consumer"

if [ -x "$moved/bin/tandem" ]; then
  echo "== the command line tool"
  "$moved/bin/tandem" --help >/dev/null || fail "tandem --help"
fi
echo "installed and used: right"
