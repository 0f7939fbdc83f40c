# shellcheck shell=bash disable=SC2154
# Sourced after common.sh: fetches packages from the distribution's own archive without root and without changing the
# system's lists. The mirror is the one that the machine's apt uses. Needs $scratch, a folder for intermediate files.

# archive KIND SUITE COMPONENTS: sets `isolated` to apt options that restrict apt to that suite (KIND: deb, deb-src).
isolated=()
archive() {
  local kind=$1 suite=$2 components=$3 mirror label keyring area
  # shellcheck disable=SC1091
  . /etc/os-release
  case ${ID:-} in
    ubuntu) label=Ubuntu keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg ;;
    *) label=Debian keyring=/usr/share/keyrings/debian-archive-keyring.gpg ;;
  esac
  # The same mirror may be listed several times. Before the first update no label is known; then the release decides.
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Label: $label" | sort -u | sed -n 1p)
  # shellcheck disable=SC2016
  [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' "Created-By: Packages" |
    sed -n "s/^${VERSION_CODENAME:-none} //p" | sort -u | sed -n 1p)
  [ -n "$mirror" ] || return 1
  area=$scratch/apt-$kind-$suite
  mkdir -p "$area/lists/partial" "$area/cache/archives/partial"
  if [ -f "$keyring" ]; then keyring="[signed-by=$keyring] "; else keyring=; fi
  printf '%s %s%s %s %s\n' "$kind" "$keyring" "$mirror" "$suite" "$components" >"$area/sources.list"
  isolated=(-o "Dir::Etc::SourceList=$area/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$area/lists" -o "Dir::Cache=$area/cache" -o "APT::Sandbox::User=$(id -un)")
  [ -f "$area/.updated" ] && return 0
  apt-get "${isolated[@]}" update >"$scratch/apt.log" 2>&1 && touch "$area/.updated"
}

# shellcheck disable=SC1091
codename() { (. /etc/os-release && printf '%s' "${VERSION_CODENAME:-unknown}"); }
# shellcheck disable=SC1091
is_ubuntu() { (. /etc/os-release && [ "${ID:-}" = ubuntu ]); }
components() { if is_ubuntu; then echo "main universe"; else echo main; fi; }

# fetch_deb "PACKAGE..." SUITE FOLDER: unpacks the packages of SUITE into FOLDER. Fails if there is no apt or a package
# is missing.
fetch_deb() {
  local package area packages
  have apt-get && have dpkg-deb || return 1
  archive deb "$2" "$(components)" || return 1
  area=$(mktemp -d "$scratch/debs.XXXXXX")
  read -ra packages <<<"$1"
  (cd "$area" && apt-get "${isolated[@]}" download "${packages[@]}" >"$scratch/apt.log" 2>&1) || return 1
  mkdir -p "$3"
  for package in "$area"/*.deb; do dpkg-deb -x "$package" "$3" || return 1; done
}

# fetch_source PACKAGE SUITE: downloads the original source of PACKAGE into $scratch without unpacking it.
fetch_source() {
  have apt-get || return 1
  archive deb-src "$2" "$(components)" || return 1
  (cd "$scratch" && apt-get "${isolated[@]}" source --download-only "$1" >"$scratch/apt.log" 2>&1)
}

# unpack_kokkos FOLDER: unpacks the source of Kokkos, which is part of the source package trilinos. If setup.sh has a
# bundle, it comes from there.
unpack_kokkos() {
  mkdir -p "$1"
  if [ -n "${bundle:-}" ]; then
    unpack_bundled kokkos "$1"
    return
  fi
  note "fetching the source package trilinos, which carries Kokkos"
  fetch_source trilinos "$(codename)" || return 1
  tar -C "$1" --strip-components=3 --wildcards -xf "$scratch"/trilinos_*.orig.tar.* '*/packages/kokkos/*'
}
kokkos_version() { sed -n 's/^set(Kokkos_VERSION_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\)).*/\2/Ip' "$1/CMakeLists.txt" | paste -sd.; }
