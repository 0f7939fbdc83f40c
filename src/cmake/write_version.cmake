# Writes OUTPUT with VERSION, BUILD and the revision of SOURCE. An unchanged file is not rewritten, so that a commit
# rebuilds one file and no change rebuilds none.
execute_process(COMMAND git describe --always --dirty --tags --abbrev=12 WORKING_DIRECTORY "${SOURCE}"
  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  set(revision "unknown")
endif()
set(text "#include \"bert_hpc/core/version.hpp\"

namespace bert_hpc::core {

std::string_view version() { return \"${VERSION}\"; }
std::string_view revision() { return \"${revision}\"; }
std::string_view build_kind() { return \"${BUILD}\"; }

}  // namespace bert_hpc::core
")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
