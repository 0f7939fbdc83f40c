# Writes OUTPUT, a C++ file with the commented example inputs of FOLDER as text, so that --example works from any
# folder, also without the installed tree.
file(READ "${FOLDER}/example_bert_hpc.toml" trainer)
file(READ "${FOLDER}/example_bert_hpc_prep.toml" prep)
file(WRITE "${OUTPUT}" "#include \"bert_hpc/config/example_input.hpp\"

namespace bert_hpc::config {

std::string_view example_input(std::string_view program) {
  return program == \"bert_hpc_prep\" ? R\"example(${prep})example\" : R\"example(${trainer})example\";
}

}  // namespace bert_hpc::config
")
