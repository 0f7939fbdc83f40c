#!/usr/bin/env bash
# Makes one tar file for a cluster without internet: the sources of bert_hpc and of everything that it needs and such a
# cluster may lack, with checksums. Run it on any Debian or Ubuntu with internet (no root needed); it compiles nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$bert_hpc_jobs/archive.sh"

usage() {
  cat <<'USAGE'
jobs/bundle.sh [--only NAMES] [FILE]

  FILE          the tar file to write (default bert_hpc-bundle.tar)
  --only NAMES  only these, in quotes: kokkos tomlplusplus nlohmann_json utf8proc zlib zstd onednn hdf5 openmpi catch2 bert_hpc

On the cluster, with a compiler, CMake and the libraries that the site has (above all its own MPI) on PATH and CMAKE_PREFIX_PATH:
  tar xf bert_hpc-bundle.tar && cd bert_hpc-bundle && tar xf bert_hpc.tar.gz && cd bert_hpc
  ./jobs/build.sh --bundle .. --prefix DIR
builds the missing libraries from the bundle into the cache, without network.
USAGE
}

names="kokkos tomlplusplus nlohmann_json utf8proc zlib zstd onednn hdf5 openmpi catch2 bert_hpc" output=bert_hpc-bundle.tar
while [ $# -gt 0 ]; do
  case $1 in
    --only) [ $# -ge 2 ] || fail 2 "--only needs names"; names=$2; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; fail 2 "unknown option $1" ;;
    *) output=$1 ;;
  esac
  shift
done
[ -n "$bert_hpc_source" ] || fail 2 "jobs/bundle.sh works from a checkout; this is an installed bert_hpc"
have apt-get || fail 2 "jobs/bundle.sh takes sources from the archive of Debian or Ubuntu: run it where there is apt-get"
case $output in /*) ;; *) output=$PWD/$output ;; esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
folder=$scratch/bert_hpc-bundle
mkdir -p "$folder"

# from_archive NAME PACKAGE SUITE…: the original source of PACKAGE from the first SUITE that has it, as NAME-VERSION.tar.*.
from_archive() {
  local name=$1 package=$2 suite found version
  shift 2
  for suite in "$@"; do
    fetch_source "$package" "$suite" || continue
    for found in "$scratch/${package}_"*.orig.tar.*; do
      case $found in *.asc) continue ;; esac
      version=${found##*/"${package}"_}
      cp "$found" "$folder/$name-${version%.orig.tar.*}.tar.${found##*.}"
      return 0
    done
  done
  return 1
}
# A header-only library: its package contains its source.
toml_headers() {
  local unpacked=$scratch/toml version
  fetch_deb libtomlplusplus-dev "$(codename)" "$unpacked" || return 1
  version=$(sed -n 's/^Version: //p' "$(find "$unpacked" -name tomlplusplus.pc)")
  tar -C "$unpacked/usr" -czf "$folder/tomlplusplus-$version.tar.gz" include
}
kokkos() {
  unpack_kokkos "$scratch/kokkos" || return 1
  tar -C "$scratch" -czf "$folder/kokkos-$(kokkos_version "$scratch/kokkos").tar.gz" kokkos
}
own_source() {
  if have git && git -C "$bert_hpc_source" rev-parse --verify -q HEAD >/dev/null; then
    git -C "$bert_hpc_source" archive --format=tar.gz --prefix=bert_hpc/ -o "$folder/bert_hpc.tar.gz" HEAD
  else
    return 1
  fi
}

own=$(codename)
for name in $names; do
  say "$name"
  # oneDNN and Catch2: if this release has none, the source of a later one works, because the cluster compiles it.
  case $name in
    kokkos) kokkos ;;
    tomlplusplus) from_archive tomlplusplus tomlplusplus "$own" || toml_headers ;;
    nlohmann_json) from_archive nlohmann_json nlohmann-json3 "$own" ;;
    onednn) from_archive onednn onednn "$own" trixie sid ;;
    zstd) from_archive zstd libzstd "$own" ;;
    catch2) from_archive catch2 catch2 "$own-backports" "$own" ;;
    utf8proc | zlib | hdf5 | openmpi) from_archive "$name" "$name" "$own" ;;
    bert_hpc) own_source ;;
    *) fail 2 "unknown source $name; --help lists them" ;;
  esac || {
    sed -n 's/^[EW]: /   apt: /p' "$scratch/apt.log" 2>/dev/null | tail -n 2 >&2 || true
    case $name in
      onednn | catch2 | zstd) note "left out: cannot get its source; bert_hpc works without it" ;;
      *) fail 4 "cannot get the source of $name" ;;
    esac
  }
done
(cd "$folder" && sha256sum -- *.tar.* >SHA256SUMS && stat -c '   %n: %s bytes' -- *.tar.*)
if ! tar -C "$scratch" -cf "$output.part" bert_hpc-bundle || ! mv "$output.part" "$output"; then fail 4 "cannot write $output"; fi
say "Made $output ($(($(stat -c %s "$output") / 1048576)) MiB); --help says how to use it"
