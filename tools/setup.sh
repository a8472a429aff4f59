#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks. Safe to run again: it does nothing where nothing is missing.
#   tools/setup.sh [build folder]
# TANDEM_SETUP_PACKAGES names Debian packages to install beside them (CI adds clang-format).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

packages=(g++ cmake ninja-build pkg-config python3-venv libfmt-dev nlohmann-json3-dev libssl-dev libhwy-dev libboost-context-dev libcli11-dev
  libgtest-dev libgmock-dev libbenchmark-dev)
read -ra extra <<<"${TANDEM_SETUP_PACKAGES:-}"
packages+=("${extra[@]}")
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup: installing Debian packages: ${missing[*]}"
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

mkdir -p "$build"
if ! [ -x "$build/venv/bin/python" ]; then
  echo "setup: making the virtual environment $build/venv"
  python3 -m venv "$build/venv"
fi
echo "setup: pip packages of tools/requirements.txt"
"$build/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt
touch "$build/.ready"
