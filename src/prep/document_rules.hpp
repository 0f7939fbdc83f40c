// Rules for inputs whose rows are documents or ids of tokens. Internal to the module.
#pragma once

#include "bert_hpc/prep/prep_config.hpp"

namespace bert_hpc::prep {

/// Rows are documents, of whose lines pairs are made and labelled by bert_hpc_prep.
void check_documents(const PrepConfig& c, config::TomlReader& reader);

/// Texts are ids, which are read as they are.
void check_ids(const PrepConfig& c, config::TomlReader& reader);

}  // namespace bert_hpc::prep
