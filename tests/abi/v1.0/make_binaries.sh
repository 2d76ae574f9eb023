#!/bin/sh
# The binary fixtures of this release, for the machine this runs on. Run once, when it is released.
set -eu
cd "$(dirname "$0")"
machine=$(uname -m)
mkdir -p "$machine"
flags="-O2 -fPIC -shared -fvisibility=hidden -I. -Wl,--version-script=plugin.version -Wl,--no-undefined -Wl,--build-id=none -s"
gcc -std=c11 $flags -o "$machine/sampler_fixture_c.so" sampler_fixture_c.c
g++ -std=c++17 -fvisibility-inlines-hidden $flags -o "$machine/sampler_fixture_cpp.so" sampler_fixture_cpp.cpp
