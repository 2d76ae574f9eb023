#!/usr/bin/env bash
# instrumented_tbb.sh FOLDER: builds libtbb.so.12 with ThreadSanitizer into FOLDER/lib, from the source package of the
# libtbb12 installed. ThreadSanitizer sees the order that a library makes between threads only where that library is
# compiled with it: with Debian's own libtbb every task looks like a race with whoever waits for it.
set -eu
folder=$1
mkdir -p "$folder"
cd "$folder"
[ -e lib/libtbb.so.12 ] && exit 0

# Source packages are asked for beside the system's own lists, which usually name binary ones only.
mkdir -p apt/sources apt/lists/partial
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -f "$list" ] || continue
  case $list in
    *.sources) sed 's/^Types:.*/Types: deb-src/' "$list" >"apt/sources/${list##*/}" ;;
    *.list) sed -n 's/^deb /deb-src /p' "$list" >"apt/sources/${list##*/}" ;;
  esac
done
apt=(apt-get -qq -oDir::Etc::SourceList=/dev/null "-oDir::Etc::SourceParts=$PWD/apt/sources"
     "-oDir::State::Lists=$PWD/apt/lists" -oAPT::Sandbox::User=root)
version=$(dpkg-query -W -f='${source:Version}' libtbb12)
"${apt[@]}" update || true  # a repository without sources is no fault
rm -rf onetbb-*/
"${apt[@]}" source "onetbb=$version"

cmake -S onetbb-*/ -B build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTBB_TEST=OFF -DTBB_STRICT=OFF \
  -DTBBMALLOC_BUILD=OFF -DTBB_SANITIZE=thread -DCMAKE_CXX_FLAGS=-Wno-tsan "${@:2}"
cmake --build build --target tbb
mkdir -p lib
cp build/*/libtbb.so.12 lib/
