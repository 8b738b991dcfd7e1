#!/usr/bin/env bash
# Install Chromium from the distribution's packages, for tests/browser, unless there is one.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" > /dev/null; then
    echo "$(command -v "$name") is there"
    exit 0
  fi
done
command -v apt-get > /dev/null || { echo "no apt-get: install chromium by your system's own means" >&2; exit 1; }
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null
command -v chromium
