// Linked into every program of a build with sanitizers (BERT_HPC_SANITIZE): their options, independent of where the
// program is started. Leaks are checked at every exit; memory that MPI and the device libraries keep until then is not
// ours to free. Suppressions are by library: the stacks of libraries without frame pointers are only one or two calls
// deep.

// The stacks of leaks in a closed library have no names, and Open MPI closes its components in MPI_Finalize. So
// libraries stay loaded.
extern "C" int dlclose(void*);
extern "C" int dlclose(void*) {
  return 0;
}

// A distinct exit status: 1 also stands for internal errors.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "exitcode=99";
}

extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() {
  return "exitcode=99:print_stacktrace=1";
}

extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}

extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  // vasprintf: only those libraries call it, and its own stack ends there. HDF5 keeps parts of damaged files. A checked
  // communicator that failed keeps its board, where messages may still arrive.
  return "leak:libmpi.so\n"
         "leak:libopen-rte.so\n"
         "leak:libopen-pal.so\n"
         "leak:libpmix.so\n"
         "leak:libhwloc.so\n"
         "leak:libevent\n"
         "leak:mca_\n"
         "leak:vasprintf\n"
         "leak:libhdf5\n"
         "leak:src/comm/checked_communicator.cpp\n"
         "leak:libdnnl.so\n"
         "leak:libOpenCL.so\n";
}
