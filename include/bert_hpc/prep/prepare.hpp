// bert_hpc_prep's work: text → rows → vocabulary → tokens → shards. One to three streaming passes over the text; every
// rank reads all of it (that is cheap) and tokenizes its share. The shards are the same bytes on any number of ranks.
#pragma once

#include <functional>
#include <string>

#include "bert_hpc/comm/agreement.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/summary.hpp"

namespace bert_hpc::prep {

using comm::AgreedError;

/// Collective. comm::agree(), with what prep can do about too little memory.
void agree(comm::Communicator& group, const std::function<void()>& step);

/// What was thrown, as an error for the user, with what prep can do about too little memory.
core::Error as_error(const std::exception& thrown);

/// Collective over `group`. `config` is settled. `say` gets progress lines on rank 0. Throws AgreedError if all
/// ranks know, Error where this rank alone does (the others must then be aborted). Files in [output] directory change
/// at the very end only.
Summary prepare(const PrepConfig& config, comm::Communicator& group,
                const std::function<void(const std::string&)>& say);

/// The shards of an earlier run that the results replace, "3 shards of an earlier run in …": how many, and which keys
/// its input gave otherwise; "" if [output] directory holds none. One rank calls it. Throws Error(files).
std::string describe_replaced(const PrepConfig& config);

}  // namespace bert_hpc::prep
