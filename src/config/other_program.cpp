#include "bert_hpc/config/toml_reader.hpp"

namespace bert_hpc::config {

void refuse_input_of(const std::string& other_program, const std::string& other_table, const std::string& own_table,
                     const TomlReader& reader, const std::string& name) {
  if (!reader.given(other_table) || reader.given(own_table)) return;
  throw core::Error(core::ExitCode::input, name + ": is an input for " + other_program + " (it has the table [" +
                                               other_table + "]): run that program with it.");
}

}  // namespace bert_hpc::config
