// Embeddings of fewer columns than the encoder, and a linear layer between: y = e·wᵀ + b with the e of embeddings.hpp,
// as in ELECTRA's small model (Clark et al. 2020; the idea of Lan et al., "ALBERT: a lite BERT for self-supervised
// learning of language representations", 2020). In a tensor group each rank computes its piece of the rows, and the
// layer is whole.
#pragma once

#include <memory>
#include <string>

#include "bert_hpc/layers/embeddings.hpp"

namespace bert_hpc::layers {

/// projection: name of the linear layer, without ".weight"; hidden: columns of its result. For post-norm models.
std::shared_ptr<const InputKind> projected_embeddings(EmbeddingsSettings embeddings, std::string projection,
                                                      std::int64_t hidden);

}  // namespace bert_hpc::layers
