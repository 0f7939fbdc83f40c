# shellcheck shell=bash disable=SC2154
# Sourced by setup.sh after archive.sh: tools that only the tests use, not needed for building or running bert_hpc. None
# is required: the script reports unavailable ones, and their tests are reported as skipped.

# Headers of the newest Kokkos and oneDNN, unpacked separately: the tests check that our files compile against them.
get_newest_headers() { # get_newest_headers NAME PACKAGE FOLDER
  [ -f "$bert_hpc_cache/$3/.complete" ] && return 0
  have apt-get && ! is_ubuntu || return 0
  say "$1 headers: unpacking them into the cache (the tests check our files against them)"
  rm -rf "${bert_hpc_cache:?}/$3"
  if fetch_deb "$2" sid "$bert_hpc_cache/$3"; then
    touch "$bert_hpc_cache/$3/.complete"
  else
    rm -rf "${bert_hpc_cache:?}/$3"
    note "not available here: that check will be skipped"
  fi
}

# Slurm for its tests: only in a container, because elsewhere its packages would start services.
get_slurm() {
  have slurmctld && have slurmd && have munged && have ip && return 0
  if [ -d /run/systemd/system ] || [ "$(id -u)" != 0 ] || ! may_install; then
    note "no Slurm for its tests: they will be skipped"
    return 0
  fi
  say "Slurm: installing it with apt (tests/slurm starts one of its own)"
  apt_install slurmctld slurmd slurm-client munge libpmix-dev iproute2 || note "not available here: its tests will be skipped"
}

# Lmod and environment-modules exclude each other as packages. Unpacked into separate folders, with the paths in their
# scripts adapted, both can be tested without installing either. FOLDER/init.bash defines `module`.
get_module_tools() {
  get_module_tool Lmod lmod "lmod lua5.3 lua-filesystem lua-posix lua-bit32 lua-term lua-json lua-lpeg"
  get_module_tool environment-modules modules "environment-modules tcl8.6 libtcl8.6"
}
get_module_tool() { # get_module_tool NAME FOLDER "PACKAGES"
  local folder=$bert_hpc_cache/$2 file
  [ -f "$folder/init.bash" ] && return 0
  have apt-get && have dpkg-deb || return 0
  say "$1: unpacking it into the cache (the tests load our modulefiles with it)"
  rm -rf "${folder:?}"
  if fetch_deb "$3" "$(codename)" "$folder"; then
    { grep -rlIE '/(usr|etc)/' "$folder/usr/share/lmod" "$folder/usr/share/modules" || true; } 2>/dev/null >"$scratch/files"
    find "$folder/usr/lib" -name modulecmd.tcl >>"$scratch/files"
    while read -r file; do
      sed -i -E "s#/(usr/share/(lmod|lua|modules)|usr/lib/[^/ ]*/lua|usr/bin/lua5|etc/(lmod|environment-modules))#$folder&#g
        s#/usr/bin/tclsh[0-9.]*#$folder/tclsh#; s#/usr/lib/[^/ ]*/modulecmd#$folder&#; s#libdir \{/usr#libdir {$folder/usr#" "$file"
    done <"$scratch/files"
    if [ -x "$folder/usr/bin/tclsh8.6" ]; then
      printf '#!/bin/sh\nTCL_LIBRARY=%s LD_LIBRARY_PATH=%s exec %s "$@"\n' "$folder/usr/share/tcltk/tcl8.6" \
        "$(dirname "$(find "$folder" -name 'libtcl8*.so')")" "$folder/usr/bin/tclsh8.6" >"$folder/tclsh"
      chmod +x "$folder/tclsh"
    fi
    for file in "$folder/usr/share/lmod/lmod/init/bash" "$folder/usr/share/modules/init/bash"; do
      if [ -f "$file" ] && bash -c '. "$1" && module --version' _ "$file" >"$scratch/module.log" 2>&1; then
        ln -s "${file#"$folder"/}" "$folder/init.bash"
      fi
    done
  fi
  [ -f "$folder/init.bash" ] && return 0
  rm -rf "${folder:?}"
  note "not available here: its test will be skipped"
}
